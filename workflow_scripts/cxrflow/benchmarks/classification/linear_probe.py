"""Linear probes: a linear layer on frozen image features, from shares of the labels.

BioViL sections 2.2 ("Few-shot Tasks") and 4.4, Tables 6 and A.2 (pneumonia on RSNA): weights for
each class and a bias on the image's embedding in the joint space; the weights start as the class
prompts' embeddings and the bias at 0, so that an untrained head is the zero-shot classifier. A
model without a text encoder (SimCLR) has neither: its probes take the trunk's pooled features and
start at 0. A single class is a softmax over its absence and presence, several are a sigmoid each,
exclusive ones a softmax over them all (``head``).

All shares and seeds start from features computed once; a head is the optimum of a penalised loss
(``solver``). A metric is the mean over the seeds, its spread over them stands beside it
(``<metric>_sd``), both with an interval over the test images. With ``augmentation`` a head learns
from several augmented versions of each image in place of the image itself: the penalised loss is
then their mean.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrflow.benchmarks.classification.labelled_images import (
    LABELLED,
    LabelledImages,
    class_embedding,
    class_prompts,
    labelled_splits,
    with_columns,
)
from cxrflow.benchmarks.classification.probe_settings import LinearProbeSettings
from cxrflow.benchmarks.classification.scores import statistic, threshold_words
from cxrflow.benchmarks.features import Features, encode, images_to_encode
from cxrflow.benchmarks.heads.logistic_regression import (
    longest,
    start_of,
    start_weights,
    train_probes,
)
from cxrflow.benchmarks.heads.shares import percent, share_rows
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.images.augment import Augmentation, StoredPixels
from cxrflow.training.precision import choose_device

COLUMNS = (*LABELLED, "split")
_BATCH = 32  # images encoded at once


def settled(
    settings: LinearProbeSettings, has_text: bool, is_linear: bool, classes: int
) -> dict[str, str]:
    """Return features, start and head, with ``auto`` resolved; InputError for prompts without text.

    ``is_linear``: a head can start at prompts, of a model that compares by the cosine.

    The head is a softmax over present and absent of a single class, or over exclusive classes, else
    a sigmoid for each class.
    """
    features = settings.features
    head = "softmax" if classes == 1 or settings.exclusive else "sigmoid"
    if features == "auto":
        features = "projected" if has_text else "pooled"
    start = start_of(settings, is_linear and features == "projected")
    return {"features": features, "start": start, "head": head}


def targets(images: LabelledImages, head: str) -> NDArray[Any]:
    """Class numbers [N] of a softmax, labels [N, C] of sigmoids."""
    if head == "sigmoid":
        return images.labels_NC
    alone = images.labels_NC.shape[1] == 1
    return images.labels_NC[:, 0].astype(np.int64) if alone else images.labels_NC.argmax(axis=1)


def prompt_starts(
    model: Any, classes: Sequence[str], head: str, settings: LinearProbeSettings
) -> NDArray[np.float64]:
    """The weights of the outputs [outputs, P] that make the head the zero-shot classifier."""
    embeddings_C2P = np.stack(
        [
            [class_embedding(model, texts, settings.prompt_average) for texts in pair]
            for pair in class_prompts(classes, settings)
        ]
    )
    if head == "sigmoid":
        return np.asarray(embeddings_C2P[:, 1] - embeddings_C2P[:, 0])
    return np.asarray(embeddings_C2P[0] if len(classes) == 1 else embeddings_C2P[:, 1])


def probe_scores(
    train_DNF: Tensor,
    labels: NDArray[Any],
    test_MF: Tensor,
    choices: dict[str, str],
    outputs: int,
    starts_CP: NDArray[np.float64] | None,
    settings: LinearProbeSettings,
) -> tuple[dict[str, NDArray[np.float64]], dict[str, int], dict[str, Any]]:
    """Probabilities [seeds, M, outputs] by share, the images each has, and how it was solved.

    ``train_DNF`` has D versions of each of the N images, all of which count where one does.
    """
    device = choose_device(settings.device)
    versions, images, width = train_DNF.shape
    offsets = images * np.arange(versions)[:, None]
    start = start_weights(choices["start"], (width, outputs), starts_CP)
    runs = [
        ((offsets + share_rows(labels, fraction, seed)).ravel(), start)
        for fraction in settings.fractions
        for seed in settings.seeds
    ]
    # The penalty is held against the sum of the images' losses, not of all their versions'.
    weaker = {"inverse_penalty": settings.solver.inverse_penalty / versions}
    solver = settings.solver.model_copy(update=weaker)
    repeated_labels = np.concatenate([labels] * versions)
    heads, solutions = train_probes(
        train_DNF.flatten(0, 1).to(device), repeated_labels, runs, solver
    )
    logits_KMC = heads.logits(test_MF.to(device)).double()
    softmax = choices["head"] == "softmax"
    scores_KMC = (logits_KMC.softmax(2) if softmax else logits_KMC.sigmoid()).cpu().numpy()
    seeds = len(settings.seeds)
    names = [percent(fraction) for fraction in settings.fractions]
    labelled = {name: len(runs[n * seeds][0]) // versions for n, name in enumerate(names)}
    by_share = scores_KMC.reshape(len(names), seeds, len(test_MF), outputs)
    solved = {
        name: longest(name, solutions[n * seeds : (n + 1) * seeds], solver)
        for n, name in enumerate(names)
    }
    return dict(zip(names, by_share, strict=True)), labelled, solved


def predict(inputs: ModelInputs, settings: LinearProbeSettings) -> Predictions:
    """Probe the features of the labelled images, or of augmented versions of them."""
    return probed(inputs, settings, augmented_features(inputs, settings) or [inputs.features])


def probed(
    inputs: ModelInputs, settings: LinearProbeSettings, versions: Sequence[Features]
) -> Predictions:
    """Probe the features of ``inputs`` after learning from ``versions`` of those to train on."""
    features, model = inputs.features, inputs.text_model
    splits = (settings.train_split, settings.split)
    (train, test), dropped = labelled_splits(inputs, features, settings, splits)
    classes = test.classes
    is_linear = model is not None and model.similarity.is_linear
    choices = settled(settings, model is not None, is_linear, len(classes))
    head, kind = choices["head"], choices["features"]
    # The softmax of a single class is over its absence and presence, the latter its score.
    absence = int(head == "softmax" and len(classes) == 1)
    starts_CP = None
    if choices["start"] == "prompts":
        starts_CP = prompt_starts(model, classes, head, settings)
    scores, labelled, solved = probe_scores(
        torch.stack([version.of(train.table, kind) for version in versions]),
        targets(train, head),
        features.of(test.table, kind),
        choices,
        len(classes) + absence,
        starts_CP,
        settings,
    )
    by_share = {share: scores_SMC[..., absence:] for share, scores_SMC in scores.items()}
    predictions = with_columns(test.samples(), test.run_columns(by_share, settings.seeds))
    return Predictions(
        predictions,
        statistic(predictions, settings),
        {
            "pictures": features.pixels,
            "classes": list(classes),
            **test.counts(),
            **{f"train_{name}": count for name, count in train.counts().items()},
            "labelled": labelled,
            "dropped": dropped,
        },
        {
            **choices,
            "solution": solved,
            "geometry": features.geometry,
            "threshold_rule": f"{threshold_words(settings)}, for each seed",
        },
    )


def augmented_features(inputs: ModelInputs, settings: LinearProbeSettings) -> list[Features]:
    """Return the features of the training images in each of the settings' draws; [] without any."""
    if settings.augmentation is None:
        return []
    features, image, pixels = inputs.features, inputs.image, inputs.pixels
    encoded = images_to_encode(inputs.rows(settings.train_split), image.takes_prior)
    encoded = encoded[pixels.holds(encoded["image_id"])].reset_index(drop=True)
    augmentation = Augmentation(settings.augmentation)

    def version(draw: int) -> Features:
        def view(images: StoredPixels) -> Tensor:
            return augmentation(images, 0, draw)

        by_kind = encode(image, pixels, encoded, _BATCH, inputs.device, view)
        return Features(encoded, by_kind, features.geometry, features.pixels)

    return [version(draw) for draw in range(settings.draws)]
