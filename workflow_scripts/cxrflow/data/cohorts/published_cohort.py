"""Cohorts whose rows are the publisher's to choose: labelled images in published parts, retrieval.

CheXpert, COVIDx, MURA and RSNA's second stage come with a test part of their own (ConVIRT, Appendix
B). Patients who are held out leave the other parts; they do not go to test, which would no longer
be the published one.
"""

import logging
from argparse import Namespace
from collections.abc import Mapping, Set
from dataclasses import replace

import pandas as pd

from cxrflow.data.cohorts import classification, leakage, retrieval

# What stands in that module counts as code of every cohort, so that nothing is moved out of it.
from cxrflow.data.cohorts.cohort import largest_drop, write_cohort
from cxrflow.data.cohorts.flow import Cohort, Flow
from cxrflow.data.cohorts.held_out import held_out_patients, held_out_sets
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.cohorts.splits import groups
from cxrflow.data.layouts import Layout, layout
from cxrflow.data.readers.common_tables import Request, Tables
from cxrflow.errors import InputError
from cxrflow.files.drops import Drop

log = logging.getLogger("cxrflow")


def make_cohort(given: Namespace, settings: CohortSettings) -> None:
    """What ``cxrflow.data.cohorts.build_cohort`` calls."""
    given.dataset = given.dataset or given.layout
    given.training = None
    own = layout(given.layout)
    if settings.kind not in own.cohorts:
        raise InputError(
            f"--layout {given.layout}: makes cohorts of kind {', '.join(own.cohorts)}, "
            f"settings ask for {settings.kind}"
        )
    flow = Flow(given.root, settings.max_failed_share)
    build = _retrieval if settings.kind == "retrieval" else _classification
    cohort = build(given, own, settings, flow)
    if cohort.rows.empty:
        raise InputError(f"{given.root}: no row is left in the cohort; {largest_drop(flow)}")
    write_cohort(cohort, flow, settings, given)
    if isinstance(cohort, retrieval.RetrievalCohort):
        cohort.queries.to_parquet(given.output / "queries.parquet", index=False)
    log.info("%s: %d %s", given.output, len(cohort.rows), cohort.unit)


def _retrieval(given: Namespace, own: Layout, settings: CohortSettings, flow: Flow) -> Cohort:
    if given.images_root is None:
        raise InputError(
            f"--images-layout and --images-root are missing; the images of {given.layout} lie in "
            "another data set"
        )
    request = Request(given.threads, headers=False)
    tables: retrieval.RetrievalTables = own.reader("tables")(given.root, request)
    request = Request(given.threads, images=frozenset(tables.images["image_id"]))
    pictures = layout(given.images_layout).read(given.images_root, request)
    flow.notes += tables.notes
    return retrieval.build(tables, pictures, flow)


def _classification(given: Namespace, own: Layout, settings: CohortSettings, flow: Flow) -> Cohort:
    read = own.reader("published" if own.published else "tables")
    tables: Tables = read(given.root, Request(given.threads))
    flow.notes += tables.notes
    held, notes = held_out_patients(held_out_sets(given.held_out), own)
    flow.notes += notes
    return build_classification(tables, held, settings, flow)


def build_classification(
    tables: Tables, held: Mapping[str, Set[str]], settings: CohortSettings, flow: Flow
) -> Cohort:
    """Labelled images in their published parts, named as ``splits.parts`` says.

    Held-out patients (by evaluation set) leave the parts that are not test.
    """
    if tables.splits is None:
        raise InputError(f"{tables.source}: splits.method is official, but no split comes with it")
    published = _parts(tables.splits, settings.splits.parts, tables.source)
    by_image = "image_id" in published
    unit = tables.images["image_id"] if by_image else groups(tables.images)
    named = published.set_index(published.columns[0])["split"]
    split = unit.map(named[~named.index.duplicated()])
    kept = tables.images
    if held:
        kept = _not_held(tables, split, held, flow)
        tables = replace(tables, dropped={**tables.dropped, "images": []})  # counted by now
    if by_image:
        # The common builder splits by patient: here each image is its own.
        as_images = published.rename(columns={"image_id": "subject_id"})
        alone = replace(tables, images=kept.assign(subject_id=kept["image_id"]), splits=as_images)
        cohort = classification.build(alone, {}, settings, flow)
        patient = kept.set_index("image_id")["subject_id"]
        rows = cohort.rows.assign(subject_id=cohort.rows["image_id"].map(patient))
        # What is known of patients stands in place of the check that took images for them.
        flow.checks[:] = [check for check in flow.checks if check["name"] != "patient in one split"]
        classification.count_shared_patients(rows, flow)
        cohort = replace(cohort, rows=rows)
    else:
        cohort = classification.build(
            replace(tables, images=kept, splits=published), {}, settings, flow
        )
    if held:
        checked = leakage.held_out_not_trained(cohort.rows, held, tables.source)
        flow.check("held-out patients not trained on", checked)
    return cohort


def _parts(splits: pd.DataFrame, parts: Mapping[str, str] | None, source: object) -> pd.DataFrame:
    """The published split with the parts named as ``parts`` says, and no others."""
    if parts is None:
        return splits
    unknown = sorted(set(parts) - set(splits["split"]))
    if unknown:
        there = ", ".join(sorted(set(splits["split"])))
        raise InputError(f"{source}: splits.parts names '{unknown[0]}'; the split has {there}")
    return splits.assign(split=splits["split"].map(parts)).dropna(subset="split")


def _not_held(
    tables: Tables, split: pd.Series, held: Mapping[str, Set[str]], flow: Flow
) -> pd.DataFrame:
    """The images, without those of held-out patients outside test."""
    images = tables.images
    flow.step("images published", "images", len(images), tables.dropped.get("images", []))
    lost = pd.Series(False, index=images.index)
    drops = []
    for name, patients in held.items():
        theirs = images["subject_id"].isin(patients) & (split != "test") & ~lost
        drops.append(Drop.of(f"patient of {name}", images.loc[theirs, "image_id"]))
        lost |= theirs
    flow.step("patient not held out", "images", int((~lost).sum()), drops)
    return images[~lost]
