"""Reference rows of probes by cross-validation: plain features of the pixels (not of the paper)."""

from cxrflow.benchmarks.classification.fold_probe import probed
from cxrflow.benchmarks.classification.probe_settings import FoldProbeSettings
from cxrflow.benchmarks.classification.references import plain_features
from cxrflow.benchmarks.classification.zero_shot_findings import label_studies
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions


def predict(name: str, inputs: ModelInputs, settings: FoldProbeSettings) -> Predictions:
    """Probe the features of a reference row."""
    dropped = label_studies(inputs, settings)
    features = plain_features(name, inputs.pixels, inputs.cohort.table)
    plain = settings.model_copy(update={"features": "pooled"})
    return probed(inputs, plain, features, dropped)
