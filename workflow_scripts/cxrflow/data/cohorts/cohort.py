"""Make a cohort: read a data set, filter it, choose images and priors, split it, check for leaks.

Writes into the output folder: pairs.parquet or samples.parquet, images.parquet (what the pixel
store needs), split.csv, flow.json (how many each filter dropped and why), and documents.parquet for
pair cohorts. Rules: BioViL §4.1 for pairs, §3.1 for grounding, §4.2 for sentence pairs; see
docs/data.md.
"""

import logging
from argparse import Namespace
from dataclasses import replace
from importlib import import_module

import pandas as pd

from cxr_files.atomic import atomic_folder, file_digest, fingerprint, is_synthetic, write_json
from cxr_files.errors import InputError
from cxr_files.formulas import inert
from cxr_files.ids import ids_may_stand
from cxr_files.notes import without_examples
from cxr_files.parquet import read_table
from cxrflow.data.cohorts import (
    classification,
    filters,
    grounding,
    nli,
    pairs,
    progression,
    published_parts,
    retrieval,
)
from cxrflow.data.cohorts.flow import CohortTables, Flow
from cxrflow.data.cohorts.held_out import held_out_patients, held_out_sets
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.cohorts.splits import training_shares
from cxrflow.data.cohorts.texts import read_corpus, report_labels, study_key
from cxrflow.data.cohorts.validation import draw_validation
from cxrflow.data.layouts import Layout, layout
from cxrflow.data.readers.common_tables import Request, RetrievalTables, Tables

log = logging.getLogger("cxrflow")


def make_cohort(options: Namespace, settings: CohortSettings) -> None:
    """Build a cohort and write its folder."""
    if (options.images_layout is None) != (options.images_root is None):
        raise InputError("--images-layout and --images-root: expected both or neither")
    options.dataset = options.dataset or options.layout
    options.held_out = held_out_sets(options.held_out)
    silver = [] if options.training is None else held_out_sets([options.training], "--training")
    options.training = next(iter(silver), None)
    origin = layout(options.layout)
    if settings.kind not in origin.cohorts:
        raise InputError(
            f"--layout {options.layout}: makes cohorts of kind {', '.join(origin.cohorts)}, "
            f"settings ask for {settings.kind}"
        )
    try:
        settings = settings.split_as(origin.split)
    except ValueError as error:
        raise InputError(f"--layout {options.layout}: {error}") from None
    flow = Flow(options.root, settings.max_failed_share)
    build = {
        "pairs": _pairs,
        "grounding": _grounding,
        "classification": _classification,
        "nli": _nli,
        "progression": _progression,
        "retrieval": _retrieval,
    }
    cohort = build[settings.kind](options, origin, settings, flow)
    if cohort.rows.empty:
        raise InputError(f"{options.root}: no row is left in the cohort; {_largest_drop(flow)}")
    if settings.splits.validation is not None:
        cohort = draw_validation(cohort, flow, settings.splits, options.root)
    _write_cohort(cohort, flow, settings, options)
    log.info("%s: %d %s", options.output, len(cohort.rows), cohort.unit)


