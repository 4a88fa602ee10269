"""Make a cohort: read a data set, filter it, choose images and priors, split it, check for leaks.

Writes into the output folder: pairs.parquet or samples.parquet, images.parquet (what the pixel
store needs), split.csv, flow.json (how many each filter dropped and why), and documents.parquet for
pair cohorts. Rules: BioViL §4.1 for pairs, §3.1 for grounding, §4.2 for sentence pairs; see
docs/data.md.
"""

import logging
from argparse import Namespace
from dataclasses import replace

import pandas as pd

from cxrflow.data.cohorts import classification, filters, grounding, pairs, progression
from cxrflow.data.cohorts.flow import Cohort, Flow
from cxrflow.data.cohorts.held_out import held_out_patients, held_out_sets
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.cohorts.splits import training_shares
from cxrflow.data.cohorts.texts import read_corpus, report_labels, study_key
from cxrflow.data.layouts import Layout, layout
from cxrflow.data.readers import nli
from cxrflow.data.readers.common_tables import Request, Tables
from cxrflow.errors import InputError
from cxrflow.files.atomic import atomic_folder, file_digest, fingerprint, is_synthetic, write_json
from cxrflow.files.csv_table import inert
from cxrflow.files.parquet import read_table

log = logging.getLogger("cxrflow")


def make_cohort(given: Namespace, settings: CohortSettings) -> None:
    """What ``cxrflow.data.cohorts.build_cohort`` calls."""
    if (given.images_layout is None) != (given.images_root is None):
        raise InputError("--images-layout and --images-root: expected both or neither")
    given.dataset = given.dataset or given.layout
    given.held_out = held_out_sets(given.held_out)
    silver = [] if given.training is None else held_out_sets([given.training], "--training")
    given.training = next(iter(silver), None)
    own = layout(given.layout)
    if settings.kind not in own.cohorts:
        raise InputError(
            f"--layout {given.layout}: makes cohorts of kind {', '.join(own.cohorts)}, "
            f"settings ask for {settings.kind}"
        )
    flow = Flow(given.root, settings.max_failed_share)
    build = {
        "pairs": _pairs,
        "grounding": _grounding,
        "classification": _classification,
        "nli": _nli,
        "progression": _progression,
    }
    cohort = build[settings.kind](given, own, settings, flow)
    if cohort.rows.empty:
        raise InputError(f"{given.root}: no row is left in the cohort; {largest_drop(flow)}")
    write_cohort(cohort, flow, settings, given)
    log.info("%s: %d %s", given.output, len(cohort.rows), cohort.unit)


def _pairs(given: Namespace, own: Layout, settings: CohortSettings, flow: Flow) -> Cohort:
    if given.corpus is None:
        raise InputError("--corpus is missing; pairs need the output of cxrflow.reports.corpus")
    corpus = read_corpus(given.corpus, own.study_prefix)
    tables = own.read(given.root, Request(given.threads, headers=given.images_root is None))
    flow.notes += tables.notes
    pictures = tables
    if given.images_root is not None:
        edition = layout(given.images_layout)
        if edition.ids != own.ids:
            raise InputError(
                f"--images-layout {given.images_layout}: its patients are not those of "
                f"{given.layout}; expected another edition of the same data set"
            )
        pictures = edition.read(given.images_root, Request(given.threads))
        flow.notes += pictures.notes
    held, notes = held_out_patients(given.held_out, own)
    flow.notes += notes
    pictures = _curated(pictures, given, flow)
    labels = None
    if settings.labels == "reports":
        labels = report_labels(given.corpus, own.study_prefix)
    elif settings.labels == "published":
        labels = _published_labels(tables, pictures, own.study_prefix)
    sources = pairs.Sources(given.dataset, tables, pictures, corpus, own.study_prefix, held, labels)
    return pairs.build(sources, settings, flow, given.threads)


def _published_labels(tables: Tables, pictures: Tables, study_prefix: str) -> pd.DataFrame:
    """The publisher's labels of studies, which may come with the edition that has the images."""
    for source in (pictures, tables):
        if "study_id" in source.labels:
            return source.labels.assign(study_id=study_key(source.labels["study_id"], study_prefix))
    raise InputError(
        f"{pictures.source}: settings key 'labels' is 'published', but no labels of studies come "
        "with the data set; expected 'reports', or images of mimic_cxr_jpg with its CheXpert table"
    )


