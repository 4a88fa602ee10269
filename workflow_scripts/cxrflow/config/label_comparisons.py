"""Which given labels our report labels are compared with, and where those lie.

Where ``label_agreement.comparisons`` is null it is what comes with the data of this run:
for MIMIC-CXR the CheXpert and NegBio tables of MIMIC-CXR-JPG, if that is a data set of the
configuration, for Open-I its human index terms. A list says it by hand. Errors are a ``ValueError``
whose text begins with the key and a colon.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cxrflow.benchmarks.data.settings import LabelAgreementSettings
from cxrflow.config.parts import Comparison
from cxrflow.data.layouts import layout

if TYPE_CHECKING:
    from cxrflow.config.schema import Config

KEY = "label_agreement.comparisons"
# Tables of MIMIC-CXR-JPG by the reference they are; gzipped as published or not.
JPG_TABLES = layout("mimic_cxr_jpg").label_tables
# What null compares with, by the layout of the reports.
AUTO = {"mimic_cxr": ("chexpert", "negbio"), "open_i": ("terms",)}


@dataclass(frozen=True)
class GivenLabels:
    """One comparison, resolved.

    ``holder`` is the data set in whose folder ``file`` lies, None for a file of the user's own.
    """

    dataset: str
    reference: str
    holder: str | None
    file: str
    settings: LabelAgreementSettings


def label_comparisons(config: "Config") -> list[GivenLabels]:
    """The comparisons of a run, in order.

    Raises:
        ValueError: a comparison names something that there is not, or stands there twice.
    """
    chosen = config.label_agreement.comparisons
    if chosen is None:
        chosen = list(_automatic(config))
    found: dict[tuple[str, str], GivenLabels] = {}
    for one in chosen:
        place = (one.dataset, one.reference)
        if place in found:
            raise ValueError(f"{KEY}: '{one.reference}' of '{one.dataset}' stands there twice")
        found[place] = _resolve(config, one)
    return list(found.values())


def _automatic(config: "Config") -> Iterable[Comparison]:
    cohorts = [config.known_cohorts[name] for name in config.cohorts_in_use]
    pairs = [cohort.dataset for cohort in cohorts if cohort.recipe.kind == "pairs"]
    for name in dict.fromkeys([*config.all_needs.text_datasets, *pairs]):
        layout_name = config.data.layout(name).name
        if layout_name == "mimic_cxr" and _tables_of(config, name) is None:
            continue
        for reference in AUTO.get(layout_name, ()):
            yield Comparison(dataset=name, reference=reference)


def _tables_of(config: "Config", dataset: str) -> str | None:
    """The MIMIC-CXR-JPG data set that goes with one of reports: as real, or as synthetic."""
    for name in config.data.present:
        if config.data.layout(name).name == "mimic_cxr_jpg" and config.data.same_patients(
            name, dataset
        ):
            return name
    return None


def _resolve(config: "Config", one: Comparison) -> GivenLabels:
    layout_name = config.data.layout(one.dataset).name
    holder: str | None = None
    file, kind = one.file, "table"
    if file is None and one.reference in JPG_TABLES and layout_name == "mimic_cxr":
        holder, file = _tables_of(config, one.dataset), JPG_TABLES[one.reference]
        if holder is None:
            raise ValueError(
                f"{KEY}: '{one.reference}' of '{one.dataset}' needs a data set of layout "
                "mimic_cxr_jpg under datasets, or its own 'file'"
            )
    elif file is None and one.reference == "terms" and layout_name == "open_i":
        holder, file, kind = one.dataset, "", "open_i"
    elif file is None:
        raise ValueError(
            f"{KEY}: '{one.reference}' of '{one.dataset}' has no 'file'; without one expected "
            f"{', '.join(JPG_TABLES)} (layout mimic_cxr) or terms (layout open_i)"
        )
    protocol = config.label_agreement
    settings = LabelAgreementSettings.model_validate(
        {
            "layout": kind,
            "id_column": one.id_column,
            "positives_only": one.positives_only,
            "uncertain": protocol.uncertain,
            "intervals": protocol.intervals,
        }
    )
    return GivenLabels(one.dataset, one.reference, holder, file, settings)
