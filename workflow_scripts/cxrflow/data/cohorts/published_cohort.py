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
from cxrflow.data.readers.common_tables import Request, RetrievalTables, Tables
from cxrflow.errors import InputError
from cxrflow.files.drops import Drop

log = logging.getLogger("cxrflow")


def make_cohort(options: Namespace, settings: CohortSettings) -> None:
    """Build a cohort whose rows the publisher has chosen, and write its folder."""
    options.dataset = options.dataset or options.layout
    options.training = None
    origin = layout(options.layout)
    if settings.kind not in origin.cohorts:
        raise InputError(
            f"--layout {options.layout}: makes cohorts of kind {', '.join(origin.cohorts)}, "
            f"settings ask for {settings.kind}"
        )
    flow = Flow(options.root, settings.max_failed_share)
    build = _retrieval if settings.kind == "retrieval" else _classification
    cohort = build(options, origin, settings, flow)
    if cohort.rows.empty:
        raise InputError(f"{options.root}: no row is left in the cohort; {largest_drop(flow)}")
    write_cohort(cohort, flow, settings, options)
    if isinstance(cohort, retrieval.RetrievalCohort):
        cohort.queries.to_parquet(options.output / "queries.parquet", index=False)
    log.info("%s: %d %s", options.output, len(cohort.rows), cohort.unit)


def _retrieval(options: Namespace, origin: Layout, settings: CohortSettings, flow: Flow) -> Cohort:
    if options.images_root is None:
        raise InputError(
            f"--images-layout and --images-root are missing; the images of {options.layout} lie in "
            "another data set"
        )
    request = Request(options.threads, headers=False)
    tables: RetrievalTables = origin.reader("tables")(options.root, request)
    request = Request(options.threads, images=frozenset(tables.images["image_id"]))
    pictures = layout(options.images_layout).read(options.images_root, request)
    flow.notes += tables.notes
    return retrieval.build(tables, pictures, flow)


def _classification(
    options: Namespace, origin: Layout, settings: CohortSettings, flow: Flow
) -> Cohort:
    read = origin.reader("published" if origin.published else "tables")
    tables: Tables = read(options.root, Request(options.threads))
    flow.notes += tables.notes
    held_out, notes = held_out_patients(held_out_sets(options.held_out), origin)
    flow.notes += notes
    return build_classification(tables, held_out, settings, flow)


def build_classification(
    tables: Tables, held_out: Mapping[str, Set[str]], settings: CohortSettings, flow: Flow
) -> Cohort:
    """Build labelled images in their published parts, renamed by ``splits.parts``.

    Held-out patients (by evaluation set) leave the parts that are not test.
    """
    if tables.splits is None:
        raise InputError(f"{tables.source}: splits.method is official, but no split comes with it")
    published = _rename_parts(tables.splits, settings.splits.parts, tables.source)
    by_image = "image_id" in published
    unit = tables.images["image_id"] if by_image else groups(tables.images)
    split_by_unit = published.set_index(published.columns[0])["split"]
    split = unit.map(split_by_unit[~split_by_unit.index.duplicated()])
    images = tables.images
    if held_out:
        images = _not_held(tables, split, held_out, flow)
        tables = replace(tables, dropped={**tables.dropped, "images": []})  # counted by now
    if by_image:
        # The common builder splits by patient: here each image is its own.
        as_images = published.rename(columns={"image_id": "subject_id"})
        alone = replace(
            tables, images=images.assign(subject_id=images["image_id"]), splits=as_images
        )
        cohort = classification.build(alone, {}, settings, flow)
        patient = images.set_index("image_id")["subject_id"]
        rows = cohort.rows.assign(subject_id=cohort.rows["image_id"].map(patient))
        # What is known of patients stands in place of the check that took images for them.
        flow.checks[:] = [check for check in flow.checks if check["name"] != "patient in one split"]
        classification.count_shared_patients(rows, flow)
        cohort = replace(cohort, rows=rows)
    else:
        cohort = classification.build(
            replace(tables, images=images, splits=published), {}, settings, flow
        )
    if held_out:
        checked = leakage.held_out_not_trained(cohort.rows, held_out, tables.source)
        flow.check("held-out patients not trained on", checked)
    return cohort


def _rename_parts(
    splits: pd.DataFrame, names: Mapping[str, str] | None, source: object
) -> pd.DataFrame:
    """Rename the parts of the published split by ``names`` and leave out those it lacks."""
    if names is None:
        return splits
    unknown = sorted(set(names) - set(splits["split"]))
    if unknown:
        part_names = ", ".join(sorted(set(splits["split"])))
        raise InputError(f"{source}: splits.parts names '{unknown[0]}'; the split has {part_names}")
    return splits.assign(split=splits["split"].map(names)).dropna(subset="split")


def _not_held(
    tables: Tables, split: pd.Series, held_out: Mapping[str, Set[str]], flow: Flow
) -> pd.DataFrame:
    """Leave out images of held-out patients that are not in test."""
    images = tables.images
    flow.step("images published", "images", len(images), tables.dropped.get("images", []))
    lost = pd.Series(False, index=images.index)
    drops = []
    for name, patients in held_out.items():
        theirs = images["subject_id"].isin(patients) & (split != "test") & ~lost
        drops.append(Drop.of(f"patient of {name}", images.loc[theirs, "image_id"]))
        lost |= theirs
    flow.step("patient not held out", "images", int((~lost).sum()), drops)
    return images[~lost]
