"""Class-weighted probes of the test part by cross-validation: classes x folds."""

import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from torch import Tensor

from cxrflow.benchmarks.heads.cross_validation import cross_validate
from speed.race import Race

CLASSES, FOLDS = 12, 5


def near(ours: Tensor, peer: Tensor) -> None:
    """The probabilities of every row and class."""
    torch.testing.assert_close(ours, peer, rtol=0, atol=1e-4)
    assert peer.std() > 0.01, "heads that learnt nothing"


def races(rows: int = 2000, width: int = 512) -> list[Race]:
    """Features of forty hidden causes, positives in 5 to 16 % of the rows."""
    rng = np.random.default_rng(0)
    causes = rng.normal(size=(rows, 40))
    noise = rng.normal(size=(rows, width))
    features = np.maximum(causes @ rng.normal(size=(40, width)) + noise, 0)
    features = features.astype(np.float32).astype(np.float64)  # of an encoder
    liability = causes @ rng.normal(size=(40, CLASSES)) / 6 + rng.normal(size=(rows, CLASSES))
    labels = (liability > np.linspace(1.5, 2.4, CLASSES)).astype(np.float64)
    folds = np.arange(rows) % FOLDS

    def ours() -> Tensor:
        found = cross_validate(torch.from_numpy(features).float(), labels, folds)
        return torch.from_numpy(found.logit_NC).sigmoid()

    def scikit_learn() -> Tensor:
        logits = np.empty_like(labels)
        for fold in range(FOLDS):
            learnt, inside = folds != fold, folds == fold
            for number in range(CLASSES):
                scaler = StandardScaler().fit(features[learnt])
                head = LogisticRegression(class_weight="balanced", tol=1e-9, max_iter=20_000)
                head.fit(scaler.transform(features[learnt]), labels[learnt, number])
                logits[inside, number] = head.decision_function(scaler.transform(features[inside]))
        return torch.from_numpy(logits).sigmoid()

    def peer() -> Tensor:
        # Its vectors are short: threads of the linear algebra would mostly wait for each other.
        with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
            warnings.simplefilter("ignore", ConvergenceWarning)
            return scikit_learn()

    return [
        Race(
            name="fold_probe",
            what=f"{CLASSES} classes x {FOLDS} folds of {rows} images with {width} features: "
            "class-weighted logistic regression, probabilities of the rows left out",
            ours=ours,
            peers={"scikit-learn": peer},
            check=near,
            gates={"scikit-learn": 20},
            amount=CLASSES * FOLDS,
            unit="head",
            notes=["probabilities are compared to 1e-4"],
            most_rounds=3,
        ),
    ]
