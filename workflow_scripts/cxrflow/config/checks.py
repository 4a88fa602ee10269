"""What must hold between a configuration's parts, beyond names that refer to something.

No patient of an evaluation set is trained on (BioViL section 4.1), every set of reports is split by
patient, and nothing writes radiographs or report text of real data unless ``privacy:`` allows it.
Each check raises a ``ValueError`` whose text begins with the key and a colon.
"""

from typing import TYPE_CHECKING

from cxrflow.config.label_comparisons import KEY, label_comparisons
from cxrflow.data.layouts import holders
from cxrflow.data.layouts.overlap import Rows, overlap

if TYPE_CHECKING:
    from cxrflow.config.schema import Config

REPORT_LAYOUTS = holders("reports")
TEXT_LAYOUTS = holders("documents")


def text_kind(layout: str) -> str:
    """What a recipe calls the text of a data set with this layout (``Recipe.corpora``)."""
    return layout if layout in TEXT_LAYOUTS else "reports"


def check_layouts_have_text(config: "Config") -> None:
    """The role ``reports`` has reports, and everything read as text has text."""
    reports = config.datasets[config.report_dataset]
    if reports.layout not in REPORT_LAYOUTS:
        raise ValueError(
            f"roles.reports: its data set has the layout {reports.layout}, "
            f"expected one of {', '.join(REPORT_LAYOUTS)}"
        )
    readable = (*REPORT_LAYOUTS, *TEXT_LAYOUTS)
    for key, datasets in _texts(config).items():
        for name in datasets:
            if config.datasets[name].layout not in readable:
                raise ValueError(
                    f"{key}: '{name}' has the layout {config.datasets[name].layout}, "
                    f"which has no text; expected one of {', '.join(readable)}"
                )


def _texts(config: "Config") -> dict[str, list[str]]:
    """The data sets that are read as text, by the key that names them."""
    found = {"roles.corpora": config.text_datasets()}
    for name in config.vocabularies_in_use():
        found[f"vocabularies.{name}.documents"] = config.vocabulary_datasets(name)
    return found


def check_documents_are_split(config: "Config") -> None:
    """Every set of reports that is read as text has a pairs cohort, which splits its patients."""
    for key, datasets in _texts(config).items():
        for name in datasets:
            is_reports = config.datasets[name].layout in REPORT_LAYOUTS
            if is_reports and config.document_cohort(name) is None:
                raise ValueError(
                    f"{key}: '{name}' is a set of reports that no cohort of kind pairs splits by "
                    "patient; add one under cohorts"
                )


def check_evaluation_is_held_out(config: "Config") -> None:
    """Cohorts that models learn from hold out the evaluation sets that share their patients."""
    trained = [_rows(config, name) for name in config.training_cohorts()]
    for role in ("grounding", "grounding_raw", "classification"):
        cohort = getattr(config.roles, role)
        if cohort is None:
            continue
        evaluated = _rows(config, cohort)
        for rows in overlap(trained, evaluated).leaking:
            raise ValueError(
                f"cohorts.{rows.cohort}.held_out: '{evaluated.dataset}' (roles.{role}) has "
                f"patients of '{rows.dataset}', which is trained on; expected it in this list"
            )


def _rows(config: "Config", name: str) -> Rows:
    cohort = config.cohorts[name]
    dataset = config.datasets[cohort.dataset]
    held_out, images = frozenset(cohort.held_out), config.holder(name)
    return Rows(name, cohort.dataset, dataset.layout, dataset.synthetic, images, held_out)


def check_inference_has_sentence_pairs(config: "Config") -> None:
    """The cohorts of natural language inference are of the kind that holds sentence pairs."""
    for role in ("inference", "inference_training"):
        cohort = getattr(config.roles, role)
        if cohort is not None and config.cohorts[cohort].kind != "nli":
            raise ValueError(
                f"roles.{role}: cohort '{cohort}' is of kind {config.cohorts[cohort].kind}, "
                "expected nli"
            )


def check_label_comparisons(config: "Config") -> None:
    """Report labels are compared on data sets of reports, with labels that have a place."""
    for one in config.benchmarks.label_agreement.comparisons or ():
        layouts = {name: dataset.layout for name, dataset in config.datasets.items()}
        if layouts.get(one.dataset) not in REPORT_LAYOUTS:
            reports = sorted(n for n, layout in layouts.items() if layout in REPORT_LAYOUTS)
            raise ValueError(
                f"{KEY}: '{one.dataset}' is no data set of reports; "
                f"there are {', '.join(reports) or 'none'}"
            )
    label_comparisons(config)


def check_pictures_are_allowed(config: "Config") -> None:
    """Phrase grounding writes radiographs and phrases of real data only where privacy allows.

    The papers' figures hold both too and are drawn only where ``figures`` asks for pictures.
    """
    asked, key = config.benchmarks.phrase_grounding, "benchmarks.phrase_grounding"
    real = [
        config.cohorts[cohort].dataset
        for cohort in config.roles.cohorts("grounding", "grounding_raw")
        for name in (config.cohorts[cohort].dataset, config.holder(cohort))
        if not config.datasets[name].synthetic
    ]
    if not real or not asked.figures:
        return
    dataset = real[0]
    if config.privacy.show_images is not True:
        raise ValueError(
            f"{key}.figures: {asked.figures} pictures would be written of '{dataset}', which is "
            "not synthetic; expected 0, or privacy.show_images: true"
        )
    if asked.figure_phrases and config.privacy.show_text is not True:
        raise ValueError(
            f"{key}.figure_phrases: report text would be written of '{dataset}', which is not "
            "synthetic; expected false, or privacy.show_text: true"
        )
