"""Prior studies: the latest strictly earlier study of the same patient that has a frontal image.

BioViL-T uses one prior image "whenever it exists" and does not say which; the rule here is ours.
Studies are sorted by their time, never by id (ids of MIMIC-CXR say nothing about time). Two
studies of one patient at the same instant have no prior, and are none: which came first is unknown.
"""

import pandas as pd

from cxr_files.drops import Drop
from cxrflow.data.readers.common_tables import among

FIRST = "first study of the patient"
NO_TIME = "time of the study not known"
TIED = "another study of the patient has the same time"
TIED_PRIOR = "the study before shares its time with another"


def find_priors(studies: pd.DataFrame) -> pd.DataFrame:
    """Find each study's prior.

    Args:
        studies: the studies that have a frontal image: ``study_id`` (unique), ``subject_id``,
            ``order`` (float, NaN = unknown).

    Returns:
        ``study_id``, ``prior_study_id`` (null when none) and ``reason`` (null when there is one),
        one row a study, in the order given.
    """
    timed = studies.dropna(subset=["subject_id", "order"])
    visits = (
        timed.groupby(["subject_id", "order"], sort=True)["study_id"]
        .agg(["first", "size"])
        .reset_index()
    )
    # `visits` is sorted by time, so the row before is the latest strictly earlier instant.
    before = visits.groupby("subject_id")[["first", "size"]].shift()
    visits["prior"], visits["prior_size"] = before["first"], before["size"]
    joined = studies[["study_id", "subject_id", "order"]].merge(
        visits[["subject_id", "order", "size", "prior", "prior_size"]],
        on=["subject_id", "order"],
        how="left",
    )
    # Later assignments win: that the own time is unknown outweighs all others.
    reason = pd.Series(None, index=joined.index, dtype="str")
    reason[joined["prior_size"] > 1] = TIED_PRIOR
    reason[joined["prior"].isna()] = FIRST
    reason[joined["size"] > 1] = TIED
    reason[joined["order"].isna() | joined["subject_id"].isna()] = NO_TIME
    return pd.DataFrame(
        {
            "study_id": joined["study_id"],
            "prior_study_id": joined["prior"].where(reason.isna()).astype("str"),
            "reason": reason,
        }
    )


def prior_account(priors: pd.DataFrame) -> dict[str, object]:
    """Count the priors, and the studies without one by reason, for ``flow.json``."""
    none = [Drop.of(str(reason), rows["study_id"]) for reason, rows in priors.groupby("reason")]
    return {
        "found": int(priors["reason"].isna().sum()),
        "none": [drop.as_json() for drop in sorted(none, key=lambda drop: -drop.count)],
    }


def with_times(studies: pd.DataFrame, images: pd.DataFrame) -> pd.DataFrame:
    """Fill a study's time from the earliest of its images where the study list has none."""
    times = images[["study_id", "study_time", "order"]].dropna(subset="order")
    earliest = times.sort_values("order", kind="stable")
    earliest = earliest.drop_duplicates("study_id").set_index("study_id")
    filled = studies.copy()
    for name in ("study_time", "order"):
        earliest_times = filled["study_id"].map(earliest[name]).astype(filled[name].dtype)
        filled[name] = filled[name].fillna(earliest_times)
    return filled


def with_priors(
    rows: pd.DataFrame, studies: pd.DataFrame, chosen: pd.DataFrame
) -> tuple[pd.DataFrame, dict[str, object]]:
    """Add the prior study and its image to ``rows``; return them with the counts.

    A prior needs a frontal image, not a report: all listed studies are candidates. ``chosen`` has
    the image that stands for a study.
    """
    candidates = studies[among(studies["study_id"], chosen["study_id"])]
    candidate_priors = find_priors(candidates)
    row_priors = rows[["study_id"]].merge(candidate_priors, on="study_id", how="left")
    no_image = row_priors["prior_study_id"].isna() & row_priors["reason"].isna()
    row_priors["reason"] = row_priors["reason"].mask(no_image, "the study has no frontal image")
    images = chosen.set_index("study_id")
    return rows.assign(
        prior_study_id=row_priors["prior_study_id"].to_numpy(),
        prior_image_id=row_priors["prior_study_id"].map(images["image_id"]).to_numpy(),
        prior_image_path=row_priors["prior_study_id"].map(images["image_path"]).to_numpy(),
    ), prior_account(row_priors.drop_duplicates("study_id"))


def images_and_priors(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each image that the pixel store must hold once, priors included."""
    current = rows[["image_id", "image_path"]]
    prior = rows[["prior_image_id", "prior_image_path"]].set_axis(current.columns, axis=1)
    images = pd.concat([current, prior]).dropna().drop_duplicates("image_id")
    return images.reset_index(drop=True)
