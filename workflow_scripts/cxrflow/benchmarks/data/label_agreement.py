"""How well our report labels agree with given ones (Irvin et al. 2019, "Evaluation").

Reads the labels of a corpus and those of a reference: MIMIC-CXR-JPG's CheXpert or NegBio table, a
table of yours, Open-I's human index terms. Per finding and class (positive, negative, uncertain)
precision, recall and F1; their micro and macro averages; Cohen's kappa; intervals over patients.
No Finding is scored for positive only.

Writes metrics.json, agreement.csv (finding by class), confusion.csv (finding, our state, the given
one), predictions.parquet (one row a study) and disagreements.parquet: every label that differs,
with the sentences and rules behind ours, the most telling sentence first. That file holds report
text, as the corpus does.
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

from cxrflow.benchmarks.data.given_labels import read_given
from cxrflow.benchmarks.data.label_disagreements import NO_FINDING, ranked_disagreements
from cxrflow.benchmarks.data.settings import LabelAgreementSettings
from cxrflow.benchmarks.result import Result
from cxrflow.errors import InputError
from cxrflow.files.atomic import atomic_folder, fingerprint, read_object
from cxrflow.files.csv_table import bare_ids
from cxrflow.files.drops import Drop
from cxrflow.files.parquet import read_table
from cxrflow.metrics.intervals import Estimate, Floats, bootstrap, clusters_of
from cxrflow.metrics.label_agreement import (
    CLASSES,
    SCORES,
    STATES,
    agreement_metrics,
    confusions,
    differing,
    state_codes,
)
from cxrflow.reports.labels.observations import OBSERVATIONS
from cxrflow.reports.settings import LabellerSettings, ReportSettings
from cxrflow.settings import explain

log = logging.getLogger("cxrflow")

SECTIONS = ("study_id", "subject_id", "conclusion", "conclusion_from", "outcome")


@dataclass(frozen=True)
class Ours:
    """A corpus: its labels, what is known of each report, and how it was labelled."""

    folder: Path
    labels: pd.DataFrame
    sections: pd.DataFrame
    settings: LabellerSettings
    data: dict[str, Any]  # name, synthetic, fingerprint

    @classmethod
    def read(cls, folder: Path) -> "Ours":
        """Read ``results/corpus/<dataset>``; InputError names what is missing or damaged."""
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
class Matched:
    """The N studies that both sides label, for the F findings that the reference has."""

    sections: pd.DataFrame  # N rows
    findings: list[str]
    ours_NF: Floats
    given_NF: Floats
    dropped: list[dict[str, Any]]


def match(ours: Ours, given: pd.DataFrame, positives_only: bool) -> Matched:
    """Bring both sides to the same studies; those of one side only are counted by reason.

    A reference of positives says nothing by 0 and -1, so these become blank; so does a No Finding
    that is not positive, on both sides.

    Raises:
        InputError: no study is on both sides.
    """
    findings = [name for name in OBSERVATIONS if name in given]
    labels = ours.labels.assign(key=bare_ids(ours.labels["study_id"])).set_index("key")
    theirs = given.set_index("study_id")
    both = labels.index[labels.index.isin(theirs.index)]
    dropped = _one_sided(ours, labels, theirs)
    if labels.empty:
        raise InputError(f"{ours.folder / 'labels.parquet'}: no rows; expected labelled reports")
    if both.empty:
        raise InputError(
            f"{ours.folder}: none of its {len(labels)} labelled studies is among the "
            f"{len(theirs)} of the given labels; expected study ids such as {labels.index[0]!r}, "
            f"found {theirs.index[0]!r}"
        )
    sections = ours.sections.set_index("study_id").loc[labels.loc[both, "study_id"]].reset_index()
    ours_NF = labels.loc[both, findings].to_numpy(np.float64, copy=True)
    given_NF = theirs.loc[both, findings].to_numpy(np.float64, copy=True)
    if positives_only:
        given_NF = np.where(given_NF == 1, 1.0, np.nan)
    if NO_FINDING in findings:
        column = findings.index(NO_FINDING)
        for side_NF in (ours_NF, given_NF):
            side_NF[side_NF[:, column] != 1, column] = np.nan
    return Matched(sections, findings, ours_NF, given_NF, dropped)


def _one_sided(ours: Ours, labels: pd.DataFrame, theirs: pd.DataFrame) -> list[dict[str, Any]]:
    missed = theirs.index[~theirs.index.isin(labels.index)].to_series()
    outcomes = ours.sections.set_index(bare_ids(ours.sections["study_id"]))["outcome"]
    known = missed.map(outcomes)
    reasons = ("given only: our report has no labels (" + known + ")").fillna(
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
    """Which findings are scored for which class."""
    asserted = [name for name in findings if name != NO_FINDING]
    classes = {"positive": list(findings)}
    if not positives_only:
        classes |= {"negative": asserted}
        if uncertain == "apart":
            classes |= {"uncertain": asserted}
    return {name: members for name, members in classes.items() if members}


def summarise(
    matched: Matched, settings: LabelAgreementSettings, positives_only: bool
) -> tuple[dict[str, Estimate], Floats]:
    """Every metric with its interval over patients, and the confusions ``[F, 4, 4]``."""
    findings, chosen = matched.findings, settings.intervals
    ours_NF = state_codes(matched.ours_NF, settings.uncertain)
    given_NF = state_codes(matched.given_NF, settings.uncertain)
    classes = scored_classes(findings, settings.uncertain, positives_only)
    clusters_N = clusters_of(matched.sections["subject_id"], chosen.unit)
    # The counts of a patient's studies are all that the scores need of them.
    parts_GFSS = confusions(ours_NF, given_NF, clusters_N)
    parts = parts_GFSS.reshape(len(parts_GFSS), -1)

    def metrics(counts: Floats) -> dict[str, Floats]:
        return agreement_metrics(
            (counts @ parts).reshape(len(counts), *parts_GFSS.shape[1:]),
            findings,
            classes,
            positives_only=positives_only,
            no_finding=NO_FINDING,
        )

    whole = parts_GFSS.sum(axis=0)
    sizes = {
        name: _size(name, whole, findings, classes) for name in metrics(np.ones((1, len(parts))))
    }
    estimates = bootstrap(metrics, np.arange(len(parts)), sizes, **chosen.resampling())
    return estimates, whole


def _size(name: str, counts: Floats, findings: list[str], classes: dict[str, list[str]]) -> int:
    """How many given labels of the class, or studies, or labels, a metric is of."""
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
    """One row a finding and class that is scored: counts, and scores with their intervals."""
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
                found = metrics[f"{score}/{name}/{finding}"]
                row |= {score: found.value, f"{score}_low": found.low, f"{score}_high": found.high}
            rows.append(row)
    return pd.DataFrame(rows)


def confusion_table(counts: Floats, findings: list[str]) -> pd.DataFrame:
    """One row a finding, our state and the given one, with the number of studies."""
    return pd.DataFrame(
        [
            (finding, ours, given, int(counts[number, row, column]))
            for number, finding in enumerate(findings)
            for row, ours in enumerate(STATES)
            for column, given in enumerate(STATES)
        ],
        columns=["finding", "ours", "given", "studies"],
    )


def compare(
    ours: Ours, given: pd.DataFrame, reference: str, settings: LabelAgreementSettings
) -> tuple[Result, dict[str, pd.DataFrame]]:
    """The result, and the tables that go with it by name."""
    positives_only = settings.positives_only or settings.layout == "open_i"
    matched = match(ours, given, positives_only)
    metrics, counts = summarise(matched, settings, positives_only)
    differ_NF = differing(
        state_codes(matched.ours_NF, settings.uncertain),
        state_codes(matched.given_NF, settings.uncertain),
        positives_only,
    )
    disagreements = ranked_disagreements(
        ours.folder, matched.sections, ours.settings, matched.findings,
        matched.ours_NF, matched.given_NF, differ_NF,
    )  # fmt: skip
    columns: dict[str, Any] = {"study_id": matched.sections["study_id"]}
    for side, values in (("ours", matched.ours_NF), ("given", matched.given_NF)):
        columns |= {f"{side}/{f}": values[:, i] for i, f in enumerate(matched.findings)}
    protocol = {
        **settings.model_dump(mode="json"),
        "positives_only": positives_only,
        "reference": reference,
        "labels": ours.settings.model_dump(mode="json"),
        "findings": matched.findings,
        "classes": scored_classes(matched.findings, settings.uncertain, positives_only),
        "macro": "mean over the findings that the reference has the class of",
    }
    digest = hashlib.sha256(given.to_csv(index=False).encode()).hexdigest()[:16]
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
    with atomic_folder(folder, f"{result.benchmark} result") as made:
        result.write(made, model=engine, seed=0)
        tables["agreement"].to_csv(made / "agreement.csv", index=False)
        tables["confusion"].to_csv(made / "confusion.csv", index=False)
        tables["disagreements"].to_parquet(made / "disagreements.parquet", index=False)


def compare_labels(options: Namespace, settings: LabelAgreementSettings) -> None:
    ours = Ours.read(options.corpus)
    given = read_given(options.labels, settings)
    result, tables = compare(ours, given, options.reference, settings)
    write(options.output, result, tables, ours.settings.engine)
    for name in result.protocol["classes"]:
        f1 = result.metrics[f"micro_f1/{name}"]
        log.info("%s: micro F1 %.3f (%.3f to %.3f), n %d", name, f1.value, f1.low, f1.high, f1.n)
    log.info(
        "%d studies compared, %d of them differ in some label",
        result.data["studies"],
        result.data["studies_differing"],
    )
