"""Pairs of two data sets as one cohort: rows and paths, what is counted, what is refused."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest
from cohort_fixtures import cohort
from data_fixtures import IMAGES, corpus, mimic_cxr

from cxr_files.errors import InputError
from cxrflow.data.cohorts.flow import rewrite_flow
from cxrflow.data.cohorts.join_cohorts import main
from cxrflow.images.store import read_sources

NAMES = ("subject_id", "study_id", "image_id", "prior_study_id", "prior_image_id")


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A cohort of the tiny MIMIC-CXR, whose files lie in ``tmp_path/mimic``."""
    root = mimic_cxr(tmp_path / "mimic")
    texts = corpus(tmp_path / "corpus", [*dict.fromkeys(image.study for image in IMAGES)])
    cohort(tmp_path / "one", "--layout", "mimic_cxr", "--root", root, "--corpus", texts)
    return tmp_path / "one"


@pytest.fixture
def other(one: Path, tmp_path: Path) -> Path:
    """The same rows under other names, as if of another hospital."""
    folder = tmp_path / "other"
    folder.mkdir()
    for name in ("pairs", "images", "documents"):
        table = pd.read_parquet(one / f"{name}.parquet")
        renamed = {c: "x" + table[c] for c in (*NAMES, "document_id") if c in table}
        table.assign(**renamed).to_parquet(folder / f"{name}.parquet")
    split = pd.read_csv(one / "split.csv", dtype="str")
    split.assign(subject_id="x" + split["subject_id"]).to_csv(folder / "split.csv", index=False)
    flow = json.loads((one / "flow.json").read_text())
    rewrite_flow(folder, flow | {"cohort": "other", "dataset": "elsewhere"})
    return folder


def joined(output: Path, *cohorts: Path, roots: tuple[Path, ...]) -> Path:
    main(["--cohorts", *map(str, cohorts), "--roots", *map(str, roots), "--output", str(output)])
    return output


def test_rows_of_both_are_there_with_paths_from_one_folder(one, other, tmp_path):
    (tmp_path / "far/off").mkdir(parents=True)
    (tmp_path / "far/off/disk").symlink_to(tmp_path / "mimic")
    roots = (tmp_path / "mimic", tmp_path / "far/off/disk")
    folder = joined(tmp_path / "both", one, other, roots=roots)
    rows, single = (pd.read_parquet(each / "pairs.parquet") for each in (folder, one))
    assert list(rows["study_id"]) == [*single["study_id"], *("x" + single["study_id"])]
    assert list(rows["split"]) == [*single["split"]] * 2
    assert set(rows["dataset"]) == {"mimic_cxr"}  # as each cohort wrote it
    assert all((tmp_path / path).is_file() for path in rows["image_path"])
    assert all((tmp_path / path).is_file() for path in rows["prior_image_path"].dropna())
    sources = read_sources([folder / "images.parquet"])
    assert len(sources) == 2 * len(pd.read_parquet(one / "images.parquet"))
    assert {source.path.split(os.sep)[0] for source in sources} == {"mimic", "far"}


def test_the_account_adds_up(one, other, tmp_path):
    roots = (tmp_path / "mimic",) * 2
    folder = joined(tmp_path / "both", one, other, roots=roots)
    flow, single = (json.loads((each / "flow.json").read_text()) for each in (folder, one))
    assert flow["dataset"] == "mimic_cxr+elsewhere" and flow["cohort"] == "both"
    for part, sizes in single["splits"].items():
        assert flow["splits"][part] == {unit: 2 * count for unit, count in sizes.items()}
    assert flow["priors"]["found"] == 2 * single["priors"]["found"]
    assert flow["texts"] == {section: 2 * count for section, count in single["texts"].items()}
    rows = len(pd.read_parquet(one / "pairs.parquet"))
    assert flow["notes"][1] == f"{rows} rows are of elsewhere (other/flow.json)"
    assert flow["steps"][0]["kept"] == 2 * rows
    assert flow["settings"] == single["settings"]


@pytest.mark.parametrize(
    ("column", "said"), [("subject_id", "subject_id"), ("image_id", "image_id")]
)
def test_names_of_two_data_sets_are_apart(one, other, tmp_path, column, said):
    """By them patients are held out, so that one name must be one patient."""
    rows = pd.read_parquet(other / "pairs.parquet")
    rows.loc[0, column] = pd.read_parquet(one / "pairs.parquet").loc[0, column]
    rows.to_parquet(other / "pairs.parquet")
    (other / "SHA256SUMS").unlink()
    with pytest.raises(InputError, match=f"other: 1 values of {said} are those of .*one, too"):
        joined(tmp_path / "both", one, other, roots=(tmp_path / "mimic",) * 2)
    assert not (tmp_path / "both").exists()


def test_a_patient_without_a_pair_is_one_patient_too(one, other, tmp_path):
    for folder in (one, other):
        with (folder / "split.csv").open("a") as file:
            file.write("apart,test\n")
        (folder / "SHA256SUMS").unlink()
    with pytest.raises(InputError, match="1 values of subject_id are those of .*one, too .e.g. ap"):
        joined(tmp_path / "both", one, other, roots=(tmp_path / "mimic",) * 2)


def test_synthetic_pairs_are_not_joined_to_real_ones(one, other, tmp_path):
    """Of synthetic data a page may show images and texts."""
    flow = json.loads((other / "flow.json").read_text())
    rewrite_flow(other, flow | {"synthetic": not flow["synthetic"]})
    with pytest.raises(InputError, match="both: .* is synthetic and .* is not; expected data sets"):
        joined(tmp_path / "both", one, other, roots=(tmp_path / "mimic",) * 2)


def test_labels_of_other_classes_are_refused(one, other, tmp_path):
    flow = json.loads((other / "flow.json").read_text())
    rewrite_flow(other, flow | {"classes": ["Edema"]})
    with pytest.raises(InputError, match="labels of different classes .none; Edema.; expected"):
        joined(tmp_path / "both", one, other, roots=(tmp_path / "mimic",) * 2)
