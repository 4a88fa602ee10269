"""Splits by patient. Studies whose patient is not known (Open-I) are their own patient.

BioViL keeps "all samples used for the different downstream evaluations in a held-out test set":
held-out patients go to test whatever else the settings say.
"""

import math
from collections.abc import Mapping, Sequence, Set
from typing import Literal

import numpy as np
import pandas as pd

from cxr_files.csv_table import read_csv, require_file
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxrflow.data.cohorts.filters import unit_hash
from cxrflow.data.cohorts.settings import PART_NAMES, SPLITS, CohortSettings, SplitSettings
from cxrflow.data.readers.common_tables import require_none


def groups(frame: pd.DataFrame) -> pd.Series:
    """Return the unit of the split of each row: the patient, or the study if that is unknown."""
    return frame["subject_id"].fillna(frame["study_id"])


def patient_shares(patients: pd.Series, settings: SplitSettings) -> pd.Series:
    """Shuffle the patients by a hash of seed and id and cut at the shares.

    The order in which patients are listed does not matter. Sizes are exact to one patient, and a
    split with a share above 0 gets at least one patient where there are as many patients as splits.

    Args:
        patients: distinct ids.

    Returns:
        Split by patient, indexed by id.
    """
    # A hash and not a shuffle: a patient who joins the data set moves at most those at a cut.
    shuffled = sorted(patients, key=lambda patient: (unit_hash(settings.seed, patient), patient))
    shares = {name: settings.shares[name] for name in ("test", "validate")}
    sizes = {name: round(share * len(shuffled)) for name, share in shares.items()}
    for name, share in shares.items():
        if share > 0 and len(shuffled) >= len(SPLITS):
            sizes[name] = max(1, sizes[name])
    labels = ["test"] * sizes["test"] + ["validate"] * sizes["validate"]
    labels += ["train"] * (len(shuffled) - len(labels))
    return pd.Series(labels[: len(shuffled)], index=pd.Index(shuffled, dtype="str"), dtype="str")


def by_folder(patients: pd.Series, settings: SplitSettings, source: object) -> pd.Series:
    """Split by the folder of MIMIC-CXR that a patient lies in: the first two digits of the subject.

    Raises:
        InputError: a patient is not numbered as MIMIC-CXR's, or a folder with a part is empty.
    """
    strange = patients[~patients.str.fullmatch(r"\d{8}")]
    require_none(
        strange,
        source,
        "patient(s) are not numbered as MIMIC-CXR's, by whose folders splits.method folders splits",
        "expected eight digits",
    )
    folder = "p" + patients.str[:2]
    empty = sorted(set(settings.folders) - set(folder))
    if empty:
        raise InputError(
            f"{source}: no patient lies in folder {empty[0]}, which settings key 'splits.folders' "
            f"makes {settings.folders[empty[0]]}; expected patients in it, or folders among "
            f"{', '.join(sorted(set(folder))) or 'none'}"
        )
    split = folder.map(settings.folders).fillna("train")
    return pd.Series(split.to_numpy(), index=pd.Index(patients, dtype="str"), dtype="str")


def training_shares(rows: pd.DataFrame, unit: Literal["study", "patient"], seed: int) -> np.ndarray:
    """Return the training share of each row: a hash in [0, 1) of its study or patient.

    Rows below 0.01 are a hundredth of the data and are among those below 0.1. A share depends on
    seed and id alone, not on the other rows, so that it is the same in every cohort.

    Args:
        rows: ``subject_id``, and ``study_id`` (of labelled images ``group_id``).
    """
    study = rows["study_id"] if "study_id" in rows else rows["group_id"].fillna(rows["sample_id"])
    ids = study if unit == "study" else rows["subject_id"].fillna(study)
    # The word keeps these numbers apart from those that `patient_shares` cuts the splits at: the
    # training part would otherwise have no low ones.
    return np.array([unit_hash("training share", seed, name) for name in ids])


def from_table(table: pd.DataFrame, source: object) -> pd.Series:
    """Return the split by patient from the columns ``subject_id`` and ``split``.

    Names such as ``val`` become ours.

    Raises:
        InputError: an unknown name, or a patient in two splits.
    """
    split = table["split"].str.strip().str.lower().replace(PART_NAMES)
    strange = sorted(set(split) - set(SPLITS))
    if strange:
        raise InputError(
            f"{source}: split is '{strange[0]}'; expected train, validate (val, valid) or test"
        )
    rows = pd.DataFrame({"subject_id": table["subject_id"], "split": split}).drop_duplicates()
    twice = rows.loc[rows["subject_id"].duplicated(), "subject_id"].unique()
    require_none(twice, source, "patient(s) stand in two splits", "expected each patient in one")
    return rows.set_index("subject_id")["split"]


