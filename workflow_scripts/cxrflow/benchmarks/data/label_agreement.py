"""Agreement of our report labels with reference labels (Irvin et al. 2019, "Evaluation").

The reference is MIMIC-CXR-JPG's CheXpert or NegBio table, a table of the user's, or Open-I's human
index terms. Per finding and class (positive, negative, uncertain)
precision, recall and F1; their micro and macro averages; Cohen's kappa; intervals over patients.
No Finding is scored for positive only.

Writes metrics.json, agreement.csv (finding by class), confusion.csv (finding, our state, the
reference's), predictions.parquet (a row for each study) and disagreements.parquet: every label that
differs, with the sentences and rules behind ours, ranked. That file has report text, as the corpus.
"""

import hashlib
import logging
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from cxr_files.atomic import fingerprint, read_object
from cxr_files.csv_table import bare_ids
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxr_files.settings import explain
from cxr_labels.agreement import (
    CLASSES,
    SCORES,
    STATES,
    agreement_metrics,
    confusions,
    differing,
    state_codes,
)
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.settings import LabellerSettings, ReportSettings
from cxrflow.benchmarks.data.label_disagreements import NO_FINDING, ranked_disagreements
from cxrflow.benchmarks.data.reference_labels import read_reference_labels
from cxrflow.benchmarks.data.settings import LabelAgreementSettings
from cxrflow.benchmarks.result import Result
from cxrflow.metrics.intervals import Estimate, Floats, bootstrap, clusters_of

log = logging.getLogger("cxrflow")

SECTIONS = ("study_id", "subject_id", "conclusion", "conclusion_from", "outcome")


@dataclass(frozen=True)
class CorpusLabels:
    """Our labels of a corpus, the sections of its reports, and the labeller's settings."""

    folder: Path
    labels: pd.DataFrame
    sections: pd.DataFrame
    settings: LabellerSettings
    data: dict[str, Any]  # name, synthetic, fingerprint

    @classmethod
    def read(cls, folder: Path) -> "CorpusLabels":
        """Read ``results/corpus/<dataset>``; InputError if a file is missing or damaged."""
        corpus = read_object(
            folder / "corpus.json",
            ("dataset", "synthetic", "settings", "fingerprint", "settings_fingerprint"),
        )
        try:
            settings = ReportSettings.model_validate(corpus["settings"])
        except ValidationError as error:
            raise InputError(explain(error, f"{folder / 'corpus.json'}, settings")) from None
        data = {
            "name": corpus["dataset"],
            "synthetic": bool(corpus["synthetic"]),
            "fingerprint": fingerprint([corpus["fingerprint"], corpus["settings_fingerprint"]]),
        }
        return cls(
            folder,
            read_table(folder / "labels.parquet", ("study_id", *OBSERVATIONS)),
            read_table(folder / "sections.parquet", SECTIONS)[list(SECTIONS)],
            settings.labels,
            data,
        )


@dataclass(frozen=True)
class MatchedLabels:
    """Labels of the N studies that both sides label, for the reference's F findings."""

    sections: pd.DataFrame  # N rows
    findings: list[str]
    ours_NF: Floats
    reference_NF: Floats
    dropped: list[dict[str, Any]]


def match(ours: CorpusLabels, reference: pd.DataFrame, positives_only: bool) -> MatchedLabels:
    """Select the studies of both sides; studies of one side only are counted by reason.

    In a reference of positives 0 and -1 assert nothing and become blank. So does a No Finding that
    is not positive, on both sides.

    Raises:
        InputError: no study is on both sides.
    """
    findings = [name for name in OBSERVATIONS if name in reference]
    labels = ours.labels.assign(key=bare_ids(ours.labels["study_id"])).set_index("key")
    theirs = reference.set_index("study_id")
    shared = labels.index[labels.index.isin(theirs.index)]
    dropped = _one_sided(ours, labels, theirs)
    if labels.empty:
        raise InputError(f"{ours.folder / 'labels.parquet'}: no rows; expected labelled reports")
    if shared.empty:
        raise InputError(
            f"{ours.folder}: none of its {len(labels)} labelled studies is among the "
            f"{len(theirs)} of the given labels; expected study ids such as {labels.index[0]!r}, "
            f"found {theirs.index[0]!r}"
        )
    sections = ours.sections.set_index("study_id").loc[labels.loc[shared, "study_id"]].reset_index()
    ours_NF = labels.loc[shared, findings].to_numpy(np.float64, copy=True)
    reference_NF = theirs.loc[shared, findings].to_numpy(np.float64, copy=True)
    if positives_only:
        reference_NF = np.where(reference_NF == 1, 1.0, np.nan)
    if NO_FINDING in findings:
        column = findings.index(NO_FINDING)
        for side_NF in (ours_NF, reference_NF):
            side_NF[side_NF[:, column] != 1, column] = np.nan
    return MatchedLabels(sections, findings, ours_NF, reference_NF, dropped)


