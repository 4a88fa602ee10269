"""Progression cohorts: two images of a patient, a finding, and what became of it between them.

BioViL-T sections 4 and F.3: trained on what reports say (Chest ImaGenome's silver labels), tested
on what radiologists say (MS-CXR-T). Silver labels are of regions; a finding with several directions
between two studies has no label and is left out (Appendix C.1, F.3). No patient that is tested on,
and none that the publisher tells to avoid (ImaGenome's gold data set), is trained on: 78 % of
MS-CXR-T's patients are in ImaGenome's own training split.

A file may list labels on images of several data sets, as CheXTemporal's does. Of these a cohort has
one; the others' labels are a step of its account, and other cohorts may have them.

``directions: five`` keeps all that is said of a finding (CheXTemporal): ``label`` holds its
directions, a semicolon between them.
"""

import pandas as pd

from cxr_files.errors import InputError
from cxrflow.data.cohorts import filters, leakage, splits
from cxrflow.data.cohorts.flow import CohortTables, Flow, counts
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.readers.common_tables import DIRECTIONS, FURTHER_DIRECTIONS, Tables

COLUMNS = (
    *("sample_id", "subject_id", "study_id", "image_id", "image_path"),
    *("prior_study_id", "prior_image_id", "prior_image_path"),
    *("finding", "label", "quality", "view", "split"),
)
SILVER = "silver"
ELSEWHERE = "labels on images of this data set"  # the step that leaves out those of others
FIVE_DIRECTIONS = (*DIRECTIONS, *FURTHER_DIRECTIONS)
ANSWERS = ";"  # between directions
_PAIR = ["study_id", "prior_study_id", "finding"]


def build(
    tables: Tables,
    training: Tables | None,
    pictures: Tables,
    held_out: dict[str, frozenset[str]],
    settings: CohortSettings,
    flow: Flow,
    threads: int,
) -> CohortTables:
    """Check every label's two images, hold patients out, choose images, split.

    Args:
        tables: whose labels are tested on; its silver ones, if any, are trained on.
        training: another data set whose silver labels are trained on; None for none.
        pictures: the data set that holds the images, each looked at.
        held_out: patients of further evaluation sets, by name.
    """
    silver = tables if training is None else training
    tested = tables.progressions[tables.progressions["quality"] != SILVER]
    trained = silver.progressions[silver.progressions["quality"] == SILVER]
    sets = [tables] if silver is tables else [tables, silver]
    drops = [drop for each in sets for drop in each.dropped.get("progressions", [])]
    elsewhere = [drop for each in sets for drop in each.dropped.get("elsewhere", [])]
    here = len(tested) + len(trained)
    flow.step("labels listed", "labels", here + sum(drop.count for drop in elsewhere), drops)
    if elsewhere:
        flow.step(ELSEWHERE, "labels", here, elsewhere)
    held_out = {
        "the labels that are tested on": frozenset(tested["subject_id"]),
        "the patients to avoid": silver.avoid,
        **held_out,
    }
    # Expert labels are only tested on and silver labels only trained on (BioViL-T Appendix F.3).
    rows = pd.concat([tested.assign(tested=True), trained.assign(tested=False)], ignore_index=True)
    held_out = {name: patients for name, patients in held_out.items() if patients}
    rows = _held_out(rows, held_out, flow)
    rows = _with_images(rows, pictures, flow)
    is_five = settings.directions == "five"
    labelled = rows = (_all_directions if is_five else _one_direction)(rows, flow)
    rows = _usable(rows, pictures, flow, threads)
    if settings.unit == "study":
        rows = _one_image_pair(rows, pictures.images, settings, flow)
    if rows.empty:
        raise InputError(f"{tables.source}: no label is left; see the reasons above")
    # All labelled patients are split: a file that is missing must not move the others.
    patients = labelled["subject_id"].drop_duplicates()
    in_test = {"tested": frozenset(labelled.loc[labelled["tested"], "subject_id"])}
    split = splits.assign(patients, None, in_test, settings, tables.source)
    rows = rows.assign(split=rows["subject_id"].map(split))
    tests = {"patient is not in the given split": rows["split"].isna()}
    rows = _without(rows, "split known", tests, flow)
    rows["sample_id"] = rows["image_id"] + "|" + rows["prior_image_id"] + "|" + rows["finding"]
    rows = rows[list(COLUMNS)].reset_index(drop=True)
    _check(rows, held_out, flow, tables.source)
    return CohortTables(
        rows=rows,
        images=_images(rows)[["image_id", "image_path"]].drop_duplicates(ignore_index=True),
        split=split.dropna(),
        unit="samples",
        extra={
            "classes": list(FIVE_DIRECTIONS if is_five else DIRECTIONS),
            "labels": counts(rows["split"] + "/" + rows["finding"] + "/" + rows["label"]),
        },
    )


