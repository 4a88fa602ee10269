"""Priors, splits, image choice and leakage checks on small tables."""

import numpy as np
import pandas as pd
import pytest

from cxr_files.errors import InputError
from cxrflow.data.cohorts import filters, leakage, priors, splits
from cxrflow.data.cohorts.settings import CohortSettings, SplitSettings
from cxrflow.data.layouts import layout


def studies(*rows: tuple[str, str | None, float | None]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["study_id", "subject_id", "order"])
    return frame.astype({"study_id": "str", "subject_id": "str", "order": "float64"})


def test_prior_is_the_latest_strictly_earlier_study_whatever_the_ids() -> None:
    rows = studies(("9", "p", 1), ("1", "p", 3), ("5", "p", 2), ("7", "q", 1.5))
    found = priors.find_priors(rows).set_index("study_id")
    assert found["prior_study_id"].dropna().to_dict() == {"5": "9", "1": "5"}
    assert found["reason"].dropna().to_dict() == {"9": priors.FIRST, "7": priors.FIRST}


def test_ties_and_unknown_times_have_no_prior_and_are_none() -> None:
    rows = [("a", "p", 1), ("b", "p", 2), ("c", "p", 2), ("d", "p", 3), ("e", "p", 4)]
    rows += [("f", "p", None), ("g", None, 5)]
    found = priors.find_priors(studies(*rows)).set_index("study_id")
    assert found["reason"].fillna("").to_dict() == {
        **{"a": priors.FIRST, "b": priors.TIED, "c": priors.TIED, "d": priors.TIED_PRIOR},
        **{"e": "", "f": priors.NO_TIME, "g": priors.NO_TIME},
    }
    assert found["prior_study_id"].dropna().to_dict() == {"e": "d"}
    account = priors.prior_account(found.reset_index())
    assert account["found"] == 1
    assert {entry["reason"]: entry["count"] for entry in account["none"]} == {  # type: ignore
        **{priors.FIRST: 1, priors.TIED: 2, priors.TIED_PRIOR: 1, priors.NO_TIME: 2}
    }


def test_priors_agree_with_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    rows = [
        (f"s{i}", f"p{rng.integers(40)}", float(rng.integers(12)) if rng.random() > 0.1 else None)
        for i in range(300)
    ]
    found = priors.find_priors(studies(*rows)).set_index("study_id")["prior_study_id"]
    for study, patient, order in rows:
        mine = [(o, s) for s, p, o in rows if p == patient and o is not None]
        earlier = [o for o, _ in mine if order is not None and o < order]
        latest = [s for o, s in mine if earlier and o == max(earlier)]
        tied = sum(o == order for o, _ in mine) > 1
        expected = latest[0] if len(latest) == 1 and not tied else None
        assert (found[study] if pd.notna(found[study]) else None) == expected, study


