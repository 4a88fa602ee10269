"""Hours, samples and samples a second of a training (Windsor et al. 2023, Table 3).

They are read from the training's ``run.json``, which counts all its starts. metrics.json has
``hours``, ``samples_per_second`` and, for trainings on images, ``samples`` of the training part.
"""

import pandas as pd

from cxr_files.atomic import read_object, require_whole
from cxrflow.benchmarks.data.settings import TrainingTimeSettings
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.metrics.intervals import Estimate

COLUMNS = ("study_id", "split")
FIELDS = {
    **{"seconds": int | float, "samples_per_second": int | float, "data": dict},
    **{"device": str, "processes": int},
}


def predict(inputs: ModelInputs, settings: TrainingTimeSettings) -> Predictions:
    """Read the record of the training."""
    file = inputs.options.model / "run.json"
    require_whole(file)
    run = read_object(file, FIELDS)
    values = {
        "hours": run["seconds"] / 3600,
        "samples_per_second": run["samples_per_second"],
        "samples": run["data"].get("train_samples"),
    }
    return Predictions(
        pd.DataFrame({"sample_id": [str(run.get("model", ""))], "seconds": [run["seconds"]]}),
        estimates={
            name: Estimate.counted(value, 1) for name, value in values.items() if value is not None
        },
        data={**inputs.cohort.data, "device": run["device"], "processes": run["processes"]},
    )
