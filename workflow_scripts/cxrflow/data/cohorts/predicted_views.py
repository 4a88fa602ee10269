"""Views that a list does not say, predicted from the picture. No paper does it; an option of pairs.

ReXGradient says no view of 27,835 training images, most of which look frontal. Here a logistic
regression on 24 x 24 pixels tells frontal images from lateral ones. It learns from images of the
same data set whose view is said, at most 2,000 of each, and is tested on those of a fifth of their
patients. Words that say how a patient lay, such as SUPINE, are of neither. It learns what a view
looks like and nothing of reports or findings, so that patients of all parts may be among them.
Images without a view may differ from the others: their own errors are not known.

Shapes: N images, F = 24 x 24 pixels.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxrflow.data.cohorts.filters import unit_hash
from cxrflow.data.cohorts.settings import FRONTAL, CohortSettings
from cxrflow.data.readers.common_tables import Tables
from cxrflow.images.build import stored_images
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.shards import Failure, Source

#: Views that are lateral, in upper case.
LATERALS = ("LATERAL", "LAT", "LL", "RL")
#: What is said of images that are predicted to be so.
PREDICTED_LATERAL = "LATERAL, PREDICTED"
GEOMETRY = "square24"
MOST = 2000  # images of each class that are drawn, to learn from and to test on
TESTED = 0.2  # of the patients
#: Fewer images of a class give no classifier, or no error that says something.
LEAST_LEARNT, LEAST_TESTED = 50, 10
PENALTY = 0.01  # C of the regression, of standardised pixels


def with_predicted_views(
    pictures: Tables, settings: CohortSettings, threads: int
) -> tuple[Tables, dict[str, Any]]:
    """Say a view of each image whose list says none: FRONTAL or :data:`PREDICTED_LATERAL`.

    An image that cannot be read keeps none, and is left out with the views that are not known.

    Returns:
        the tables, and an account: ``images`` without a view, of them predicted ``frontal`` and
        ``lateral``, and ``unreadable``; ``learnt`` and ``tested``, readable images of each class;
        ``frontal_called_lateral`` and ``lateral_called_frontal``, shares of those ``tested``.

    Raises:
        InputError: too few images of a class have a view.
    """
    images = pictures.images
    view = images["view"].fillna("").str.strip().str.upper()
    readable = images["image_path"].notna() & images["failure"].isna()
    unsaid = images[readable & (view == "")]
    account: dict[str, Any] = {"images": int((view == "").sum()), "frontal": 0, "lateral": 0}
    if unsaid.empty:
        return pictures, account | {"unreadable": account["images"]}
    is_frontal = view.isin([name.upper() for name in settings.views or ()])
    kinds = (is_frontal, view.isin(LATERALS) & ~is_frontal)
    drawn = pd.concat([_drawn(images[readable & kind], settings.seed) for kind in kinds])
    pixels_NF, is_read = _pixels(pictures, pd.concat([drawn, unsaid]), threads)
    said, is_said = pixels_NF[: len(drawn)], is_read[: len(drawn)]
    frontal_N = is_frontal[drawn.index].to_numpy()
    patients = drawn["subject_id"].fillna(drawn["study_id"])
    tested = np.array([unit_hash(settings.seed, "view", name) < TESTED for name in patients])
    learnt = is_said & ~tested
    tested &= is_said
    sizes = {
        part: {"frontal": int((rows & frontal_N).sum()), "lateral": int((rows & ~frontal_N).sum())}
        for part, rows in (("learnt", learnt), ("tested", tested))
    }
    _require_enough(pictures, sizes)
    predicted = _classified(said[learnt], frontal_N[learnt], pixels_NF)
    wrong = predicted[: len(drawn)] != frontal_N
    views = images["view"].astype("object").copy()
    found = is_read[len(drawn) :]
    words = np.where(predicted[len(drawn) :], FRONTAL, PREDICTED_LATERAL)[found]
    views.loc[unsaid.index[found]] = words
    account |= {
        "frontal": int((words == FRONTAL).sum()),
        "lateral": int((words == PREDICTED_LATERAL).sum()),
        "unreadable": account["images"] - len(words),
        **sizes,
        "frontal_called_lateral": float(wrong[tested & frontal_N].mean()),
        "lateral_called_frontal": float(wrong[tested & ~frontal_N].mean()),
    }
    return replace(pictures, images=images.assign(view=views.astype("str"))), account


def _drawn(images: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Some images, the same whatever others are listed."""
    ranks = pd.Series([unit_hash(seed, "view", name) for name in images["image_id"]], images.index)
    return images.loc[ranks.sort_values().index[:MOST]]


def _pixels(
    pictures: Tables, images: pd.DataFrame, threads: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The pixels of images [N, F], and which could be read."""
    geometry, settings = Geometry.parse(GEOMETRY), PixelSettings()
    names = images[["image_id", "image_path"]].itertuples(index=False, name=None)
    sources = [Source(str(name), str(path)) for name, path in names]
    pixels_NF = np.zeros((len(sources), geometry.size**2), dtype=np.float32)
    is_read = np.zeros(len(sources), dtype=bool)
    stored = stored_images(pictures.source, sources, geometry, settings, threads)
    for place, outcome in enumerate(stored):
        if not isinstance(outcome, Failure):
            pixels_NF[place], is_read[place] = outcome[0].reshape(-1), True
    return pixels_NF, is_read


def _require_enough(pictures: Tables, sizes: dict[str, dict[str, int]]) -> None:
    """Refuse classes of which there are too few images.

    Raises:
        InputError: there are.
    """
    for part, least in (("learnt", LEAST_LEARNT), ("tested", LEAST_TESTED)):
        for name, count in sizes[part].items():
            if count < least:
                raise InputError(
                    f"{pictures.source}: settings key 'unsaid_views' is 'predicted', but of the "
                    f"images whose view is said {count} are {name} to be {part}; expected at least "
                    f"{least}, or 'left_out'"
                )


def _classified(
    learnt_NF: NDArray[np.float32], frontal_N: NDArray[np.bool_], pixels_NF: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Which of ``pixels_NF`` are frontal, by what ``learnt_NF`` are."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(
        StandardScaler(), LogisticRegression(C=PENALTY, class_weight="balanced", max_iter=2000)
    )
    predicted: NDArray[np.bool_] = model.fit(learnt_NF, frontal_N).predict(pixels_NF)
    return predicted


def sentence(account: dict[str, Any]) -> str:
    """The account in a sentence."""
    if "tested" not in account:
        return f"{account['images']} images have no view, none of which can be read"
    return (
        f"{account['images']} images have no view: {account['frontal']} are predicted to be "
        f"frontal, {account['lateral']} lateral, {account['unreadable']} cannot be read; of images "
        f"of other patients {account['frontal_called_lateral']:.1%} of "
        f"{account['tested']['frontal']} frontal ones are called lateral, "
        f"{account['lateral_called_frontal']:.1%} of {account['tested']['lateral']} lateral ones "
        "frontal"
    )