def images(*rows: tuple[str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["study_id", "image_id", "view"], dtype="str")


LIST = images(("1", "a", "AP"), ("1", "b", "PA"), ("2", "c", "PA"), ("2", "d", "ap "))


def test_first_and_preferred_image() -> None:
    first = filters.one_per_study(LIST, "first", ("PA", "AP"), 0)
    assert first["image_id"].tolist() == ["a", "c"]
    pa = filters.one_per_study(LIST, "preferred", ("PA", "AP"), 0)
    assert pa["image_id"].tolist() == ["b", "c"]
    ap = filters.one_per_study(LIST, "preferred", ("AP", "PA"), 0)
    assert ap["image_id"].tolist() == ["a", "d"]


def test_what_curation_rejected_is_chosen_last() -> None:
    curated = LIST.assign(rejected=[True, False, False, True])
    assert filters.one_per_study(curated, "first", None, 0)["image_id"].tolist() == ["b", "c"]
    ap = filters.one_per_study(curated, "preferred", ("AP", "PA"), 0)
    assert ap["image_id"].tolist() == ["b", "c"]
    no_other = curated.assign(rejected=True)
    assert filters.one_per_study(no_other, "first", None, 0)["image_id"].tolist() == ["a", "c"]


def test_random_image_depends_on_seed_and_study_alone() -> None:
    many = images(*((f"{s}", f"{s}-{k}", "PA") for s in range(400) for k in range(2)))
    chosen = filters.one_per_study(many, "random", ("PA",), 3)
    again = filters.one_per_study(many.sample(frac=1, random_state=1), "random", ("PA",), 3)
    assert set(chosen["image_id"]) == set(again["image_id"])
    part = filters.one_per_study(many[200:], "random", ("PA",), 3)
    assert set(part["image_id"]) <= set(chosen["image_id"])
    other = filters.one_per_study(many, "random", ("PA",), 4)
    same = len(set(chosen["image_id"]) & set(other["image_id"]))
    assert 150 < same < 250
    assert 150 < chosen["image_id"].str.endswith("-0").sum() < 250


def test_frontal_views_are_compared_in_upper_case_and_blank_is_not_frontal() -> None:
    rows = images(("1", "a", " ap"), ("1", "b", "LL"), ("2", "c", "PA"))
    rows.loc[3] = ["3", "d", None]
    kept, drops = filters.frontal(rows, ("ap", "PA"))
    assert kept["image_id"].tolist() == ["a", "c"]
    assert {drop.reason: drop.count for drop in drops} == {"view LL": 1, "view not known": 1}


PATIENTS = pd.Series([f"{n}" for n in range(1000)], dtype="str")


def test_shares_are_exact_and_order_does_not_matter() -> None:
    settings = SplitSettings(shares={"train": 0.7, "validate": 0.2, "test": 0.1}, seed=5)
    split = splits.patient_shares(PATIENTS, settings)
    assert split.value_counts().to_dict() == {"train": 700, "validate": 200, "test": 100}
    assert splits.patient_shares(PATIENTS[::-1], settings).to_dict() == split.to_dict()
    other = splits.patient_shares(PATIENTS, settings.model_copy(update={"seed": 6}))
    assert (split != other.reindex(split.index)).mean() > 0.3


def test_small_shares_get_one_patient() -> None:
    settings = SplitSettings(shares={"train": 0.98, "validate": 0.01, "test": 0.01})
    split = splits.patient_shares(PATIENTS[:5], settings)
    assert split.value_counts().to_dict() == {"train": 3, "validate": 1, "test": 1}


@pytest.mark.parametrize("halve", [False, True])
def test_ordered_split_is_scikit_learns(halve: bool) -> None:
    selection = pytest.importorskip("sklearn.model_selection", reason="compares to scikit-learn")
    ids = PATIENTS.sample(frac=1, random_state=0)
    split = splits.ordered(ids, SplitSettings(method="ordered", halve_test=halve, seed=0))
    train, rest = selection.train_test_split(sorted(ids), test_size=0.3, random_state=0)
    test, validate = (
        selection.train_test_split(rest, test_size=0.5, random_state=0) if halve else (rest, [])
    )
    for name, part in (("train", train), ("validate", validate), ("test", test)):
        assert set(split.index[split == name]) == set(part)


def test_ordered_split_has_the_published_sizes() -> None:
    ids = pd.Series([f"{n:06d}" for n in range(26684)], dtype="str")
    whole = splits.ordered(ids, SplitSettings(method="ordered"))
    assert whole.value_counts().to_dict() == {"train": 18678, "test": 8006}
    halves = splits.ordered(ids, SplitSettings(method="ordered", halve_test=True))
    assert halves.value_counts().to_dict() == {"train": 18678, "test": 4003, "validate": 4003}


def test_published_split_names_and_a_patient_in_two_splits() -> None:
    parts = ["valid", "Test", "test", "val"]
    table = pd.DataFrame({"subject_id": ["1", "2", "2", "3"], "split": parts})
    assert splits.from_table(table, "f").to_dict() == {
        **{"1": "validate", "2": "test", "3": "validate"}
    }
    table.loc[4] = ["1", "train"]
    with pytest.raises(InputError, match=r"^f: 1 patient\(s\) stand in two splits \(1\)"):
        splits.from_table(table, "f")
    with pytest.raises(InputError, match="split is 'holdout'; expected train"):
        splits.from_table(pd.DataFrame({"subject_id": ["1"], "split": ["holdout"]}), "f")


def test_held_out_patients_go_to_test_under_every_method() -> None:
    official = pd.DataFrame({"subject_id": ["1", "2"], "split": ["train", "validate"]})
    for method in ("patients", "official", "ordered", "all"):
        settings = CohortSettings(splits=SplitSettings(method=method))  # type: ignore[arg-type]
        patients = pd.Series(["1", "2", "3"], dtype="str")
        split = splits.assign(patients, official, {"e": {"1", "9"}}, settings, "r")
        assert split["1"] == "test" and "9" not in split.index, method
    settings = CohortSettings(splits=SplitSettings(method="official"))
    assert pd.isna(splits.assign(pd.Series(["7"], dtype="str"), official, {}, settings, "r")["7"])


def test_official_without_a_split_table_is_refused() -> None:
    settings = CohortSettings(splits=SplitSettings(method="official"))
    with pytest.raises(InputError, match="r: splits.method is official, but no split"):
        splits.assign(PATIENTS, None, {}, settings, "r")


def rows(**columns: list[str | None]) -> pd.DataFrame:
    return pd.DataFrame(columns, dtype="str")


def test_leakage_checks_name_the_ids() -> None:
    two = ["train", "test"]
    with pytest.raises(InputError, match=r"1 patient\(s\) stand in two splits \(7\)"):
        leakage.patient_in_one_split(rows(subject_id=["7", "7"], split=two), "r")
    with pytest.raises(InputError, match=r"1 image\(s\) stand in two splits \(i\)"):
        leakage.image_in_one_split(rows(image_id=["i", "i"], image_path=["a", "b"], split=two), "r")
    with pytest.raises(InputError, match=r"image\(s\) stand in two splits \(a\)"):
        leakage.image_in_one_split(rows(image_id=["i", "j"], image_path=["a", "a"], split=two), "r")
    with pytest.raises(InputError, match=r"1 patient\(s\) of ms_cxr are in train"):
        leakage.held_out_not_trained(rows(subject_id=["7", "8"], split=two), {"ms_cxr": {"7"}}, "r")
    nobody = rows(subject_id=[None], split=["test"])
    with pytest.raises(InputError, match="patients are not known; those of ms_cxr cannot"):
        leakage.held_out_not_trained(nobody, {"ms_cxr": {"7"}}, "r")
    with pytest.raises(InputError, match="study_id"):
        leakage.unique_rows(rows(study_id=["1", "1"]), "study", "r")
    pairs = rows(study_id=["1"], subject_id=["p"], prior_study_id=["0"])
    with pytest.raises(InputError, match="another patient's"):
        leakage.prior_of_same_patient(pairs, pd.Series({"0": "q", "1": "p"}), "r")


def test_patients_that_are_not_known_are_no_leak() -> None:
    frame = rows(subject_id=[None, None], split=["train", "test"])
    assert leakage.patient_in_one_split(frame, "r").startswith("0 patients")


@pytest.mark.parametrize(
    "values",
    [
        {"shares": {"train": 0.5, "validate": 0.1}},
        {"shares": {"train": 1.0, "dev": 0.0}},
        {"method": "file"},
        {"file": "split.csv"},
    ],
)
def test_impossible_split_settings_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        SplitSettings.model_validate(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"splits": {"test_share": 0.5}}, "is patients where none is named; expected ordered"),
        (
            {"splits": {"parts": {"test": "test"}}},
            "splits.parts is set, but splits.method of a coh",
        ),
        ({"kind": "nli", "splits": {"halve_test": True}}, "is official where none is named; expec"),
        ({"kind": "classification", "views": None}, "views of a cohort of kind classification"),
        ({"kind": "progression", "unit": "image", "choose": "first"}, "choose of a cohort of kind"),
        (
            {"kind": "grounding", "unit": "image"},
            "unit of a cohort of kind grounding: expected",
        ),
        ({"kind": "nli", "require": ["text"]}, "require of a cohort of kind nli: expected its def"),
        ({"kind": "retrieval", "fewest_tokens": 3}, "fewest_tokens of a cohort of kind retrieval"),
        ({"choose": "all"}, "choose of a cohort of kind pairs is all: expected random, first or"),
        (
            {"kind": "classification", "choose": "all"},
            "choose of a cohort of kind classification w",
        ),
    ],
)
def test_values_that_nothing_reads_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CohortSettings.model_validate(values)


