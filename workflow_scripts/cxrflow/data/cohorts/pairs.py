"""Pair cohorts: one row a study, its frontal image, its sections, its prior study and its split.

The filters are BioViL's (§4.1): of all studies listed, those with a report, with the required
section, with a frontal image; then one image each (or a row an image), and a split by patient with
the patients of evaluation sets held out.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxrflow.data.cohorts import filters, leakage, priors, splits
from cxrflow.data.cohorts.flow import CohortTables, Flow, label_counts
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.cohorts.texts import Corpus, study_key
from cxrflow.data.readers.common_tables import Tables, among

COLUMNS = (
    *("dataset", "subject_id", "study_id", "image_id", "image_path", "view", "study_time"),
    *("findings", "impression", "findings_sentences", "impression_sentences"),
    *("prior_study_id", "prior_image_id", "prior_image_path", "split"),
)


@dataclass(frozen=True)
class PairSources:
    """The inputs of a pair cohort.

    Attributes:
        dataset: its name in the result.
        tables: the data set's studies.
        pictures: the tables that list the images; ``tables`` itself, or another edition's.
        corpus: its reports.
        study_prefix: what corpora write around a study id (a regular expression).
        held: patients of evaluation sets, by name.
        labels: ``study_id`` and a column a class, or None where the rows carry no labels.
    """

    dataset: str
    tables: Tables
    pictures: Tables
    corpus: Corpus
    study_prefix: str
    held_out: dict[str, frozenset[str]]
    labels: pd.DataFrame | None = None


#: By why another study has no image, the studies of the images that pass a filter.
Stages = dict[str, NDArray[Any]]


def build(sources: PairSources, settings: CohortSettings, flow: Flow, threads: int) -> CohortTables:
    """Filter, choose, join, split and check."""
    studies = priors.with_times(sources.tables.studies, sources.pictures.images)
    studies["key"] = study_key(studies["study_id"], sources.study_prefix)
    _require_keys(studies, sources)
    # All listed patients are split, before any filter: a report or image that is missing here
    # must not move others between the parts.
    official = sources.pictures.splits if sources.tables.splits is None else sources.tables.splits
    if official is not None:
        official = splits.rename_parts(official, settings.splits.parts, sources.tables.source)
    split = splits.assign(
        splits.groups(studies).drop_duplicates(),
        official,
        sources.held_out,
        settings,
        sources.tables.source,
        sources.pictures.together,
    )
    frontal, stages = _frontal_images(sources.pictures, studies, settings, flow, threads)
    chosen = filters.one_per_study(frontal, settings.choose, settings.views, settings.seed)

    flow.step("studies listed", "studies", len(studies), sources.tables.dropped.get("studies", []))
    rows = _with_text(studies, sources.corpus, flow)
    rows = _with_sections(rows, settings, flow)
    each = settings.unit == "image"
    rows = _with_image(rows, frontal if each else chosen, stages, settings, flow)
    # The account says of each frontal image whether its study or only the image was left out.
    unused = frontal[~among(frontal["image_id"], rows["image_id"])]
    same = among(unused["study_id"], rows["study_id"])
    reason = f"another image of the study was chosen ({settings.choose})"
    drops = [
        Drop.of(reason, unused.loc[same, "image_id"]),
        Drop.of("the study was left out", unused.loc[~same, "image_id"]),
    ]
    step = "images of the studies" if each else "one image a study"
    flow.step(step, "images", int(rows["image_id"].notna().sum()), drops)
    rows["split"] = splits.groups(rows).map(split)
    unknown = rows["split"].isna()
    lost = Drop.of("patient is not in the given split", rows.loc[unknown, "study_id"].unique())
    flow.step("split known", "studies", rows.loc[~unknown, "study_id"].nunique(), [lost])
    rows = rows[~unknown].reset_index(drop=True)
    # All studies are candidates: a prior needs an image but no report.
    rows, prior_account = priors.with_priors(rows, studies, chosen)
    rows["dataset"] = sources.dataset
    extra = {"priors": prior_account, "held_out": _held_account(rows, sources.held_out)}
    extra["texts"] = _text_account(rows, flow)
    pairs = rows[list(COLUMNS)]
    if sources.labels is not None:
        classes = [str(name) for name in sources.labels if name != "study_id"]
        _require_listed(rows, sources, flow)
        labels = sources.labels.set_index("study_id").reindex(rows["key"])[classes]
        pairs = pairs.assign(labels=list(labels.to_numpy("float64")))
        extra |= {"classes": classes, "labels": label_counts(pairs, classes)}
    _check(pairs, studies, sources, settings.unit, flow)
    return CohortTables(
        rows=pairs,
        images=priors.images_and_priors(pairs),
        split=split.dropna(),
        documents=_documents(studies, sources.corpus, split, flow),
        unit="images" if each else "studies",
        extra=extra,
    )


def _require_keys(studies: pd.DataFrame, sources: PairSources) -> None:
    """Refuse studies whose names are one name in the form in which a corpus is joined."""
    alike = studies.loc[studies["key"].duplicated(keep=False), ["key", "study_id"]]
    if len(alike):
        names = alike.loc[alike["key"] == alike["key"].iloc[0], "study_id"].unique()
        raise InputError(
            f"{sources.tables.source}: studies {' and '.join(names)} are both called "
            f"'{alike['key'].iloc[0]}' where reports are looked up; expected ids that differ "
            f"without '{sources.study_prefix}'"
        )


def _require_listed(rows: pd.DataFrame, sources: PairSources, flow: Flow) -> None:
    """Say how many studies have no row of labels: a task may count what is unknown as absent.

    Raises:
        InputError: none has one, as if studies had other names there.
    """
    assert sources.labels is not None
    absent = ~among(rows["key"], sources.labels["study_id"])
    if len(rows) and absent.all():
        raise InputError(
            f"{sources.tables.source}: none of the {len(rows)} studies has a row of labels; "
            f"expected names such as {rows['key'].iloc[0]} in column 'study_id'"
        )
    if absent.any():
        names = ", ".join(rows.loc[absent, "study_id"].head(3))
        flow.notes.append(
            f"{int(absent.sum())} of {len(rows)} rows have no labels, as their study is not in the "
            f"table of labels (e.g. {names})"
        )


def _text_account(rows: pd.DataFrame, flow: Flow) -> dict[str, int]:
    """Count the rows by the sections that they have; few with both are said in a note."""
    findings, impression = (rows[name].fillna("").ne("") for name in ("findings", "impression"))
    counts = {
        "both": int((findings & impression).sum()),
        "findings": int((findings & ~impression).sum()),
        "impression": int((impression & ~findings).sum()),
    }
    if counts["both"] < len(rows) / 2:
        flow.notes.append(
            f"{counts['both']} of {len(rows)} rows have FINDINGS and IMPRESSION, which CXR-BERT's "
            "phase III matches; where none has, it learns from masked words alone"
        )
    return counts


def _frontal_images(
    pictures: Tables, studies: pd.DataFrame, settings: CohortSettings, flow: Flow, threads: int
) -> tuple[pd.DataFrame, Stages]:
    """Return the usable frontal images and the images of each stage before."""
    images = pictures.images
    stray = ~among(images["study_id"], studies["study_id"])
    drops = [Drop.of("its study is not listed", images.loc[stray, "image_id"])]
    images = images[~stray]
    flow.step("images listed", "images", len(images), pictures.dropped.get("images", []) + drops)
    stages = {"no image listed": images["study_id"].unique()}
    if len(images) and not images["image_path"].notna().any():
        flow.notes.append("no image files: the cohort is text alone")
        return images[:0], stages | {"no image files in the root": np.array([])}
    if pictures.opened:
        images, drops = filters.usable(images)
        flow.step("image file usable", "images", len(images), drops)
        stages["no image file can be used"] = images["study_id"].unique()
    images, drops = filters.frontal(images, settings.views)
    flow.step("frontal view", "images", len(images), drops)
    stages["no frontal image"] = images["study_id"].unique()
    if not pictures.opened:
        # Only the frontal ones: a stat of every file of a large tree is slow on network disks.
        images, drops = filters.usable(pictures.with_failures(images, threads))
        flow.step("image file usable", "images", len(images), drops)
        stages["no file of a frontal image can be used"] = images["study_id"].unique()
    if settings.acquisitions == "single":
        images, drops = filters.single(images)
        flow.step("one frontal image in the study", "images", len(images), drops)
        stages["several frontal images"] = images["study_id"].unique()
    return images, stages


#: As CoreNLP's tokenizer counts, but for contractions (ConVIRT, Appendix A).
TOKEN = re.compile(r"\w+|[^\w\s]")


def _with_text(studies: pd.DataFrame, corpus: Corpus, flow: Flow) -> pd.DataFrame:
    columns = ["study_id", "findings", "impression", "outcome"]
    sections = corpus.sections[columns].rename(columns={"study_id": "key"})
    rows = studies.merge(sections, on="key", how="left")
    tests = {"no report in the corpus": ~among(rows["key"], sections["key"])}
    rows = flow.keep("report found", "studies", rows, rows["study_id"], tests)
    for section in ("findings", "impression"):
        lists = corpus.sentences[corpus.sentences["section"] == section]
        texts = rows["key"].map(lists.set_index("study_id")["sentences"])
        rows = rows.assign(**{f"{section}_sentences": texts.astype(object)})
    return rows


def _with_sections(rows: pd.DataFrame, settings: CohortSettings, flow: Flow) -> pd.DataFrame:
    has_section = {
        "impression": rows["impression"].notna(),
        "findings": rows["findings"].notna(),
        "text": rows["findings"].notna() | rows["impression"].notna(),
    }
    required = [name for name in settings.require if name in has_section]
    # Requirements are applied in turn, so that each study is counted for its first reason.
    keep = pd.Series(True, index=rows.index)
    drops = []
    for name in required:
        lost = rows[keep & ~has_section[name]]
        # The parser's outcome says what the report has instead, or why it could not be read.
        drops += [
            Drop.of(f"no {name} ({outcome})", ids["study_id"])
            for outcome, ids in lost.groupby("outcome", dropna=False)
        ]
        keep &= has_section[name]
    flow.step(f"has {' and '.join(required) or 'a report'}", "studies", int(keep.sum()), drops)
    rows, fewest = rows[keep], settings.fewest_tokens
    if fewest is None:
        return rows
    counts = rows[["findings", "impression"]].fillna("").map(lambda text: len(TOKEN.findall(text)))
    tests = {f"fewer than {fewest} tokens of text": counts.sum(axis=1) < fewest}
    return flow.keep(f"{fewest} tokens of text", "studies", rows, rows["study_id"], tests)


def _with_image(
    rows: pd.DataFrame,
    chosen: pd.DataFrame,
    stages: Stages,
    settings: CohortSettings,
    flow: Flow,
) -> pd.DataFrame:
    rows = rows.merge(
        chosen[["study_id", "image_id", "image_path", "view"]], on="study_id", how="left"
    )
    if "image" not in settings.require:
        return rows
    lost = rows.loc[rows["image_id"].isna(), "study_id"]
    # From the last filter to the first: what remains is the first that a study did not pass.
    reason = pd.Series("", index=lost.index)
    for missing, passed in reversed(stages.items()):
        reason[~among(lost, passed)] = missing
    drops = [Drop.of(str(why), ids) for why, ids in lost.groupby(reason)]
    flow.step("frontal image", "studies", rows["study_id"].nunique() - len(lost), drops)
    return rows[rows["image_id"].notna()].reset_index(drop=True)


def _documents(studies: pd.DataFrame, corpus: Corpus, split: pd.Series, flow: Flow) -> pd.DataFrame:
    """Return all reports with text and the split of their patient.

    Reports of studies without an image are included, for the vocabulary and phase II.
    """
    documents = corpus.documents
    patient = pd.Series(splits.groups(studies).to_numpy(), index=studies["key"])
    documents = documents.assign(split=documents["study_id"].map(patient).map(split))
    lost = documents["split"].isna()
    if lost.any():
        flow.notes.append(
            f"{int(lost.sum())} reports are left out of documents.parquet: their study is not "
            f"listed or has no split (e.g. {', '.join(documents.loc[lost, 'document_id'][:5])})"
        )
    return documents.loc[~lost, ["document_id", "text", "split"]].reset_index(drop=True)


def _held_account(rows: pd.DataFrame, held_out: dict[str, frozenset[str]]) -> list[dict[str, Any]]:
    inside = {name: rows[rows["subject_id"].isin(patients)] for name, patients in held_out.items()}
    return [
        {
            "name": name,
            "patients": len(held_out[name]),
            "patients_here": int(theirs["subject_id"].nunique()),
            "studies_in_test": int(theirs["study_id"].nunique()),
        }
        for name, theirs in inside.items()
    ]


def _check(
    pairs: pd.DataFrame, studies: pd.DataFrame, sources: PairSources, unit: str, flow: Flow
) -> None:
    source: Path = sources.tables.source
    flow.check(f"{unit} ids unique", leakage.unique_rows(pairs, unit, source))
    flow.check("patient in one split", leakage.patient_in_one_split(pairs, source))
    flow.check("image in one split", leakage.image_in_one_split(pairs, source))
    owner = studies.set_index("study_id")["subject_id"]
    flow.check("prior of the same patient", leakage.prior_of_same_patient(pairs, owner, source))
    if sources.held_out:
        checked = leakage.held_out_not_trained(pairs, sources.held_out, source)
        flow.check("held-out patients not trained on", checked)
