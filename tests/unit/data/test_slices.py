"""Slices of data: whole patients, each class of each part, so many reports and documents."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from cxr_files.atomic import read_json, require_whole, write_json
from cxrflow.data.cohorts.build_cohort import main as build_cohort
from cxrflow.data.cohorts.settings import Sizes
from cxrflow.data.readers.common_tables import Request
from cxrflow.data.slices import (
    FEW,
    FEW_TEXTS,
    cut_cohort,
    documents_reader,
    first_patients,
    reports_reader,
    slice_of,
    tables_reader,
)
from cxrflow.kinds import MARK, REHEARSAL
from cxrflow.reports.texts import Listing, Reference


def rows(patients: int, images: int = 2) -> pd.DataFrame:
    """Patients with images each; the last patient alone has label 1."""
    names = [f"p{number}" for number in range(patients) for _ in range(images)]
    return pd.DataFrame(
        {
            "subject_id": names,
            "image_id": [f"i{number}" for number in range(len(names))],
            "prior_image_id": None,
            "labels": [[float(name == names[-1])] for name in names],
            "split": "train",
        }
    )


def test_the_same_patients_whatever_the_list():
    names = [f"p{number}" for number in range(200)] * 3
    kept = first_patients(names, 30)
    assert len(kept) == 10 and kept == first_patients(reversed(names), 30)
    assert first_patients(["p1"], 1) == {"p1"}
    assert kept < first_patients(names, 60)


def test_a_slice_has_whole_patients_and_each_class():
    whole = rows(100)
    cut = whole.loc[list(slice_of(whole, 10))]
    assert set(cut["subject_id"].value_counts()) == {2}
    rare = cut["labels"].map(lambda value: value == [1.0])
    assert rare.sum() == 2 and 10 <= len(cut) <= 12
    assert len(list(slice_of(whole, 1000))) == len(whole)
    assert FEW > 2  # so that the one patient of the rare class cannot stand there by chance alone


def test_a_slice_has_images_with_a_prior_and_without():
    """Where few have one, tasks of change would have nothing to score."""
    whole = rows(100)
    names = [f"p{number}" for number in (3, 40, 77)]
    has = whole["subject_id"].isin(names)
    for prior in (has, ~has):
        table = whole.assign(prior_image_id=whole["image_id"].where(prior, None))
        cut = table.loc[list(slice_of(table, 10))]
        assert cut["prior_image_id"].notna().sum() >= FEW
        assert cut["prior_image_id"].isna().sum() >= FEW


def test_no_patient_has_more_than_half_of_a_class_where_others_have_it():
    """Controls exchange priors between patients, which one with most of them would not allow."""
    whole = rows(100)
    first = "p45"  # which stands in every slice
    crowd = pd.concat([whole, *[whole[whole["subject_id"] == first]] * 9], ignore_index=True)
    has_prior = crowd["subject_id"].isin([f"p{number}" for number in range(0, 100, 9)])
    table = crowd.assign(prior_image_id=crowd["image_id"].where(has_prior, None))
    with_prior = table.loc[list(slice_of(table, 10))].dropna(subset="prior_image_id")
    counts = with_prior["subject_id"].value_counts()
    assert first in counts.index and 2 * counts.max() <= counts.sum()


@pytest.mark.parametrize("unknown", [None, float("nan")])
def test_images_of_patients_that_are_not_known_stand_for_themselves(unknown):
    whole = rows(100).assign(subject_id=unknown)
    assert 10 <= len(list(slice_of(whole, 10))) <= 13
    texts = whole.drop(columns=["subject_id", "image_id"])
    assert FEW_TEXTS <= len(list(slice_of(texts, 10))) <= FEW_TEXTS + 3


def cohort(folder: Path, table: pd.DataFrame, kind: str = "classification") -> Path:
    folder.mkdir(parents=True)
    table.to_parquet(folder / "samples.parquet", index=False)
    images = pd.DataFrame({"image_id": table["image_id"], "image_path": table["image_id"]})
    images.to_parquet(folder / "images.parquet", index=False)
    write_json(folder / "flow.json", {"kind": kind, "dataset": "rsna", "notes": [], "splits": {}})
    return folder


def test_a_cohort_keeps_a_batch_to_train_on_and_says_what_it_was(tmp_path, monkeypatch):
    whole = rows(60).assign(split=["train"] * 80 + ["test"] * 40)
    folder = cohort(tmp_path / "paper/rsna", whole)
    sizes = Sizes(reports=100, samples=6, training={"paper/rsna": 30})
    monkeypatch.setenv(REHEARSAL, sizes.model_dump_json())
    cut_cohort(folder)
    cut, flow = pd.read_parquet(folder / "samples.parquet"), read_json(folder / "flow.json")
    assert dict(cut["split"].value_counts()) == {"train": 30, "test": 8}
    assert set(pd.read_parquet(folder / "images.parquet")["image_id"]) == set(cut["image_id"])
    assert flow["whole"] == {"train": 80, "test": 40, "images": 120}
    assert flow["dataset"] == f"{MARK}rsna"
    require_whole(folder / "flow.json")  # and all beside it


def test_candidates_of_a_retrieval_all_stay(tmp_path, monkeypatch):
    monkeypatch.setenv(REHEARSAL, Sizes(reports=100, samples=4).model_dump_json())
    folder = cohort(tmp_path / "paper/queries", rows(60), "retrieval")
    cut_cohort(folder)
    assert len(pd.read_parquet(folder / "samples.parquet")) == 120


class Reports:
    @staticmethod
    def listing(root: Path) -> Listing:
        return Listing([Reference(f"s{n}", f"p{n // 4}", f"{n}.txt") for n in range(400)])


def test_reports_of_the_first_patients_are_read():
    listing = reports_reader(Reports, 40).listing(Path())
    patients = {reference.subject_id for reference in listing.references}
    assert len(listing.references) == 40 and len(patients) == 10
    assert [(drop.reason, drop.count) for drop in listing.dropped] == [("beyond the slice", 360)]


def test_headers_of_the_same_patients_are_read():
    asked = []
    listed = [("i", n, f"p{n // 4}") for n in range(4000)]
    images = pd.DataFrame(
        {
            "image_id": [f"i{n}" for _, n, _ in listed],
            "study_id": [f"s{n}" for _, n, _ in listed],
            "subject_id": [patient for *_, patient in listed],
        }
    )

    def reader(root, request):
        asked.append(request)
        return SimpleNamespace(images=request.select(images))

    read = tables_reader(reader, 40)
    kept = read(Path(), Request()).images
    assert [request.headers for request in asked] == [False, True] and len(kept) == 200
    assert set(kept["subject_id"]) >= first_patients(images["subject_id"], 40)
    for request in (Request(headers=False), Request(images=frozenset({"i7"}))):
        read(Path(), request)
        assert asked[-1] is request


@pytest.mark.parametrize(("there", "read"), [(50, 7), (5, 5)])
def test_documents_are_read_until_there_are_enough(there, read):
    added = []

    def add(name: str, text: str) -> None:
        added.append(name)
        writer.documents += 1

    def reader(root, settings, writer, threads):
        for number in range(there):
            writer.add(str(number), "text")
        return ["all"]

    writer = SimpleNamespace(documents=0, add=add)
    steps = documents_reader(reader, 7)(Path(), None, writer)
    assert added == [str(number) for number in range(read)]
    assert (steps == ["all"]) == (there == read)


def test_the_program_of_cohorts_cuts_in_a_rehearsal_alone(tmp_path, monkeypatch):
    cuts = []
    monkeypatch.setattr("cxrflow.data.slices.cut_cohort", cuts.append)
    monkeypatch.setattr("cxrflow.data.cohorts.cohort.make_cohort", lambda *_: None)
    arguments = ["--settings", "{}", "--layout", "rsna", "--root", ".", "--output", str(tmp_path)]
    build_cohort(arguments)
    assert cuts == []
    monkeypatch.setenv(REHEARSAL, Sizes(reports=100, samples=4).model_dump_json())
    build_cohort(arguments)
    assert cuts == [tmp_path]