def rename_parts(
    published: pd.DataFrame,
    names: Mapping[str, str] | None,
    source: object,
    dropped: Sequence[Drop] = (),
) -> pd.DataFrame:
    """Rename the parts of a published (or drawn) split by ``names``; leave out those it lacks.

    ``dropped``: what was left out when the data set was read, which may be why a part is missing.
    """
    if names is None:
        return published
    unknown = sorted(set(names) - set(published["split"]))
    if unknown:
        part_names = ", ".join(sorted(set(published["split"]))) or "no images"
        lost = "; ".join(f"{drop.count} {drop.reason}" for drop in dropped if drop.count)
        raise InputError(
            f"{source}: splits.parts names '{unknown[0]}'; the split has {part_names}"
            f"{f' (left out: {lost})' if lost else ''}"
        )
    return published.assign(split=published["split"].map(names)).dropna(subset="split")


def from_file(settings: SplitSettings) -> pd.Series:
    """Read the split by patient from the settings' ``file``."""
    assert settings.file is not None
    path = require_file(settings.file.parent, settings.file.name)
    rows, damage = read_csv(path, {"subject_id": "bare", "split": "id"})
    if damage:
        first = damage[0]
        raise InputError(f"{first.examples[0]}: {first.reason}; a split file must be whole")
    return from_table(rows, path)


def ordered(ids: pd.Series, settings: SplitSettings) -> pd.Series:
    """Split RSNA as GLoRIA and MGCA do: sort by id, draw ``test_share`` with a fixed seed.

    Reproduces scikit-learn's ``train_test_split(sorted ids, test_size, random_state=seed)``, and
    with ``halve_test`` the second call on the drawn part, whose halves are (test, validate). On
    the 26,684 published images: 18,678 train and 8,006 test, or 4,003 validate and 4,003 test.
    """
    # Both repositories sort before they draw; the order of the file must not matter.
    names = np.sort(ids.to_numpy(dtype=object))
    train, rest = _draw(names, settings.test_share, settings.seed)
    ids_by_split = {"train": train, "test": rest}
    if settings.halve_test:
        ids_by_split["test"], ids_by_split["validate"] = _draw(rest, 0.5, settings.seed)
    return pd.concat(
        [pd.Series(name, index=pd.Index(ids), dtype="str") for name, ids in ids_by_split.items()]
    )


def _draw(names: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    count = math.ceil(share * len(names))
    shuffled = names[np.random.RandomState(seed).permutation(len(names))]
    return shuffled[count:], shuffled[:count]


def no_official_split(source: object, files: Sequence[str] = ()) -> InputError:
    """The error that no split comes with a data set; ``files``: those that it would be in."""
    missing = f"; {' and '.join(files)} not found" if files else ""
    expected = "the publisher's lists, or another method" if files else "another method"
    return InputError(
        f"{source}: splits.method is official, but no split comes with it{missing}; expected "
        f"{expected}, such as patients"
    )


def assign(
    patients: pd.Series,
    official: pd.DataFrame | None,
    held_out: Mapping[str, Set[str]],
    settings: CohortSettings,
    source: object,
    together: Mapping[str, str] | None = None,
) -> pd.Series:
    """Return the split of each patient; held-out patients are in test.

    Args:
        patients: distinct ids (:func:`groups`).
        official: the data set's own ``subject_id``, ``split``, or None.
        held: patients of the evaluation sets, by name.
        source: the data root, named in errors.
        together: patients who share an image file, each with the one that stands for all of them.
            They are split as one by the methods that draw patients.

    Returns:
        Split by patient; patients that a given split does not name, or whose part
        ``splits.parts`` leaves out, are null.
    """
    method = settings.split_method
    out = patients.isin(frozenset().union(*held_out.values()))
    unit = patients.replace(dict(together or {}))
    out |= unit.isin(unit[out])
    if method == "patients":
        of_unit = patient_shares(unit[~out].drop_duplicates(), settings.splits)
        split = pd.Series(unit[~out].map(of_unit).to_numpy(), index=patients[~out])
    elif method == "folders":
        split = by_folder(patients, settings.splits, source)
    elif method == "ordered":
        ordered_splits = (
            ordered(patients[~out], settings.splits).rename_axis("subject_id").rename("split")
        )
        renamed_splits = rename_parts(ordered_splits.reset_index(), settings.splits.parts, source)
        split = renamed_splits.set_index("subject_id")["split"]
    elif method == "file":
        split = from_file(settings.splits)
    elif method == "official":
        if official is None:
            raise no_official_split(source)
        split = from_table(official, source)
    else:
        split = pd.Series("test", index=pd.Index(patients, dtype="str"), dtype="str")
    split = split.reindex(pd.Index(patients, dtype="str"))
    # Last, so that it holds for every method, a file of the user included.
    split[out.to_numpy()] = "test"
    return split
