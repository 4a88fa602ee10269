"""Progression cohorts: two images of a patient, a finding, and what became of it between them.

BioViL-T sections 4 and F.3: trained on what reports say (Chest ImaGenome's silver labels), tested
on what radiologists say (MS-CXR-T). Silver labels are of regions; a finding with several directions
between two studies has no label and is left out (Appendix C.1, F.3). No patient that is tested on,
and none that the publisher tells to avoid (ImaGenome's gold data set), is trained on: 78 % of
MS-CXR-T's patients are in ImaGenome's own training split.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from cxrflow.data import filters, leakage, splits
from cxrflow.data.flow import Cohort, Flow
from cxrflow.data.settings import CohortSettings
from cxrflow.data.tables import DIRECTIONS, Tables
from cxrflow.drops import Drop
from cxrflow.errors import InputError

COLUMNS = (
    *("sample_id", "subject_id", "study_id", "image_id", "image_path"),
    *("prior_study_id", "prior_image_id", "prior_image_path"),
    *("finding", "label", "quality", "view", "split"),
)
SILVER = "silver"
_PAIR = ["study_id", "prior_study_id", "finding"]


@dataclass(frozen=True)
class Sources:
    """What a progression cohort is made of.

    Attributes:
        tables: whose labels are tested on; its silver ones, if any, are trained on.
        training: another data set whose silver labels are trained on; None for none.
        pictures: the data set that holds the images, each looked at.
        held: patients of further evaluation sets, by name.
    """

    tables: Tables
    training: Tables | None
    pictures: Tables
    held: dict[str, frozenset[str]]


def build(sources: Sources, settings: CohortSettings, flow: Flow, threads: int) -> Cohort:
    """Check every label's two images, hold patients out, choose images, split."""
    tables = sources.tables
    silver = tables if sources.training is None else sources.training
    tested = tables.progressions[tables.progressions["quality"] != SILVER]
    trained = silver.progressions[silver.progressions["quality"] == SILVER]
    drops = [
        drop
        for one in dict.fromkeys((id(tables), id(silver)))
        for drop in (tables if one == id(tables) else silver).dropped.get("progressions", [])
    ]
    flow.step("labels listed", "labels", len(tested) + len(trained), drops)
    held = {
        "the labels that are tested on": frozenset(tested["subject_id"]),
        "the patients to avoid": silver.avoid,
        **sources.held,
    }
    rows = pd.concat([tested.assign(tested=True), trained.assign(tested=False)], ignore_index=True)
    rows = _held_out(rows, {name: one for name, one in held.items() if one}, flow)
    rows = _with_images(rows, sources.pictures, flow, threads)
    rows = _one_direction(rows, flow)
    if settings.unit == "study":
        rows = _one_image_pair(rows, sources.pictures.images, settings, flow)
    if rows.empty:
        raise InputError(f"{tables.source}: no label is left; see the reasons above")
    rows, split = _with_split(rows, settings, flow, tables.source)
    rows["sample_id"] = rows["image_id"] + "|" + rows["prior_image_id"] + "|" + rows["finding"]
    rows = rows[list(COLUMNS)].reset_index(drop=True)
    _check(rows, held, flow, tables.source)
    counts = (rows["split"] + "/" + rows["finding"] + "/" + rows["label"]).value_counts()
    return Cohort(
        rows=rows,
        images=pd.concat(list(_images(rows)))[["image_id", "image_path"]]
        .drop_duplicates()
        .reset_index(drop=True),
        split=split,
        unit="samples",
        extra={
            "classes": list(DIRECTIONS),
            "labels": {str(name): int(count) for name, count in counts.sort_index().items()},
        },
    )


def wanted_images(*tables: Tables | None) -> frozenset[str]:
    """The images that labels speak of."""
    parts = [one.progressions for one in tables if one is not None]
    return frozenset(
        image for part in parts for name in ("image_id", "prior_image_id") for image in part[name]
    )


def _names(rows: pd.DataFrame) -> pd.Series:
    """How a label is called in the account of what was left out."""
    return rows["image_id"] + " " + rows["finding"]


def _without(
    rows: pd.DataFrame, step: str, tests: dict[str, tuple[pd.Series, bool]], flow: Flow
) -> pd.DataFrame:
    """Leave out rows for which a test is true: the first reason counts; damage where it is one."""
    left = pd.Series(True, index=rows.index)
    drops = []
    for reason, (wrong, failed) in tests.items():
        drops.append(Drop.of(reason, _names(rows[left & wrong]), failed))
        left &= ~wrong
    flow.step(step, "labels", int(left.sum()), drops)
    return rows[left]


def _held_out(rows: pd.DataFrame, held: dict[str, frozenset[str]], flow: Flow) -> pd.DataFrame:
    tests = {
        f"trained on no more: its patient is among {name}": (
            ~rows["tested"] & rows["subject_id"].isin(one),
            False,
        )
        for name, one in held.items()
    }
    left = _without(rows, "labels that may be tested or trained on", tests, flow)
    return left.reset_index(drop=True)


