"""Reports that were written elsewhere, scored as those of our own decoders."""

from cxrflow.benchmarks.external import ExternalTable
from cxrflow.benchmarks.generation.report_generation import predictions_of, read_studies
from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.result import Predictions


def score(table: ExternalTable, inputs: Inputs, settings: ReportGenerationSettings) -> Predictions:
    """Score the column ``report``; a blank one is an empty report."""
    samples, dropped = read_studies(inputs, settings)
    texts = {"": table.column(samples, "report").fillna("").astype("str")}
    protocol = {"writes": "external", "prompt": None}
    return predictions_of(inputs, samples, dropped, texts, settings, protocol)
