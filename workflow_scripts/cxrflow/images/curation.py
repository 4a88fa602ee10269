"""Which of several acquisitions stands for a study (BioViL-T section 3.3, Appendix A.4).

A visit has several images where the first was bad: part of the chest is cut off, or another part of
the body was taken. The image that fits its report best is kept, but only if it beats every other by
a margin; a study without such an image is left undecided, and its cohort chooses as it always does.
"""

import numpy as np
import pandas as pd

ONLY, BEST, REJECTED, UNDECIDED = "only", "best", "rejected", "undecided"


def decide(scores: pd.DataFrame, margin: float) -> pd.DataFrame:
    """Decide for each study.

    Args:
        scores: ``study_id``, ``image_id``, ``score`` (S_C of section 3.3: cosine of the image's and
            the report's projected embeddings), a row an image.
        margin: delta; the best must be better than the second by more.

    Returns:
        The rows with ``lead``, the best score of the study less the second (NaN for one image), and
        ``decision``: only, best, rejected or undecided.
    """
    rank = scores.groupby("study_id")["score"].rank(method="first", ascending=False)
    best, second = (
        scores["study_id"].map(scores[rank == place].set_index("study_id")["score"])
        for place in (1, 2)
    )
    lead = (best - second).astype("float64")
    decision = np.select(
        [lead.isna().to_numpy(), (lead <= margin).to_numpy(), (rank == 1).to_numpy()],
        [ONLY, UNDECIDED, BEST],
        REJECTED,
    )
    return scores.assign(lead=lead, decision=decision)


def against_truth(decided: pd.DataFrame, usable: pd.Series) -> pd.DataFrame:
    """Judge the decision on each study in which one image is usable and another is spoilt.

    Args:
        decided: the result of :func:`decide`.
        usable: True for a usable image, by image id; images that it lacks do not count.

    Returns:
        By study id, each from 0 to 1: ``rejected``, a usable image is the best; ``wrong``, a spoilt
        one is; ``stands``, how probably a usable one stands for the study, where an undecided one
        draws at random; ``chance``, how probably without curation; ``ranked``, in which share of
        its pairs of a usable and a spoilt image the usable one has the higher score.
    """
    judged = decided[decided["image_id"].isin(usable.index)]
    good = judged["image_id"].map(usable).astype(bool)
    share = good.groupby(judged["study_id"]).mean()
    studies = share[(share > 0) & (share < 1)].rename("chance").to_frame()

    def won(kind: "pd.Series[bool]") -> pd.Series:
        best = judged.loc[kind & (judged["decision"] == BEST), "study_id"]
        return studies.index.to_series().isin(best).astype("float64")

    pairs = judged[good].merge(judged[~good], on="study_id", suffixes=("", "_spoilt"))
    above = (pairs["score"] > pairs["score_spoilt"]) + (pairs["score"] == pairs["score_spoilt"]) / 2
    studies = studies.assign(rejected=won(good), wrong=won(~good))
    undecided = 1 - studies["rejected"] - studies["wrong"]
    return studies.assign(
        stands=studies["rejected"] + undecided * studies["chance"],
        ranked=above.groupby(pairs["study_id"]).mean(),
    )
