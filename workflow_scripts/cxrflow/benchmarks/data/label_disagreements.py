"""Where our labels and given ones differ: the sentences and rules behind it, most telling first.

A study that differs is read again, and its labels say why they are what they are. A sentence is
ranked by its disagreements (study and finding) times the share of its studies that disagree: one
that is always read wrongly comes before one that often stands beside a mistake. Equal sentences,
whatever their case and spacing, are one.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.files.parquet import read_table
from cxrflow.metrics.label_agreement import STATES, state_codes
from cxrflow.reports.labels.observations import POSITIVE
from cxrflow.reports.labels.scope.labeller import Reason, ScopeLabeller
from cxrflow.reports.settings import LabellerSettings

NO_FINDING = "No Finding"
NOTHING_READ = "nothing read"
NOT_TOLD = "not told by this engine"
COLUMNS = (
    *("rank", "study_id", "finding", "ours", "given", "sentence", "phrase", "rule"),
    *("disagreements", "studies"),
)


class Behind(NamedTuple):
    """A sentence that may be behind a label; None where there is none to name."""

    sentence: str | None
    phrase: str
    rule: str


def labelled_sentences(
    corpus: Path, sections: pd.DataFrame, text: str | None
) -> tuple[NDArray[np.str_], NDArray[np.object_]]:
    """The sentences that were labelled, study by study in reading order.

    Args:
        corpus: folder with ``sentences.parquet``.
        sections: rows of ``sections.parquet`` of the studies that are wanted.
        text: ``conclusion`` or ``findings_and_impression`` (``reports.labels.text``).

    Returns:
        Study ids and sentences, one row a sentence.
    """
    found = read_table(corpus / "sentences.parquet", ("study_id", "section", "sentence"))
    source = sections.set_index("study_id")["conclusion_from"]
    found = found[found["study_id"].isin(source.index)]
    labelled = found["section"] == found["study_id"].map(source)
    if text == "findings_and_impression":
        both = found["section"].isin(("findings", "impression"))
        has_both = found["study_id"].isin(found.loc[both, "study_id"])
        labelled = both | (labelled & ~has_both)
    rows = found.loc[labelled, ["study_id", "sentence"]]
    # A conclusion out of another section is kept whole in the corpus, not by sentence.
    whole = sections[~sections["study_id"].isin(rows["study_id"]) & sections["conclusion"].notna()]
    whole = whole[["study_id", "conclusion"]].rename(columns={"conclusion": "sentence"})
    rows = pd.concat([rows, whole], ignore_index=True).sort_values("study_id", kind="stable")
    return rows["study_id"].to_numpy(str), rows["sentence"].to_numpy(object)


def fold(sentence: str) -> str:
    """A sentence without case and spacing."""
    return " ".join(sentence.casefold().split())


def behind_label(
    finding: str, value: float, sentences: Sequence[str], reasons: Sequence[Reason]
) -> list[Behind]:
    """The sentences behind one label of a study; where nothing was read, those that assert nothing.

    A No Finding that is not positive is because of the findings that were read.
    """
    if finding == NO_FINDING and value != POSITIVE:
        chosen = [reason for reason in reasons if reason.is_finding]
    else:
        chosen = [r for r in reasons if r.observation == finding and r.value == value]
    if not chosen:
        read = {reason.sentence for reason in reasons}
        silent = [s for number, s in enumerate(sentences) if number not in read]
        return [Behind(s, "", NOTHING_READ) for s in silent] or [Behind(None, "", NOTHING_READ)]
    by_sentence: dict[int, list[Reason]] = {}
    for reason in chosen:
        by_sentence.setdefault(reason.sentence, []).append(reason)
    return [
        Behind(
            sentences[number],
            "; ".join(dict.fromkeys(r.phrase for r in found)),
            "; ".join(dict.fromkeys(r.rule for r in found)),
        )
        for number, found in by_sentence.items()
    ]


def find_disagreements(
    studies: Sequence[str],
    findings: Sequence[str],
    ours_NF: NDArray[np.float64],
    given_NF: NDArray[np.float64],
    differ_NF: NDArray[np.bool_],
    sentences: Mapping[str, Sequence[str]],
    labeller: ScopeLabeller | None,
) -> Iterator[dict[str, object]]:
    """A row for each label that differs and each sentence behind it.

    Args:
        studies: the N study ids; ``findings``: the F names.
        ours_NF, given_NF: labels 1, 0, -1, NaN.
        differ_NF: which of them count as different.
        sentences: what was labelled, by study.
        labeller: gives the reasons; None for an engine that has none: then every sentence is named.
    """
    ours, given = state_codes(ours_NF), state_codes(given_NF)
    for row in np.flatnonzero(differ_NF.any(axis=1)).tolist():
        study = studies[row]
        texts = sentences.get(study, ())
        reasons = labeller.explain(texts) if labeller is not None else []
        for column in np.flatnonzero(differ_NF[row]).tolist():
            finding = findings[column]
            if labeller is None:
                behind = [Behind(text, "", NOT_TOLD) for text in texts]
            else:
                behind = behind_label(finding, float(ours_NF[row, column]), texts, reasons)
            said = {"ours": STATES[ours[row, column]], "given": STATES[given[row, column]]}
            for one in behind:
                yield {"study_id": study, "finding": finding, **said, **one._asdict()}


def rank(rows: pd.DataFrame, folded: pd.Series, studies_with: pd.Series) -> pd.DataFrame:
    """Number the sentences: 1 has the most disagreements, weighted by the share of its studies.

    Args:
        rows: as :func:`find_disagreements` gives them.
        folded: their sentences, folded; null where none is named, which come last.
        studies_with: in how many studies each folded sentence stands.

    Returns:
        ``COLUMNS``, by rank, then study and finding; ``disagreements`` of the sentence and
        ``studies`` with it.
    """
    table = rows.assign(folded=folded)
    named = table.dropna(subset="folded")
    pairs = named.drop_duplicates(["folded", "study_id", "finding"]).groupby("folded").size()
    wrong = named.drop_duplicates(["folded", "study_id"]).groupby("folded").size()
    sums = pd.DataFrame({"disagreements": pairs, "studies": studies_with.reindex(pairs.index)})
    sums["weight"] = sums["disagreements"] * wrong / sums["studies"]
    sums = sums.sort_index().sort_values("weight", ascending=False, kind="stable")
    sums["rank"] = np.arange(1, len(sums) + 1)
    table = table.join(sums, on="folded")
    counts = ["rank", "disagreements", "studies"]
    table[counts] = table[counts].astype("Int64")
    table = table.sort_values(["rank", "study_id", "finding"], kind="stable", ignore_index=True)
    return table[list(COLUMNS)]


def ranked_disagreements(
    corpus: Path,
    sections: pd.DataFrame,
    settings: LabellerSettings,
    findings: Sequence[str],
    ours_NF: NDArray[np.float64],
    given_NF: NDArray[np.float64],
    differ_NF: NDArray[np.bool_],
) -> pd.DataFrame:
    """The ranked table of a comparison; ``sections`` has the N studies in the labels' order."""
    ids, texts = labelled_sentences(corpus, sections, settings.text)
    sentences: dict[str, list[str]] = {}
    for study, text in zip(ids.tolist(), texts.tolist(), strict=True):
        sentences.setdefault(study, []).append(text)
    studies = sections["study_id"].tolist()
    # The engine again, for its reasons; the network has none.
    labeller = ScopeLabeller() if settings.engine == "scope" else None
    rows = pd.DataFrame(
        find_disagreements(studies, findings, ours_NF, given_NF, differ_NF, sentences, labeller),
        columns=["study_id", "finding", "ours", "given", "sentence", "phrase", "rule"],
        dtype="str",
    )
    everywhere = pd.DataFrame({"study": ids, "folded": [fold(text) for text in texts]})
    studies_with = everywhere.drop_duplicates().groupby("folded").size()
    folded = rows["sentence"].map(fold, na_action="ignore")
    return rank(rows, folded, studies_with)
