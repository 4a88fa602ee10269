"""The reference labels that our report labels are compared with, and the files that hold them.

If ``label_agreement.comparisons`` is null, these are the labels that come with the data of this
run: for MIMIC-CXR the CheXpert and NegBio tables of MIMIC-CXR-JPG, if the configuration has that
data set, for Open-I its human index terms.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cxrflow.benchmarks.data.settings import LabelAgreementSettings
from cxrflow.config.datasets import Datasets
from cxrflow.config.parts import LabelAgreement, LabelComparison
from cxrflow.config.problems import WrongKey
from cxrflow.data.layouts import Layout, holders, layout

KEY = ("label_agreement", "comparisons")


@dataclass(frozen=True)
class ReferenceLabels:
    """Labels that a data set's report labels are compared with.

    ``holder`` is the data set whose folder holds ``file``; None: a file of the user's own.
    """

    dataset: str
    reference: str
    holder: str | None
    file: str
    settings: LabelAgreementSettings


def label_comparisons(
    data: Datasets, protocol: LabelAgreement, reports: Iterable[str]
) -> list[ReferenceLabels]:
    """The comparisons of a run, in order; ``reports`` are the data sets whose reports it reads.

    Raises:
        WrongKey: a comparison names something that does not exist, or is given twice.
    """
    chosen = protocol.comparisons
    if chosen is None:
        chosen = list(_automatic(data, reports))
    resolved: dict[tuple[str, str], ReferenceLabels] = {}
    for comparison in chosen:
        place = (comparison.dataset, comparison.reference)
        if place in resolved:
            raise WrongKey(KEY, f"'{place[1]}' of '{place[0]}' stands there twice")
        resolved[place] = _resolve(data, protocol, comparison)
    return list(resolved.values())


def _automatic(data: Datasets, reports: Iterable[str]) -> Iterable[LabelComparison]:
    for name in dict.fromkeys(reports):
        described = data.layout(name)
        if described.companion is None or data.companion_of(name) is not None:
            for reference in described.compared_with:
                yield LabelComparison(dataset=name, reference=reference)


def _tables(described: Layout) -> dict[str, str]:
    """The label files of a layout's reports, by reference; gzipped as published or not."""
    return layout(described.companion or described.name).label_tables


def _resolve(
    data: Datasets, protocol: LabelAgreement, comparison: LabelComparison
) -> ReferenceLabels:
    dataset, reference = comparison.dataset, comparison.reference
    sets = sorted(name for name in data.present if data.layout(name).reports)
    if dataset not in sets:
        names = ", ".join(sets) or "none"
        raise WrongKey(KEY, f"'{dataset}' is no data set of reports; there are {names}")
    described = data.layout(dataset)
    holder: str | None = None
    file = comparison.file
    if file is None and reference in _tables(described):
        file = _tables(described)[reference]
        holder = data.companion_of(dataset) if described.companion else dataset
        if holder is None:
            raise WrongKey(
                KEY,
                f"'{reference}' of '{dataset}' needs a data set of layout {described.companion} "
                "under datasets, or its own 'file'",
            )
    elif file is None:
        tables = {name: _tables(layout(name)) for name in holders("reports")}
        expected = [
            f"{', '.join(references)} (layout {name})"
            for name, references in tables.items()
            if references
        ]
        raise WrongKey(
            KEY,
            f"'{reference}' of '{dataset}' has no 'file'; without one expected "
            f"{' or '.join(expected)}",
        )
    settings = LabelAgreementSettings(
        layout="table" if file else "open_i",
        id_column=comparison.id_column,
        positives_only=comparison.positives_only,
        uncertain=protocol.uncertain,
        intervals=protocol.intervals,
    )
    return ReferenceLabels(dataset, reference, holder, file, settings)