def _one_sided(
    ours: CorpusLabels, labels: pd.DataFrame, theirs: pd.DataFrame
) -> list[dict[str, Any]]:
    missed = theirs.index[~theirs.index.isin(labels.index)].to_series()
    outcomes = ours.sections.set_index(bare_ids(ours.sections["study_id"]))["outcome"]
    reasons = ("given only: our report has no labels (" + missed.map(outcomes) + ")").fillna(
        "given only: not in the corpus"
    )
    extra = labels.index[~labels.index.isin(theirs.index)].to_series()
    reasons = pd.concat([reasons, extra.map(lambda _: "ours only: no given labels")])
    drops = [Drop.of(str(reason), ids.index) for reason, ids in reasons.groupby(reasons)]
    for drop in drops:
        log.warning("%d studies left out: %s", drop.count, drop.reason)
    return [drop.as_json() for drop in drops]


def scored_classes(
    findings: Sequence[str], uncertain: str, positives_only: bool
) -> dict[str, list[str]]:
    """Return the findings that are scored, by class."""
    asserted = [name for name in findings if name != NO_FINDING]
    classes = {"positive": list(findings)}
    if not positives_only:
        classes |= {"negative": asserted}
        if uncertain == "apart":
            classes |= {"uncertain": asserted}
    return {name: members for name, members in classes.items() if members}


def summarise(
    matched: MatchedLabels, settings: LabelAgreementSettings, positives_only: bool
) -> tuple[dict[str, Estimate], Floats]:
    """Return the metrics with intervals over patients, and the confusions ``[F, 4, 4]``."""
    findings, chosen = matched.findings, settings.intervals
    ours_NF = state_codes(matched.ours_NF, settings.uncertain)
    reference_NF = state_codes(matched.reference_NF, settings.uncertain)
    classes = scored_classes(findings, settings.uncertain, positives_only)
    clusters_N = clusters_of(matched.sections["subject_id"], chosen.unit)
    # Scores depend on the counts alone, so that a resample sums patients' counts, not studies.
    counts_GFSS = confusions(ours_NF, reference_NF, clusters_N)
    patients = counts_GFSS.reshape(len(counts_GFSS), -1)

    def metrics(counts: Floats) -> dict[str, Floats]:
        return agreement_metrics(
            (counts @ patients).reshape(len(counts), *counts_GFSS.shape[1:]),
            findings,
            classes,
            positives_only=positives_only,
            no_finding=NO_FINDING,
        )

    total = counts_GFSS.sum(axis=0)
    names = metrics(np.ones((1, len(patients))))
    sizes = {name: _size(name, total, findings, classes) for name in names}
    estimates = bootstrap(metrics, np.arange(len(patients)), sizes, **chosen.resampling())
    return estimates, total


def _size(name: str, counts: Floats, findings: list[str], classes: dict[str, list[str]]) -> int:
    """Return the number of samples behind a metric: reference labels, studies, or all labels."""
    score, _, rest = name.partition("/")
    if score == "agreement":
        return int(counts.sum())
    if score in ("kappa", "macro_kappa"):
        return int(counts[0].sum())
    state, _, finding = rest.partition("/")
    members = [finding] if finding else list(classes[state])
    if score.endswith("_without_no_finding"):
        members.remove(NO_FINDING)
    rows = [findings.index(member) for member in members]
    return int(counts[rows][:, :, STATES.index(state)].sum())