def labelled_images(*tables: Tables | None) -> frozenset[str]:
    """Return the ids of the images that labels compare."""
    labels = [table.progressions for table in tables if table is not None]
    return frozenset(
        image for rows in labels for name in ("image_id", "prior_image_id") for image in rows[name]
    )


def _without(
    rows: pd.DataFrame, step: str, tests: dict[str, pd.Series], flow: Flow, failed: bool = False
) -> pd.DataFrame:
    """Leave out the labels for which a test is true."""
    names = rows["image_id"] + " " + rows["finding"]
    return flow.keep(step, "labels", rows, names, tests, failed)


def _held_out(rows: pd.DataFrame, held_out: dict[str, frozenset[str]], flow: Flow) -> pd.DataFrame:
    trained = ~rows["tested"]
    tests = {
        f"trained on no more: its patient is among {name}": trained
        & rows["subject_id"].isin(patients)
        for name, patients in held_out.items()
    }
    allowed = _without(rows, "labels that may be tested or trained on", tests, flow)
    return allowed.reset_index(drop=True)


def _with_images(rows: pd.DataFrame, pictures: Tables, flow: Flow) -> pd.DataFrame:
    """Keep labels whose two images are listed, of the patient and in order of time."""
    images = pictures.images.set_index("image_id")
    pairs = rows.assign(
        image_path=rows["image_id"].map(images["image_path"]),
        prior_image_path=rows["prior_image_id"].map(images["image_path"]),
        view=rows["image_id"].map(images["view"]),
    )
    owner = pairs["image_id"].map(images["subject_id"])
    prior_owner = pairs["prior_image_id"].map(images["subject_id"])
    order, before = (pairs[name].map(images["order"]) for name in ("image_id", "prior_image_id"))
    for study, image in (("study_id", "image_id"), ("prior_study_id", "prior_image_id")):
        pairs[study] = pairs[study].fillna(pairs[image].map(images["study_id"]))
    tests = {
        "the prior image is the image itself": pairs["image_id"] == pairs["prior_image_id"],
        "image is not in the image data set": pairs["image_path"].isna(),
        "prior image is not in the image data set": pairs["prior_image_path"].isna(),
        "the image is another patient's": owner != pairs["subject_id"],
        "the prior image is another patient's": prior_owner != pairs["subject_id"],
        "the prior image is not earlier": (before > order)
        | ((before == order) & (pairs["study_id"] == pairs["prior_study_id"])),
    }
    pairs = _without(pairs, "two images of the patient, in order", tests, flow, failed=True)
    # Where dates do not say which image came first, the label itself does.
    undated = (order.isna() | before.isna() | (order == before))[pairs.index]
    if undated.any():
        flow.notes.append(
            f"{undated.sum()} labels have an image without a time, or two studies of one time: "
            "taken as the label orders them"
        )
    return pairs