def _with_images(rows: pd.DataFrame, pictures: Tables, flow: Flow, threads: int) -> pd.DataFrame:
    """Both images are there, of the patient, the prior before the current one."""
    images = pictures.images.set_index("image_id")
    here = rows.assign(
        image_path=rows["image_id"].map(images["image_path"]),
        prior_image_path=rows["prior_image_id"].map(images["image_path"]),
        view=rows["image_id"].map(images["view"]),
    )
    owner = here["image_id"].map(images["subject_id"])
    prior_owner = here["prior_image_id"].map(images["subject_id"])
    order, before = (here[name].map(images["order"]) for name in ("image_id", "prior_image_id"))
    here["prior_study_id"] = here["prior_study_id"].fillna(
        here["prior_image_id"].map(images["study_id"])
    )
    tests = {
        "the prior image is the image itself": (here["image_id"] == here["prior_image_id"], True),
        "image is not in the image data set": (here["image_path"].isna(), True),
        "prior image is not in the image data set": (here["prior_image_path"].isna(), True),
        "the image is another patient's": (owner != here["subject_id"], True),
        "the prior image is another patient's": (prior_owner != here["subject_id"], True),
        "the prior image is not earlier": (before >= order, True),
    }
    here = _without(here, "two images of the patient, in order", tests, flow)
    undated = (order.isna() | before.isna())[here.index]
    if undated.any():
        flow.notes.append(
            f"{undated.sum()} labels have an image without a time: taken as the label orders them"
        )
    failure = images["failure"]
    if not pictures.opened:
        used = images[images.index.isin(wanted_images(Tables(pictures.source, progressions=here)))]
        found = filters.file_failures(pictures.source, used["image_path"].tolist(), threads)
        failure = pd.Series(found.to_numpy(), index=used.index)
    bad = failure.dropna()
    tests = {
        f"{which}: {reason}": (here[name].isin(bad.index[bad == reason]), True)
        for name, which in (("image_id", "image"), ("prior_image_id", "prior image"))
        for reason in sorted(bad.unique())
    }
    return _without(here, "image files usable", tests, flow)


def _one_direction(rows: pd.DataFrame, flow: Flow) -> pd.DataFrame:
    """Between two studies a finding has one direction, or its labels are left out."""
    directions = rows.groupby(_PAIR)["label"].transform("nunique")
    tests = {"several directions of the finding": (directions > 1, False)}
    rows = _without(rows, "one direction of a finding between two studies", tests, flow)
    return rows.drop_duplicates(["image_id", "prior_image_id", "finding"])


def _one_image_pair(
    rows: pd.DataFrame, images: pd.DataFrame, settings: CohortSettings, flow: Flow
) -> pd.DataFrame:
    """Of two studies with several labelled images the current one is chosen, then the prior."""
    views = images.set_index("image_id")["view"]
    left = rows
    for name in ("image_id", "prior_image_id"):
        candidates = (
            left[["study_id", name]].drop_duplicates().set_axis(["study_id", "image_id"], axis=1)
        )
        candidates["view"] = candidates["image_id"].map(views)
        if filters.REJECTED in images:
            candidates[filters.REJECTED] = candidates["image_id"].map(
                images.set_index("image_id")[filters.REJECTED]
            )
        chosen = filters.one_per_study(
            candidates.reset_index(drop=True), settings.choose, settings.views, settings.seed
        )
        keys = pd.MultiIndex.from_frame(chosen[["study_id", "image_id"]])
        left = left[pd.MultiIndex.from_frame(left[["study_id", name]]).isin(keys)]
    other = ~rows.index.isin(left.index)
    reason = f"another image of the study was chosen ({settings.choose})"
    tests = {reason: (pd.Series(other, index=rows.index), False)}
    return _without(rows, "one pair of images of two studies", tests, flow)


def _with_split(
    rows: pd.DataFrame, settings: CohortSettings, flow: Flow, source: object
) -> tuple[pd.DataFrame, pd.Series]:
    patients = rows["subject_id"].drop_duplicates()
    tested = frozenset(rows.loc[rows["tested"], "subject_id"])
    split = splits.assign(patients, None, {"tested": tested}, settings, source)
    rows = rows.assign(split=rows["subject_id"].map(split))
    tests = {"patient is not in the given split": (rows["split"].isna(), False)}
    return _without(rows, "split known", tests, flow), split.dropna()


def _images(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Current and prior images with their split."""
    yield rows[["image_id", "image_path", "split"]]
    prior = rows[["prior_image_id", "prior_image_path", "split"]]
    yield prior.set_axis(["image_id", "image_path", "split"], axis=1)


def _check(rows: pd.DataFrame, held: dict[str, frozenset[str]], flow: Flow, source: object) -> None:
    flow.check("patient in one split", leakage.patient_in_one_split(rows, source))
    images = pd.concat(list(_images(rows)), ignore_index=True)
    flow.check("image in one split", leakage.image_in_one_split(images, source))
    flow.check(
        "held-out patients not trained on",
        leakage.held_out_not_trained(rows, {n: one for n, one in held.items() if one}, source),
    )