def agreement_table(
    metrics: dict[str, Estimate], counts: Floats, findings: list[str]
) -> pd.DataFrame:
    """Return counts and scores with intervals, a row for each scored finding and class."""
    rows = []
    for number, finding in enumerate(findings):
        for state, name in enumerate(CLASSES):
            if f"f1/{name}/{finding}" not in metrics:
                continue
            row: dict[str, Any] = {
                "finding": finding,
                "class": name,
                "given": int(counts[number, :, state].sum()),
                "ours": int(counts[number, state].sum()),
                "both": int(counts[number, state, state]),
            }
            for score in SCORES:
                estimate = metrics[f"{score}/{name}/{finding}"]
                low, high = estimate.low, estimate.high
                row |= {score: estimate.value, f"{score}_low": low, f"{score}_high": high}
            rows.append(row)
    return pd.DataFrame(rows)


def confusion_table(counts: Floats, findings: list[str]) -> pd.DataFrame:
    """Return the number of studies by finding, our state and the reference's."""
    return pd.DataFrame(
        [
            (finding, ours, reference, int(counts[number, row, column]))
            for number, finding in enumerate(findings)
            for row, ours in enumerate(STATES)
            for column, reference in enumerate(STATES)
        ],
        columns=["finding", "ours", "given", "studies"],
    )


def compare(
    ours: CorpusLabels, reference: pd.DataFrame, name: str, settings: LabelAgreementSettings
) -> tuple[Result, dict[str, pd.DataFrame]]:
    """Return the result, and its tables by name; ``name`` is the reference's."""
    positives_only = settings.positives_only or settings.layout == "open_i"
    matched = match(ours, reference, positives_only)
    metrics, counts = summarise(matched, settings, positives_only)
    differ_NF = differing(
        state_codes(matched.ours_NF, settings.uncertain),
        state_codes(matched.reference_NF, settings.uncertain),
        positives_only,
    )
    disagreements = ranked_disagreements(
        ours.folder, matched.sections, ours.settings, matched.findings,
        matched.ours_NF, matched.reference_NF, differ_NF,
    )  # fmt: skip
    columns: dict[str, Any] = {"study_id": matched.sections["study_id"]}
    for side, values in (("ours", matched.ours_NF), ("given", matched.reference_NF)):
        columns |= {f"{side}/{f}": values[:, i] for i, f in enumerate(matched.findings)}
    protocol = {
        **settings.model_dump(mode="json"),
        "positives_only": positives_only,
        "reference": name,
        "labels": ours.settings.model_dump(mode="json"),
        "findings": matched.findings,
        "classes": scored_classes(matched.findings, settings.uncertain, positives_only),
        "macro": "mean over the findings that the reference has the class of",
    }
    digest = hashlib.sha256(reference.to_csv(index=False).encode()).hexdigest()[:16]
    data = {
        **ours.data,
        "fingerprint": fingerprint([ours.data["fingerprint"], digest]),
        "studies": len(matched.sections),
        "studies_differing": int(differ_NF.any(axis=1).sum()),
        "labels_differing": int(differ_NF.sum()),
        "dropped": matched.dropped,
    }
    result = Result("label_agreement", data, protocol, metrics, pd.DataFrame(columns))
    return result, {
        "agreement": agreement_table(metrics, counts, matched.findings),
        "confusion": confusion_table(counts, matched.findings),
        "disagreements": disagreements,
    }


def write(folder: Path, result: Result, tables: dict[str, pd.DataFrame], engine: str) -> None:
    """Write the result folder in one piece; ``engine`` is the model of metrics.json."""

    def add_tables(draft: Path) -> None:
        tables["agreement"].to_csv(draft / "agreement.csv", index=False)
        tables["confusion"].to_csv(draft / "confusion.csv", index=False)
        tables["disagreements"].to_parquet(draft / "disagreements.parquet", index=False)

    result.write(folder, model=engine, seed=0, add=add_tables)


def compare_labels(options: Namespace, settings: LabelAgreementSettings) -> None:
    ours = CorpusLabels.read(options.corpus)
    reference = read_reference_labels(options.labels, settings)
    result, tables = compare(ours, reference, options.reference, settings)
    write(options.output, result, tables, ours.settings.engine)
    for name in result.protocol["classes"]:
        f1 = result.metrics[f"micro_f1/{name}"]
        log.info("%s: micro F1 %.3f (%.3f to %.3f), n %d", name, f1.value, f1.low, f1.high, f1.n)
    log.info(
        "%d studies compared, %d of them differ in some label",
        result.data["studies"],
        result.data["studies_differing"],
    )