def _usable(pairs: pd.DataFrame, pictures: Tables, flow: Flow, threads: int) -> pd.DataFrame:
    """Keep labels whose two images can be read."""
    images = pictures.images.set_index("image_id")
    labelled = images.index.isin(labelled_images(Tables(pictures.source, progressions=pairs)))
    bad = pictures.with_failures(images[labelled], threads)["failure"].dropna()
    tests = {
        f"{which}: {reason}": pairs[name].isin(bad.index[bad == reason])
        for name, which in (("image_id", "image"), ("prior_image_id", "prior image"))
        for reason in sorted(bad.unique())
    }
    return _without(pairs, "image files usable", tests, flow, failed=True)


def _one_direction(rows: pd.DataFrame, flow: Flow) -> pd.DataFrame:
    """Of three directions leave out findings with several between two studies."""
    for label, direction in FURTHER_DIRECTIONS.items():
        count = int((rows["label"] == label).sum())
        if count:
            flow.notes.append(f"{count} labels are {label}: taken as {direction} (Table F.3)")
    rows = rows.assign(label=rows["label"].replace(FURTHER_DIRECTIONS))
    directions = rows.groupby(_PAIR)["label"].transform("nunique")
    tests = {"several directions of the finding": directions > 1}
    rows = _without(rows, "one direction of a finding between two studies", tests, flow)
    return rows.drop_duplicates(["image_id", "prior_image_id", "finding"])


def _all_directions(rows: pd.DataFrame, flow: Flow) -> pd.DataFrame:
    """Put all directions of a finding between two studies, of the five, into each of its rows."""

    def joined(labels: pd.Series) -> str:
        return ANSWERS.join(name for name in FIVE_DIRECTIONS if name in {*labels})

    several = rows.groupby(_PAIR)["label"].transform("nunique") > 1
    labels = rows[several].groupby(_PAIR)["label"].transform(joined)
    rows = rows.assign(label=rows["label"].mask(several, labels))
    tests = {
        "further direction, said in the finding's first row": rows.duplicated(
            ["image_id", "prior_image_id", "finding"]
        )
    }
    return _without(rows, "all directions of a finding between two studies", tests, flow)


def _one_image_pair(
    rows: pd.DataFrame, images: pd.DataFrame, settings: CohortSettings, flow: Flow
) -> pd.DataFrame:
    """Choose one pair of images of two studies: the current image first, then the prior."""
    image_facts = images.set_index("image_id").filter(["view", filters.REJECTED])
    # The current image first: the prior is chosen among the priors of labels that remain.
    remaining = rows
    for name in ("image_id", "prior_image_id"):
        candidates = remaining[["study_id", name]].drop_duplicates(ignore_index=True)
        candidates = candidates.set_axis(["study_id", "image_id"], axis=1)
        candidates = candidates.join(image_facts, on="image_id")
        chosen = filters.one_per_study(candidates, settings.choose, settings.views, settings.seed)
        keys = pd.MultiIndex.from_frame(chosen[["study_id", "image_id"]])
        remaining = remaining[pd.MultiIndex.from_frame(remaining[["study_id", name]]).isin(keys)]
    not_chosen = pd.Series(~rows.index.isin(remaining.index), index=rows.index)
    tests = {f"another image of the study was chosen ({settings.choose})": not_chosen}
    return _without(rows, "one pair of images of two studies", tests, flow)


def _images(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the current and prior images with their split."""
    current = rows[["image_id", "image_path", "split"]]
    prior = rows[["prior_image_id", "prior_image_path", "split"]].set_axis(current.columns, axis=1)
    return pd.concat([current, prior], ignore_index=True)


def _check(
    rows: pd.DataFrame, held_out: dict[str, frozenset[str]], flow: Flow, source: object
) -> None:
    flow.check("patient in one split", leakage.patient_in_one_split(rows, source))
    flow.check("image in one split", leakage.image_in_one_split(_images(rows), source))
    checked = leakage.held_out_not_trained(rows, held_out, source)
    flow.check("held-out patients not trained on", checked)