def _pairs(
    options: Namespace, origin: Layout, settings: CohortSettings, flow: Flow
) -> CohortTables:
    if options.corpus is None:
        raise InputError("--corpus is missing; pairs need the output of cxrflow.reports.corpus")
    corpus = read_corpus(options.corpus, origin.study_prefix)
    published = settings.labels == "published"
    request = Request(options.threads, headers=options.images_root is None, labels=published)
    tables = origin.read(options.root, request)
    flow.notes += tables.notes
    pictures = tables
    if options.images_root is not None:
        edition = layout(options.images_layout)
        # The reports of one patient would be paired with the images of another.
        if edition.ids != origin.ids:
            raise InputError(
                f"--images-layout {options.images_layout}: its patients are not those of "
                f"{options.layout}; expected another edition of the same data set"
            )
        pictures = edition.read(options.images_root, Request(options.threads, labels=published))
        flow.notes += pictures.notes
    held_out = _held_out(options, origin, tables, flow)
    pictures = _curated(pictures, options, flow)
    extra = {}
    if settings.unsaid_views == "predicted":
        # By name, so that what decodes images is code of the cohorts alone that ask for it.
        predicting = import_module("cxrflow.data.cohorts.predicted_views")
        pictures, account = predicting.with_predicted_views(pictures, settings, options.threads)
        flow.notes.append(predicting.sentence(account))
        extra["predicted_views"] = account
    labels = None
    if settings.labels == "reports":
        labels = report_labels(options.corpus, origin.study_prefix)
    elif published:
        labels = _published_labels(tables, pictures, origin.study_prefix)
    sources = pairs.PairSources(
        options.dataset, tables, pictures, corpus, origin.study_prefix, held_out, labels
    )
    cohort = pairs.build(sources, settings, flow, options.threads)
    return replace(cohort, extra={**cohort.extra, **extra})


def _held_out(
    options: Namespace, origin: Layout, tables: Tables, flow: Flow
) -> dict[str, frozenset[str]]:
    """Patients of the evaluation sets, by the name of each."""
    patients = {*tables.studies["subject_id"].dropna(), *tables.images["subject_id"].dropna()}
    held_out, notes = held_out_patients(options.held_out, options.ids or origin.ids, patients)
    flow.notes += notes
    return held_out


def _published_labels(tables: Tables, pictures: Tables, study_prefix: str) -> pd.DataFrame:
    """Return the publisher's labels of studies, from the edition that has them."""
    for source in (pictures, tables):
        if "study_id" in source.labels:
            return source.labels.assign(study_id=study_key(source.labels["study_id"], study_prefix))
    raise InputError(
        f"{pictures.source}: settings key 'labels' is 'published', but no labels of studies come "
        "with the data set; expected 'reports', or images of mimic_cxr_jpg with its CheXpert table"
    )


def _image_layout(options: Namespace) -> Layout:
    """The layout of the data set that holds the images; an annotation may have its own."""
    if options.images_root is None and "images" in layout(options.layout).holds:
        options.images_layout, options.images_root = options.layout, options.root
    if options.images_root is None:
        raise InputError(
            f"--images-layout and --images-root are missing; the images of {options.layout} lie in "
            "another data set"
        )
    return layout(options.images_layout)


def _grounding(
    options: Namespace, origin: Layout, settings: CohortSettings, flow: Flow
) -> CohortTables:
    reader = _image_layout(options)
    tables = origin.read(options.root, Request(options.threads, headers=False))
    image_ids = frozenset(tables.boxes["image_id"])
    # Priors are other images of the same patients, which the annotation does not list.
    if settings.priors:
        images = reader.read(options.images_root, Request(options.threads, headers=False)).images
        patients = images.loc[images["image_id"].isin(image_ids), "subject_id"]
        image_ids |= frozenset(images.loc[images["subject_id"].isin(patients), "image_id"])
    pictures = reader.read(options.images_root, Request(options.threads, images=image_ids))
    if options.images_layout == options.layout:  # whose headers say in which pixels boxes are
        tables = replace(tables, images=pictures.images)
    flow.notes += tables.notes
    pictures = _curated(pictures, options, flow)
    cohort = grounding.build(tables, pictures, settings, flow, options.threads)
    if settings.priors:
        return grounding.with_priors(cohort, pictures, settings, options.threads)
    return cohort


def _classification(
    options: Namespace, origin: Layout, settings: CohortSettings, flow: Flow
) -> CohortTables:
    published = settings.split_method == "official"
    read = origin.reader("published" if published and origin.published else "tables")
    tables: Tables = read(options.root, Request(options.threads))
    flow.notes += tables.notes
    held_out = _held_out(options, origin, tables, flow)
    build = published_parts.build if published else classification.build
    return build(tables, held_out, settings, flow)


