"""Disagreements of our labels with the reference, with the sentences and rules behind them.

Studies that differ are labelled again, with reasons. A sentence is ranked by its disagreements
(study and finding) times the share of its studies that disagree, so that a sentence that is always
misread comes before a frequent one beside mistakes. Sentences that differ in case or spacing alone
are the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.parquet import read_table
from cxr_labels.agreement import STATES, state_codes
from cxr_labels.observations import POSITIVE
from cxr_labels.scope.labeller import Reason, ScopeLabeller
from cxr_labels.settings import LabellerSettings

NO_FINDING = "No Finding"
NOTHING_READ = "nothing read"
NOT_TOLD = "not told by this engine"
COLUMNS = (
    *("rank", "study_id", "finding", "ours", "given", "sentence", "phrase", "rule"),
    *("disagreements", "studies"),
)


class LabelEvidence(NamedTuple):
    """A sentence that a label may come from; None if there is no candidate."""

    sentence: str | None
    phrase: str
    rule: str


def labelled_sentences(
    corpus: Path, sections: pd.DataFrame, text: str | None
) -> tuple[NDArray[np.str_], NDArray[np.object_]]:
    """Return the sentences that were labelled, study by study in reading order.

    Args:
        corpus: folder with ``sentences.parquet``.
        sections: rows of ``sections.parquet`` of the studies to read.
        text: ``conclusion`` or ``findings_and_impression`` (``reports.labels.text``).

    Returns:
        Study ids [S] and sentences [S].
    """
    table = read_table(corpus / "sentences.parquet", ("study_id", "section", "sentence"))
    source = sections.set_index("study_id")["conclusion_from"]
    table = table[table["study_id"].isin(source.index)]
    labelled = table["section"] == table["study_id"].map(source)
    if text == "findings_and_impression":
        main = table["section"].isin(("findings", "impression"))
        has_main = table["study_id"].isin(table.loc[main, "study_id"])
        labelled = main | (labelled & ~has_main)
    rows = table.loc[labelled, ["study_id", "sentence"]]
    # The corpus has a conclusion from a further section as one text, not by sentence.
    unsplit = ~sections["study_id"].isin(rows["study_id"]) & sections["conclusion"].notna()
    texts = sections.loc[unsplit, ["study_id", "conclusion"]].set_axis(list(rows), axis=1)
    rows = pd.concat([rows, texts], ignore_index=True).sort_values("study_id", kind="stable")
    return rows["study_id"].to_numpy(str), rows["sentence"].to_numpy(object)


def fold(sentence: str) -> str:
    """Return a sentence in lower case with single spaces."""
    return " ".join(sentence.casefold().split())


def behind_label(
    finding: str, value: float, sentences: Sequence[str], reasons: Sequence[Reason]
) -> list[LabelEvidence]:
    """Return the sentences behind one label of a study.

    A blank label has no reason: then the sentences without any reason are candidates. A No Finding
    that is not positive comes from the findings that were read.
    """
    if finding == NO_FINDING and value != POSITIVE:
        chosen = [reason for reason in reasons if reason.is_finding]
    else:
        chosen = [r for r in reasons if r.observation == finding and r.value == value]
    if not chosen:
        read = {reason.sentence for reason in reasons}
        silent = [s for number, s in enumerate(sentences) if number not in read]
        return [LabelEvidence(s, "", NOTHING_READ) for s in silent or (None,)]
    by_sentence: dict[int, list[Reason]] = {}
    for reason in chosen:
        by_sentence.setdefault(reason.sentence, []).append(reason)
    return [
        LabelEvidence(
            sentences[number],
            "; ".join(dict.fromkeys(r.phrase for r in sentence_reasons)),
            "; ".join(dict.fromkeys(r.rule for r in sentence_reasons)),
        )
        for number, sentence_reasons in by_sentence.items()
    ]


def find_disagreements(
    studies: Sequence[str],
    findings: Sequence[str],
    ours_NF: NDArray[np.float64],
    reference_NF: NDArray[np.float64],
    differ_NF: NDArray[np.bool_],
    sentences: Mapping[str, Sequence[str]],
    labeller: ScopeLabeller | None,
) -> Iterator[dict[str, object]]:
    """Yield a row for each label that differs and each sentence behind it.

    Args:
        studies: the N study ids; ``findings``: the F names.
        ours_NF, reference_NF: labels 1, 0, -1, NaN.
        differ_NF: True where they count as different.
        sentences: the labelled sentences, by study.
        labeller: gives the reasons; None for an engine without: then all sentences are yielded.
    """
    ours, reference = state_codes(ours_NF), state_codes(reference_NF)
    for row in np.flatnonzero(differ_NF.any(axis=1)).tolist():
        study = studies[row]
        texts = sentences.get(study, ())
        reasons = labeller.explain(texts) if labeller is not None else []
        for column in np.flatnonzero(differ_NF[row]).tolist():
            finding = findings[column]
            if labeller is None:
                evidence = [LabelEvidence(text, "", NOT_TOLD) for text in texts]
            else:
                evidence = behind_label(finding, float(ours_NF[row, column]), texts, reasons)
            labels = {"ours": STATES[ours[row, column]], "given": STATES[reference[row, column]]}
            for sentence in evidence:
                yield {"study_id": study, "finding": finding, **labels, **sentence._asdict()}


def rank(rows: pd.DataFrame, folded: pd.Series, studies_with: pd.Series) -> pd.DataFrame:
    """Number the sentences: 1 has the most disagreements, weighted by the share of its studies.

    Args:
        rows: of :func:`find_disagreements`.
        folded: their sentences, folded; rows with null come last.
        studies_with: the number of studies with each folded sentence.

    Returns:
        ``COLUMNS``, by rank, then study and finding; ``disagreements`` of the sentence and
        ``studies`` with it.
    """
    table = rows.assign(folded=folded)
    sentences = table.dropna(subset="folded")
    pairs = sentences.drop_duplicates(["folded", "study_id", "finding"]).groupby("folded").size()
    wrong = sentences.drop_duplicates(["folded", "study_id"]).groupby("folded").size()
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
    reference_NF: NDArray[np.float64],
    differ_NF: NDArray[np.bool_],
) -> pd.DataFrame:
    """Return the ranked disagreements; ``sections`` has the N studies in the labels' order."""
    ids, texts = labelled_sentences(corpus, sections, settings.text)
    sentences: dict[str, list[str]] = {}
    for study, text in zip(ids.tolist(), texts.tolist(), strict=True):
        sentences.setdefault(study, []).append(text)
    studies = sections["study_id"].tolist()
    # Label again for the reasons, which the corpus does not keep; CheXbert has none.
    labeller = ScopeLabeller() if settings.engine == "scope" else None
    rows = pd.DataFrame(
        find_disagreements(
            studies, findings, ours_NF, reference_NF, differ_NF, sentences, labeller
        ),
        columns=["study_id", "finding", "ours", "given", "sentence", "phrase", "rule"],
        dtype="str",
    )
    occurrences = pd.DataFrame({"study": ids, "folded": [fold(text) for text in texts]})
    studies_with = occurrences.drop_duplicates().groupby("folded").size()
    folded = rows["sentence"].map(fold, na_action="ignore")
    return rank(rows, folded, studies_with)
