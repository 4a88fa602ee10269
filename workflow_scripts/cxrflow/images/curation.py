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


def against_truth(decided: pd.DataFrame, usable: pd.Series) -> dict[str, float | int | None]:
    """What was decided where one image of a study is usable and another is spoilt.

    ``usable``: by image id. ``rejected``: share of those studies in which a usable image was the
    best; ``wrong``: in which a spoilt one was; the others are undecided. Images without truth have
    no part.
    """
    known = decided[decided["image_id"].isin(usable.index)]
    good = known["image_id"].map(usable).astype(bool)
    by_study = good.groupby(known["study_id"])
    mixed = known["study_id"].map(by_study.any() & ~by_study.all())
    best = mixed & (known["decision"] == BEST)
    studies = int(known.loc[mixed, "study_id"].nunique())
    if studies == 0:
        return {"studies": 0, "rejected": None, "wrong": None}
    return {
        "studies": studies,
        "rejected": float((best & good).sum() / studies),
        "wrong": float((best & ~good).sum() / studies),
    }