@pytest.mark.parametrize(
    ("name", "splits", "method"),
    [
        ("nih", {}, "official"),
        ("rsna", {"seed": 3, "halve_test": True}, "ordered"),
        ("padchest", {}, "patients"),
        ("padchest", {"shares": {"train": 0.5, "test": 0.5}}, "patients"),
        ("nih", {"method": "ordered", "test_share": 0.2}, "ordered"),
    ],
)
def test_labelled_images_are_split_as_their_data_set_is(name, splits, method) -> None:
    given = CohortSettings.model_validate({"kind": "classification", "splits": splits})
    settings = given.split_as(layout(name).split)
    assert settings.split_method == method and settings.splits.seed == splits.get("seed", 0)
    if method == "patients":
        expected = {"validate": 0.0, "train": 0.7, "test": 0.3, **splits.get("shares", {})}
        assert settings.splits.shares == expected


def test_a_value_that_the_data_set_s_own_split_does_not_read_is_refused() -> None:
    for values, message in (
        (
            {"shares": {"train": 1.0}},
            "splits.shares is set, but .* is official .*patients",
        ),
        ({"halve_test": True}, "splits.halve_test is set, but .* expected ordered"),
    ):
        given = CohortSettings.model_validate({"kind": "classification", "splits": values})
        with pytest.raises(ValueError, match=message):
            given.split_as("official")


def test_values_that_are_read_stay_allowed() -> None:
    drawn = {"method": "official", "validation": {"count": 5}, "seed": 1}
    for values in (
        {"kind": "classification", "splits": drawn},
        {"kind": "classification", "frontal": True, "views": ["PA"]},
        {"kind": "classification", "frontal": True, "choose": "all"},
        {"kind": "classification", "splits": {"halve_test": True, "seed": 1}},
        {"kind": "progression", "choose": "first", "splits": {"seed": 1}},
        {"kind": "retrieval"},
    ):
        settings = CohortSettings.model_validate(values)
        assert CohortSettings.model_validate(settings.model_dump()) == settings
