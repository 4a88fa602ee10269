"""Candidates in the plane: t-SNE of several models' features side by side (ConVIRT Figure 3).

Distances are one less the cosine, by which candidates are ranked; the paper does not say its own.
The per cent beside a model's name is of the features, not of the map, in which distances mean
little: of a candidate's ten nearest those of its own category, mean over candidates.
"""

import numpy as np
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray
from sklearn.manifold import TSNE

from cxr_files.errors import InputError
from cxrflow.benchmarks.features import read_features
from cxrflow.benchmarks.figures.frame import FigureDrawing, FigureInputs
from cxrflow.benchmarks.result import png_of
from cxrflow.benchmarks.retrieval.precision import RETRIEVAL, candidates_of
from cxrflow.benchmarks.retrieval.settings import EmbeddingFigureSettings
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.retrieval import cosines, precision, ranking

COLUMNS = RETRIEVAL
NEAREST = 10
INKED = 5000.0  # points² of a panel that its dots cover together, less where they are many
DOT = (3.0, 40.0)  # points² of a dot, at least and at most


def plane(features_NF: Floats, perplexity: float) -> Floats:
    """Places [N, 2] of features; a fixed start, so that the same features have the same map."""
    # Of fewer images no perplexity is as great.
    neighbours = min(perplexity, (len(features_NF) - 1) / 3)
    return np.asarray(
        TSNE(perplexity=neighbours, metric="cosine", init="pca", random_state=0).fit_transform(
            features_NF
        ),
        dtype=np.float64,
    )


def own_category(features_NF: Floats, categories: NDArray[np.str_], nearest: int) -> float:
    """Of the nearest of each image, itself left out, the share of its category; their mean."""
    scores_NN = cosines(features_NF, features_NF)
    np.fill_diagonal(scores_NN, -np.inf)
    same_NN = categories[ranking(scores_NN)] == categories[:, None]
    return float(precision(same_NN, [nearest]).mean())


def draw(inputs: FigureInputs, settings: EmbeddingFigureSettings) -> FigureDrawing:
    """Draw the candidates of each model, a colour a category."""
    columns = inputs.columns(settings.columns)
    canvas = Canvas(figsize=(4.2 * len(columns), 4.4), dpi=100, layout="constrained")
    places = canvas.subplots(1, len(columns), squeeze=False)[0]
    lines = []
    for axes, (label, result) in zip(places, columns.items(), strict=True):
        features = read_features(result.options["features"], result.options["models"])
        table = candidates_of(inputs.cohort.table, features).table
        absent = sorted(set(settings.categories) - set(table["category"]))
        if absent:
            raise InputError(
                f"settings: key 'categories' names '{absent[0]}'; the candidates have "
                f"{', '.join(sorted(set(table['category'])))}"
            )
        table = table[table["category"].isin(settings.categories)]
        found_CF = features.of(table, "pooled").double().numpy()
        categories = table["category"].to_numpy()
        nearest = min(NEAREST, len(table) - 1)
        near = f"{own_category(found_CF, categories, nearest):.0%} of the {nearest} nearest"
        map_C2 = plane(found_CF, settings.perplexity)
        dot = float(np.clip(INKED / len(map_C2), *DOT))
        for name in settings.categories:
            places_2 = map_C2[categories == name].T
            axes.scatter(*places_2, s=dot, label=name, linewidths=0)
        axes.set(title=f"{label}: {near}", xticks=[], yticks=[])
        lines.append(f"{label}: {near} of {len(table)} candidates have its category")
    canvas.legend(
        *places[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(settings.categories),
        frameon=False,
    )
    caption = (
        "t-SNE of the encoders' features of candidate images, a dot each, by category; first "
        "seeds. Per cent: the share of a candidate's nearest neighbours, by the features "
        "themselves, that have its category."
    )
    return FigureDrawing(png_of(canvas), caption, lines)
