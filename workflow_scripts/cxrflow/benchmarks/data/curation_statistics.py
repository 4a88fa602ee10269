"""Decisions of image curation on studies with several images (BioViL-T section 3.3, A.4).

No model: the decisions of :mod:`cxrflow.benchmarks.data.curation` are counted. metrics.json has
``studies``, those with several images, and ``decided``, the share of them in which one image is
chosen. On the synthetic hospital, which knows the spoilt images, also ``mixed``, the studies in
which one image is usable and another is spoilt, and of these ``rejected``, ``wrong``, ``stands``
and ``ranked`` (:func:`cxrflow.images.curation.against_truth`), with ``/<kind>`` for the studies
with an image that is spoilt in this way (Figure A.7). ``/random`` is the expectation of choosing an
image at random.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.atomic import file_digest, read_object
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxr_hospital.truth import read_truth
from cxrflow.benchmarks.data.settings import CurationStatisticsSettings
from cxrflow.benchmarks.inputs import Inputs, choose_split
from cxrflow.benchmarks.result import CountedStatistic, Predictions, means, slug
from cxrflow.images.curation import UNDECIDED, against_truth
from cxrflow.metrics.intervals import Estimate

DECISIONS = ("subject_id", "study_id", "image_id", "split", "score", "lead", "decision")
RIGHT = ("rejected", "wrong", "stands", "ranked")


def studies_of(decided: pd.DataFrame, truth: pd.DataFrame | None) -> pd.DataFrame:
    """Return a row for each study with several images, with the scores against ``truth``."""
    several = decided[decided["study_id"].duplicated(keep=False)]
    first = several.drop_duplicates("study_id").set_index("study_id")
    rows = first[["subject_id", "split", "lead"]].assign(
        images=several["study_id"].value_counts(),
        decided=(first["decision"] != UNDECIDED).astype("float64"),
    )
    if truth is not None:
        usable = truth.set_index("image_id")["usable"]
        kinds = several["image_id"].map(truth.set_index("image_id")["kind"])
        spoilt = several.assign(kind=kinds).dropna(subset="kind").groupby("study_id")["kind"]
        rows = rows.join(against_truth(several, usable)).join(spoilt.agg(list).rename("spoilt"))
    return rows.reset_index()


def statistic(rows: pd.DataFrame) -> CountedStatistic:
    """Shares of the studies with several images, and of the mixed ones, as the module says."""
    scores = {"decided": ("decided", np.ones(len(rows), dtype=bool))}
    mixed = mixed_studies(rows)
    if mixed.any():
        chance = rows["chance"]
        rows = rows.assign(
            **{"rejected/random": chance, "wrong/random": 1 - chance, "stands/random": chance},
            **{"ranked/random": chance.where(chance.isna(), 0.5)},
        )
        spoilt = rows["spoilt"].where(mixed, None)
        groups = {"": mixed, "/random": mixed}
        for kind in sorted(spoilt.explode().dropna().unique()):
            groups[f"/{slug(kind)}"] = np.array([kind in (kinds or []) for kinds in spoilt])
        for name, where in groups.items():
            source = name if name == "/random" else ""
            scores |= {f"{right}{name}": (f"{right}{source}", where) for right in RIGHT}

    return means({name: (rows[column], where) for name, (column, where) in scores.items()})


def mixed_studies(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which studies [N] have a usable image and a spoilt one; none without the truth."""
    return rows.get("chance", pd.Series(np.nan, rows.index)).notna().to_numpy()


def predict(inputs: Inputs, settings: CurationStatisticsSettings) -> Predictions:
    """Count the decisions of a curation."""
    options = inputs.options
    path = options.curation / "curation.parquet"
    fields = ("data", "model", "learnt", "settings", "images")
    record = read_object(options.curation / "curation.json", fields)
    decided = choose_split(read_table(path, DECISIONS), settings.split, path)
    truth = None
    if options.truth is not None:
        truth = read_truth(options.truth, "images", ("image_id", "usable", "kind"))
    rows = studies_of(decided, truth)
    if rows.empty:
        raise InputError(f"{path}: no study has several images; there is nothing to choose")
    counted = {"studies": len(rows)}
    if truth is not None:
        counted["mixed"] = int(mixed_studies(rows).sum())
    return Predictions(
        rows,
        statistic(rows),
        {**record["data"], "fingerprint": file_digest(path)[:16], "images": record["images"]},
        {**record["settings"], "weights": record["model"]},
        {name: Estimate.counted(number, number) for name, number in counted.items()},
    )
