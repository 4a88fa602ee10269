"""Whether the image that is nearest to a model has the finding if an image has it."""

import numpy as np
import pandas as pd

from cxrflow.benchmarks.inputs import drop_rows
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.outside import OutsideBenchmark, OutsideBenchmarkSettings
from cxrflow.benchmarks.result import CountedStatistic, Predictions, means
from cxrflow.data.cohorts.settings import Split
from cxrflow.metrics.retrieval import cosines


class NeighboursSettings(OutsideBenchmarkSettings):
    """Which finding, of which images."""

    split: Split | None = "test"
    finding: str = "Cardiomegaly"


class Neighbours(OutsideBenchmark):
    """The share of images whose nearest image, by the cosine of features, has the same label."""

    settings: NeighboursSettings
    description = {
        "kind": "classification",
        "needs": ["image"],
        "reads": "features",
        "references": ["nothing", "thumbnail"],
        "baselines": "rows.pictures:Pictures",
        "external": True,
    }
    metrics = ("agreement",)
    COLUMNS = ("sample_id", "subject_id", "image_id", "labels", "split")

    @staticmethod
    def predict(inputs: ModelInputs, settings: NeighboursSettings) -> Predictions:
        table, features = inputs.rows(settings.split), inputs.features
        place = inputs.cohort.classes.index(settings.finding)
        table = table.assign(has=[labels[place] for labels in table["labels"]])
        absent = {
            "image is not in the pixel store": features.rows(table) < 0,
            "label is not known": ~table["has"].isin([0, 1]),
        }
        table, dropped = drop_rows(table, absent)
        cosine_NN = np.random.default_rng(0).random((len(table), len(table)))  # any other image
        if not inputs.knows_nothing:
            images_NF = features.of(table, "pooled").double().numpy()
            cosine_NN = cosines(images_NF, images_NF)
        np.fill_diagonal(cosine_NN, -np.inf)
        nearest = table["has"].to_numpy()[cosine_NN.argmax(axis=1)]
        table = table[["sample_id", "subject_id", "has"]].assign(neighbour_has=nearest)
        return Predictions(table, Neighbours.statistic(table, settings), {"dropped": dropped})

    @staticmethod
    def statistic(table: pd.DataFrame, settings: NeighboursSettings) -> CountedStatistic:
        same = table["has"] == table["neighbour_has"]
        return means({"agreement": (same.astype(float), np.ones(len(table)))})