def _grounding(given: Namespace, own: Layout, settings: CohortSettings, flow: Flow) -> Cohort:
    if given.images_root is None:
        raise InputError(
            f"--images-layout and --images-root are missing; the images of {given.layout} lie in "
            "another data set"
        )
    tables = own.read(given.root, Request(given.threads, headers=False))
    wanted = frozenset(tables.images["image_id"])
    reader = layout(given.images_layout)
    if settings.priors:
        listed = reader.read(given.images_root, Request(given.threads, headers=False)).images
        patients = listed.loc[listed["image_id"].isin(wanted), "subject_id"]
        wanted |= frozenset(listed.loc[listed["subject_id"].isin(patients), "image_id"])
    pictures = reader.read(given.images_root, Request(given.threads, images=wanted))
    flow.notes += tables.notes
    pictures = _curated(pictures, given, flow)
    cohort = grounding.build(tables, pictures, settings, flow, given.threads)
    if settings.priors:
        return grounding.with_priors(cohort, pictures, settings, given.threads)
    return cohort


def _classification(given: Namespace, own: Layout, settings: CohortSettings, flow: Flow) -> Cohort:
    tables = own.read(given.root, Request(given.threads))
    flow.notes += tables.notes
    held, notes = held_out_patients(given.held_out, own)
    flow.notes += notes
    return classification.build(tables, held, settings, flow)


def _nli(given: Namespace, own: Layout, settings: CohortSettings, flow: Flow) -> Cohort:
    tables = own.read(given.root, Request(given.threads))
    flow.notes += tables.notes
    return nli.build(tables, flow)


def _progression(given: Namespace, own: Layout, settings: CohortSettings, flow: Flow) -> Cohort:
    if given.images_root is None:
        raise InputError(
            f"--images-layout and --images-root are missing; the images of {given.layout} lie in "
            "another data set"
        )
    request = Request(given.threads, headers=False)
    tables = own.read(given.root, request)
    silver = None
    if given.training is not None:
        other = layout(given.training.layout)
        if other.ids != own.ids:
            raise InputError(
                f"--training {other.name}={given.training.root}: its patients are not those of "
                f"{given.layout}; expected labels of the same patients"
            )
        silver = other.read(given.training.root, request)
    wanted = progression.wanted_images(tables, silver)
    request = Request(given.threads, images=wanted)
    pictures = layout(given.images_layout).read(given.images_root, request)
    held, notes = held_out_patients(given.held_out, own)
    flow.notes += [*tables.notes, *notes]
    sources = progression.Sources(tables, silver, _curated(pictures, given, flow), held)
    return progression.build(sources, settings, flow, given.threads)


def _curated(pictures: Tables, given: Namespace, flow: Flow) -> Tables:
    """The images with what curation rejected, if there was one."""
    if given.curation is None:
        return pictures
    decided = read_table(given.curation, ("image_id", "decision"))
    rejected = decided.loc[decided["decision"] == "rejected", "image_id"]
    there = pictures.images["image_id"].isin(rejected)
    flow.notes.append(f"curation rejects {there.sum()} of the images listed ({given.curation})")
    return replace(pictures, images=pictures.images.assign(**{filters.REJECTED: there}))


def largest_drop(flow: Flow) -> str:
    drops = [(drop["count"], step["name"], drop) for step in flow.steps for drop in step["dropped"]]
    if not drops:
        return "nothing was listed"
    count, name, drop = max(drops, key=lambda item: item[0])
    return f"most were dropped at '{name}': {drop['reason']} ({count}, e.g. {drop['examples'][:2]})"


def write_cohort(cohort: Cohort, flow: Flow, settings: CohortSettings, given: Namespace) -> None:
    training = given.training and given.training.root
    roots = [root for root in (given.root, given.images_root, training) if root is not None]
    name = "pairs" if settings.kind == "pairs" else "samples"
    rows = cohort.rows
    if settings.share_unit is not None:
        rows = rows.assign(share=training_shares(rows, settings.share_unit, settings.seed))
    with atomic_folder(given.output, "cohort") as folder:
        rows.to_parquet(folder / f"{name}.parquet", index=False)
        cohort.images.to_parquet(folder / "images.parquet", index=False)
        if cohort.documents is not None:
            cohort.documents.to_parquet(folder / "documents.parquet", index=False)
        split = cohort.split.rename_axis("subject_id").rename("split").reset_index()
        split = split.sort_values("subject_id").astype("str").apply(inert)
        split.to_csv(folder / "split.csv", index=False)
        digests = {path.name: file_digest(path) for path in sorted(folder.iterdir())}
        write_json(
            folder / "flow.json",
            {
                "cohort": given.output.name,
                "dataset": given.dataset,
                "layout": given.layout,
                "kind": settings.kind,
                "synthetic": any(map(is_synthetic, roots)),
                "fingerprint": fingerprint(digests),
                "settings": settings.model_dump(mode="json"),
                "steps": flow.steps,
                "splits": cohort.split_sizes(),
                "checks": flow.checks,
                "notes": flow.notes,
                **cohort.extra,
            },
        )