def _nli(options: Namespace, origin: Layout, settings: CohortSettings, flow: Flow) -> CohortTables:
    tables = origin.read(options.root, Request(options.threads))
    flow.notes += tables.notes
    return nli.build(tables, flow)


def _progression(
    options: Namespace, origin: Layout, settings: CohortSettings, flow: Flow
) -> CohortTables:
    reader = _image_layout(options)
    request = Request(options.threads, headers=False)
    tables = origin.read(options.root, request)
    silver = None
    if options.training is not None:
        silver_layout = layout(options.training.layout)
        if silver_layout.ids != origin.ids:
            raise InputError(
                f"--training {silver_layout.name}={options.training.root}: its patients are not "
                f"those of {options.layout}; expected labels of the same patients"
            )
        silver = silver_layout.read(options.training.root, request)
    image_ids = progression.labelled_images(tables, silver)
    request = Request(options.threads, images=image_ids)
    pictures = reader.read(options.images_root, request)
    flow.notes += tables.notes
    held_out = _held_out(options, origin, pictures, flow)
    pictures = _curated(pictures, options, flow)
    return progression.build(tables, silver, pictures, held_out, settings, flow, options.threads)


def _retrieval(
    options: Namespace, origin: Layout, settings: CohortSettings, flow: Flow
) -> CohortTables:
    reader = _image_layout(options)
    tables: RetrievalTables = origin.reader("tables")(
        options.root, Request(options.threads, headers=False)
    )
    request = Request(options.threads, images=frozenset(tables.images["image_id"]))
    flow.notes += tables.notes
    return retrieval.build(tables, reader.read(options.images_root, request), flow)


def _curated(pictures: Tables, options: Namespace, flow: Flow) -> Tables:
    """Mark the images that curation rejected; without a curation return them as they are."""
    if options.curation is None:
        return pictures
    decided = read_table(options.curation, ("image_id", "decision"))
    rejected = decided.loc[decided["decision"] == "rejected", "image_id"]
    rejects = pictures.images["image_id"].isin(rejected)
    flow.notes.append(f"curation rejects {rejects.sum()} of the images listed ({options.curation})")
    return replace(pictures, images=pictures.images.assign(**{filters.REJECTED: rejects}))


def _largest_drop(flow: Flow) -> str:
    """Return the reason for which most rows were dropped."""
    drops = [(drop["count"], step["name"], drop) for step in flow.steps for drop in step["dropped"]]
    if not drops:
        return "nothing was listed"
    count, name, drop = max(drops, key=lambda item: item[0])
    ids = f", e.g. {drop['examples'][:2]}" if drop["examples"] else ""
    return f"most were dropped at '{name}': {drop['reason']} ({count}{ids})"


def _write_cohort(
    cohort: CohortTables, flow: Flow, settings: CohortSettings, options: Namespace
) -> None:
    training = options.training and options.training.root
    roots = [root for root in (options.root, options.images_root, training) if root is not None]
    name = "pairs" if settings.kind == "pairs" else "samples"
    rows = cohort.rows
    if settings.share_unit is not None:
        rows = rows.assign(share=training_shares(rows, settings.share_unit, settings.seed))
    with atomic_folder(options.output, "cohort") as folder:
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
                "cohort": options.output.name,
                "dataset": options.dataset,
                "layout": options.layout,
                "kind": settings.kind,
                "synthetic": any(map(is_synthetic, roots)),
                "fingerprint": fingerprint(digests),
                "settings": settings.record(),
                "steps": flow.steps,
                "splits": cohort.split_sizes(),
                "checks": flow.checks,
                "notes": [n if ids_may_stand() else without_examples(n) for n in flow.notes],
                **cohort.extra,
            },
        )
        if cohort.queries is not None:
            cohort.queries.to_parquet(folder / "queries.parquet", index=False)
