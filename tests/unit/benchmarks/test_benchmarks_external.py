"""Models that were run elsewhere: a file of what ours predicts gets ours, to the last digit."""

import gzip
import os
from argparse import Namespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import (
    CATEGORIES,
    CLASSES,
    QUICK,
    FakeModel,
    classification_samples,
    grounding_samples,
    metrics_of,
    pairs_of_studies,
    result_of,
    settings_of,
    several_classes,
    store_of,
    stored,
    write_cohort,
)
from feature_fakes import fake_features, write_fake
from PIL import Image
from transfer_fixtures import LINEAR, single

from command_options import options
from cxr_files.errors import InputError
from cxr_files.program import TERMINAL
from cxrflow.benchmarks.classification import fold_probe, linear_classification
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.grounding.phrase_grounding import similarity_grids
from cxrflow.benchmarks.paired_tests import read_predictions
from cxrflow.benchmarks.rows.external import ExternalTable, read_map
from cxrflow.papers.table import Table
from cxrflow.show.tables.cells import make_cells
from cxrflow.show.tables.rendering import table_markdown
from cxrflow.show.tables.results import read_results

COUNT = 60
PROBE = {"fractions": [1.0], "probe_seeds": [0, 1]}


def vectors_of(features, path):
    """A Parquet file of an encoder's pooled features."""
    vectors = list(features.by_kind["pooled"].numpy())
    pd.DataFrame({"image_id": features.encoded["image_id"], "vector": vectors}).to_parquet(path)
    return path


def external(benchmark, settings, path, **contents):
    """The result of a file."""
    return result_of(benchmark, settings, external=path, **contents)


def written(frame, path):
    """A file of a table, by the ending of its name."""
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


def table_of(*names):
    """A table of the AUROC of rows from elsewhere."""
    columns = [{"key": "auroc", "label": "AUROC", "metric": "auroc/100"}]
    rows = [{"label": name, "model": f"mine/{name}", "kind": "external"} for name in names]
    shown = {"title": "t", "source": "ours", "task": "linear_probe"}
    return Table.model_validate(shown | {"columns": columns, "rows": rows})


@pytest.fixture
def pneumonia(pixels):
    """Pictures with labels of one class, as contents of a task."""
    return stored(classification_samples(COUNT), pixels, "Pneumonia")


def agree(theirs, ours):
    """Every metric of a file is that of the model, digit for digit."""
    assert theirs
    for name, estimate in theirs.items():
        assert repr(estimate) == repr(ours[name]), name  # of what is undefined as well


# --- the same as a model's ------------------------------------------------------------------------


def test_vectors_are_probed_as_features_are_from_files_to_files(pixels, tmp_path):
    features = fake_features(pixels)
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", classification_samples(COUNT))
    model, folder = write_fake(tmp_path, features, has_text=False)
    asked = {"cohort": cohort, "settings": QUICK | {"fractions": [0.5], "probe_seeds": [0, 1]}}
    output = tmp_path / "ours"
    ours = metrics_of(main, "linear_probe", model=model, features=folder, **asked, output=output)
    asked |= {"external": vectors_of(features, tmp_path / "vectors.parquet"), "pixels": pixels}
    output = tmp_path / "theirs"
    theirs = metrics_of(main, "linear_probe", name="mine/theirs", **asked, output=output)
    assert theirs["metrics"] == ours["metrics"] and theirs["metrics"]["auroc/50"]["value"] > 0.5
    assert theirs["model"] == "mine/theirs" and theirs["learnt"] is None
    assert theirs["data"]["external"]["file"] == "vectors.parquet"
    tables = [
        pd.read_parquet(tmp_path / name / "predictions.parquet") for name in ("ours", "theirs")
    ]
    pd.testing.assert_frame_equal(*tables)


def labelled_pairs(count=30):
    """Studies of pairs, two a patient, with labels of two classes."""
    labels = np.random.default_rng(1).integers(0, 2, (count, 2)).astype(float)
    return pairs_of_studies(labels, ["Text."] * count)


def test_scores_of_studies_are_measured_as_ours_are(pixels, tmp_path):
    settings = {"label_source": "cohort", "matching": "global", "classes": ["Edema"]}
    contents = stored(labelled_pairs(), pixels, "Edema", "Pneumonia")
    ours = result_of("zero_shot_findings", settings, **contents, model=FakeModel())
    scores = ours.predictions[["image_id", "score"]].rename(columns={"score": "Edema"})
    path = written(scores, tmp_path / "scores.csv")
    theirs = external("zero_shot_findings", settings, path, **contents)
    agree(theirs.metrics, ours.metrics)
    assert theirs.protocol["reference"] == ours.protocol["reference"]


def test_vectors_are_probed_by_folds(pixels, tmp_path, monkeypatch):
    table, classes = labelled_pairs(), ("Edema", "Pneumonia")
    rng = np.random.default_rng(2)
    drawn = torch.from_numpy(rng.normal(size=(len(table), 5))).float()
    monkeypatch.setattr(fold_probe, "encode", lambda *given: {"pooled": drawn})
    settings = {"label_source": "cohort", "classes": list(classes), "folds": 3}
    ours = result_of("fold_probe", settings, **stored(table, pixels, *classes), image=None)
    by_study = pd.DataFrame({"study_id": table["study_id"], "vector": list(drawn.numpy())})
    path = written(by_study.sample(frac=1, random_state=0), tmp_path / "vectors.parquet")
    theirs = external("fold_probe", settings, path, **stored(table, pixels, *classes))
    agree(theirs.metrics, ours.metrics)


def test_heads_learn_from_vectors(tmp_path, pixels, monkeypatch):
    features = fake_features(pixels)
    monkeypatch.setattr(linear_classification, "encoded", lambda *given: features)
    settings = LINEAR | {"epochs": 3}
    model, _ = write_fake(tmp_path, features)
    folders = Namespace(model=model, pixels=pixels, state=tmp_path / "state", cohort=tmp_path)
    folders.state.mkdir()
    cohort = stored(single()[:COUNT], pixels, "Square")["cohort"]
    ours = result_of("linear_classification", settings, folders, cohort=cohort)
    folders.model = None
    path = vectors_of(features, tmp_path / "vectors.parquet")
    theirs = external("linear_classification", settings, path, folders=folders, cohort=cohort)
    agree(theirs.metrics, ours.metrics)


def test_images_are_retrieved_by_vectors(pixels, tmp_path):
    features = fake_features(pixels)
    table = classification_samples(COUNT).drop(columns=["labels", "subgroup", "group_id"])
    category = ["square" if n % 3 else "plain" for n in range(COUNT)]
    part = ["query" if n % 4 == 0 else "candidate" for n in range(COUNT)]
    table = table.assign(category=category, part=part, split="test", group_id=None)
    settings, contents = {"cutoffs": [1, 5]}, stored(table, pixels)
    ours = result_of("image_retrieval", settings, **contents, features=features)
    path = vectors_of(features, tmp_path / "vectors.parquet")
    agree(external("image_retrieval", settings, path, **contents).metrics, ours.metrics)


def zero_shot(contents, path=None):
    return external("zero_shot_classification", {}, path, **contents)


def test_scores_are_measured_as_ours_are(pixels, tmp_path):
    """Through a CSV, by other prompts too; without these their metrics are left out."""
    table = classification_samples(COUNT)
    table["labels"] = np.random.default_rng(0).permutation(table["labels"])
    contents = stored(table, pixels, "Pneumonia")
    ours = zero_shot(contents | {"features": fake_features(pixels), "model": FakeModel()})
    scores = ours.predictions.filter(regex="^(image_id|score)")
    scores.columns = scores.columns.str.replace("score", "Pneumonia")
    theirs = zero_shot(contents, written(scores, tmp_path / "scores.csv"))
    agree(theirs.metrics, ours.metrics)
    assert theirs.metrics.keys() == ours.metrics.keys() and 0.3 < ours.metrics["auroc"].value < 0.7
    assert theirs.protocol["score"] == "the file's"
    alone = scores[["image_id", "Pneumonia"]]
    fewer = zero_shot(contents, written(alone, tmp_path / "scores.csv"))
    agree(fewer.metrics, ours.metrics)
    assert {name for name in ours.metrics if "/" not in name} - fewer.metrics.keys() == {
        "prompts_spread"
    }


def test_scores_of_several_classes_are_means_over_a_study(pixels, tmp_path):
    table, features = several_classes(COUNT)
    settings = {"sample": "group", "prompt_pairs": [], "metrics": ["auroc", "f1"]}
    drawn = np.random.default_rng(2).normal(size=(COUNT, 3))
    frame = pd.DataFrame(drawn, columns=list(CLASSES)).assign(image_id=table["image_id"])
    path, contents = written(frame, tmp_path / "scores.parquet"), stored(table, pixels, *CLASSES)
    found = external("zero_shot_classification", settings, path, **contents)
    rows = found.predictions.set_index("group_id")
    tested = frame[(table["split"] == "test").to_numpy()]
    expected = tested.groupby(table["group_id"])[list(CLASSES)].mean().loc[rows.index]
    np.testing.assert_allclose(rows["score/no_finding"], expected["No Finding"], rtol=1e-12)


def test_reports_are_scored_as_ours_are(pixels, tmp_path):
    texts = ["New left pleural effusion. No pneumothorax.", "The lungs are clear."]
    table = pairs_of_studies(np.zeros((8, 1)), texts * 4).assign(
        split=["train"] * 3 + ["test"] * 5, prior_study_id=None, prior_image_id=None
    )
    settings, folders = {"tagger": "keywords"}, Namespace(stanza=None, cohort=tmp_path)
    contents = stored(table, pixels)
    ours = result_of("report_generation", settings, folders, "random", **contents)
    reports = ours.predictions[["study_id", "generated"]].rename(columns={"generated": "report"})
    path = written(reports, tmp_path / "reports.csv")
    theirs = external("report_generation", settings, path, folders=folders, **contents)
    agree(theirs.metrics, ours.metrics)
    assert theirs.protocol["writes"] == "external"
    written(reports.assign(report=None), path)
    theirs = external("report_generation", settings, path, folders=folders, **contents)
    assert theirs.metrics["bleu_4"].value == 0


def test_maps_are_scored_as_ours_are(pixels, tmp_path):
    (tmp_path / "root").symlink_to(pixels.parent / "root")
    table = grounding_samples(30)
    values = {"categories": list(CATEGORIES), "controls": False}
    settings = settings_of("phrase_grounding", values)
    contents = stored(table, store_of(tmp_path, table["image_id"], "square64"))
    model = FakeModel(geometry="square64")
    ours = result_of("phrase_grounding", settings, **contents, model=model)
    grids = similarity_grids(model, table, contents["pixels"], settings)["own"]
    for sample, grid in zip(table["sample_id"], grids, strict=True):
        np.save(tmp_path / f"{sample}.npy", grid)
    files = pd.DataFrame({"sample_id": table["sample_id"]})
    files["map"] = files["sample_id"] + ".npy"
    path = written(files, tmp_path / "maps.csv")
    theirs = external("phrase_grounding", settings, path, **contents)
    assert theirs.metrics["signed_cnr"].value > 1
    agree(theirs.metrics, ours.metrics)


def test_a_map_is_a_grey_picture_or_an_array(tmp_path):
    values = np.arange(6, dtype=np.uint8).reshape(2, 3)
    Image.fromarray(values).save(tmp_path / "eight.png")
    Image.fromarray(values.astype(np.uint16) * 1000).save(tmp_path / "sixteen.png")
    Image.fromarray(np.zeros((2, 3, 3), np.uint8)).save(tmp_path / "colour.png")
    np.save(tmp_path / "nan.npy", np.full((2, 2), np.nan))
    (tmp_path / "broken.png").write_bytes(b"\x89PNG")
    # Arrays whose numbers mean something else, and a header that promises terabytes.
    np.save(tmp_path / "complex.npy", np.ones((2, 2), complex))
    np.save(tmp_path / "dates.npy", np.zeros((2, 2), "datetime64[s]"))
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000)}\n"
    for name, content in (("huge.npy", header), ("open.npy", header[:-3] + b"\n")):
        length = len(content).to_bytes(2, "little")
        (tmp_path / name).write_bytes(b"\x93NUMPY\x01\x00" + length + content)
    large = Image.new("1", (20_000, 20_000))
    large.save(tmp_path / "large.png")
    Image.fromarray(values).save(tmp_path / "map.jpg")
    Image.new("L", (9, 9)).save(tmp_path / "drawing.eps")  # Pillow would start a program for it
    for name in ("pipe.png", "pipe.npy"):
        os.mkfifo(tmp_path / name)
    assert (read_map(tmp_path / "eight.png") == values / 255).all()
    assert (read_map(tmp_path / "sixteen.png") == values * 1000.0 / 65535).all()
    for name, message in (
        *(("colour.png", "mode is RGB; expected a grey"), ("nan.npy", "not finite")),
        *(("broken.png", "not a readable map"), ("absent.png", "not a readable map")),
        *((f"{name}.npy", "expected numbers of 2") for name in ("complex", "dates")),
        *((f"{name}.npy", "not a NumPy file") for name in ("huge", "open", "pipe")),
        *((f"{name}", "not a readable map") for name in ("large.png", "map.jpg", "drawing.eps")),
        *(("pipe.png", "not a regular file"), ("absent.npy", "file not found")),
    ):
        with pytest.raises(InputError, match=message):
            read_map(tmp_path / name)


# --- what is wrong with a file --------------------------------------------------------------------


def test_what_the_file_lacks_is_counted(pixels, tmp_path, pneumonia):
    features, table = fake_features(pixels), pneumonia["cohort"].table
    some = Features(features.encoded[:50], {"pooled": features.by_kind["pooled"][:50]}, "", "")
    path = vectors_of(some, tmp_path / "vectors.parquet")
    found = external("linear_probe", PROBE, path, least_share=0.5, **pneumonia)
    lost = table["split"][~table["image_id"].isin(some.encoded["image_id"])].value_counts()
    assert found.data["external"]["missing"] == lost["test"] == 10 - lost["train"]
    assert (found.data["external"]["lacks"], found.data["external"]["of"]) == (10, COUNT)
    assert found.protocol["rows_missing"] == {"train": lost["train"]}
    scored, learnt = found.data["dropped"][:2]
    assert scored["reason"] == learnt["reason"] == "not in vectors.parquet"
    assert "part" not in scored and (learnt["part"], learnt["count"]) == ("train", lost["train"])
    tested = table[(table["split"] == "test") & table["image_id"].isin(some.encoded["image_id"])]
    assert found.predictions["image_id"].tolist() == tested["image_id"].tolist()


@pytest.mark.parametrize(
    ("absent", "said"),
    [
        (
            "test",
            r"holds 24 of the 48 rows of .* that are scored, and lacks such as image1, image3;",
        ),
        ("train", r"holds 6 of the 12 rows of .* of the part 'train', and lacks such as image"),
    ],
)
def test_a_file_that_lacks_rows_is_refused_unless_less_is_asked(
    pixels, tmp_path, pneumonia, absent, said
):
    """Of each part by itself: half of the scored rows are a tenth of the file."""
    table = pneumonia["cohort"].table
    frame = pd.read_parquet(vectors_of(fake_features(pixels), tmp_path / "all.parquet"))
    of_part = table["image_id"][table["split"] == absent]
    path = written(frame[~frame["image_id"].isin(of_part[::2])], tmp_path / "some.parquet")
    for share, expected in ((0.9, "at least 0.9 of them"), (1.0, "all of them")):
        with pytest.raises(InputError, match=rf"{said}.* expected {expected} \(the model's"):
            external("linear_probe", PROBE, path, least_share=share, **pneumonia)


def test_a_refused_file_holds_no_other_row_up(pixels, tmp_path, monkeypatch):
    """Its row shows why, and no test is made of it; what is not the file's fault still ends."""
    features = fake_features(pixels)
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", classification_samples(COUNT))
    good, bad = vectors_of(features, tmp_path / "good.parquet"), tmp_path / "bad.parquet"
    pd.read_parquet(good).iloc[:5].to_parquet(bad)
    asked = {"settings": QUICK | PROBE, "pixels": pixels}
    records, (reading, writing) = [], os.pipe()
    monkeypatch.setenv(TERMINAL, str(writing))
    for path in (good, bad):
        words = ["linear_probe", "--or-reason", "--name", f"mine/{path.stem}"]
        output = tmp_path / path.stem
        run = metrics_of(main, *words, cohort=cohort, external=path, output=output, **asked)
        records.append(run)
    assert records[0]["metrics"] and records[1]["metrics"] == {}
    refused = records[1]["data"]["refused"]
    assert refused.startswith(f"{bad}: holds") and "and lacks such as" in refused
    os.close(writing)  # the workflow's own stderr, which a log does not hide
    with open(reading) as terminal:
        assert terminal.read() == f"WARNING mine/bad is not scored: {refused}\n"
    results = read_results([tmp_path / name / "metrics.json" for name in ("good", "bad")])
    cells = make_cells(table_of("good", "bad"), results)
    assert isinstance(cells[0].ours, float) and cells[1].reason == refused
    runs = read_predictions([tmp_path / n / "predictions.parquet" for n in ("good", "bad")])
    assert list(runs) == [("linear_probe", "mine/good")]
    (tmp_path / "cohort/samples.parquet").write_bytes(b"damaged")
    with pytest.raises(InputError, match="samples.parquet: not a readable"):
        words = ["linear_probe", "--or-reason", "--name", "mine/x", "--external", str(good)]
        main(words + options(cohort=cohort, output=tmp_path / "o", **asked))


def test_the_label_says_that_a_file_lacks_rows(pixels, tmp_path):
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", classification_samples(COUNT))
    path = vectors_of(fake_features(pixels), tmp_path / "some.parquet")
    pd.read_parquet(path).iloc[:40].to_parquet(path)
    asked = {"settings": QUICK | PROBE, "pixels": pixels}
    words = ["linear_probe", "--name", "mine/some"]
    asked |= {"cohort": cohort, "external": path, "least_share": 0.5, "output": tmp_path / "some"}
    metrics_of(main, *words, **asked)
    results = read_results([tmp_path / "some/metrics.json"])
    table = table_of("some")
    text = table_markdown(table, make_cells(table, results), results)
    assert f"| some (its file lacks {COUNT - 40} of {COUNT} rows) | scored |" in text


def test_a_file_that_lacks_what_is_not_scored_is_not_measured_alike(pixels, tmp_path, pneumonia):
    """The samples are the same, and what was learnt, chosen or searched is less."""
    table, contents = pneumonia["cohort"].table, pneumonia | {"least_share": 0.5}
    whole = vectors_of(fake_features(pixels), tmp_path / "whole.parquet")
    frame = pd.read_parquet(whole)
    of_others = frame[~frame["image_id"].isin(["image5", "image10"])]  # which are of train
    lacking = written(of_others, tmp_path / "lacking.parquet")
    results = [external("linear_probe", PROBE, path, **contents) for path in (whole, lacking)]
    assert "rows_missing" not in results[0].protocol
    assert results[1].protocol["rows_missing"] == {"train": 2}
    assert results[1].data["external"]["missing"] == 0
    columns = ["sample_id", "label"]
    pd.testing.assert_frame_equal(*(result.predictions[columns] for result in results))
    scores = pd.DataFrame({"image_id": table["image_id"], "Pneumonia": np.linspace(0, 1, COUNT)})
    path = written(scores.drop(index=[5, 10]), tmp_path / "scores.csv")
    settings = {"prompt_pairs": [], "threshold_part": "train"}
    found = external("zero_shot_classification", settings, path, **contents)
    assert found.protocol["rows_missing"] == {"train": 2}
    part = ["candidate" if n % 5 == 0 else "query" for n in range(COUNT)]
    table = table.drop(columns="split").assign(part=part, category=["a", "b"] * (COUNT // 2))
    contents = stored(table, pixels) | {"least_share": 0.5}
    found = external("image_retrieval", {"cutoffs": [1]}, lacking, **contents)
    assert found.protocol["rows_missing"] == {"candidate": 2}
    assert found.data["external"]["missing"] == 0


WRONG = {
    "no column sample_id or image_id or study_id; found name": {"name": ["a"]},
    "column 'image_id' is blank in a row": {"image_id": ["image1", None]},
    "image_id 'image1' stands more than once": {"image_id": ["image1", "image1"]},
    "rows are named by study_id, which this task has not": {"study_id": ["a"], "vector": [[1.0]]},
    "holds no image_id of .*, such as .'image0'.; but other": {"image_id": ["other"]},
    "column 'vector' is missing; found image_id": {"image_id": ["image1"]},
    "column 'vector' holds no vectors of one length": {
        "image_id": ["image1", "image2"],
        "vector": [[1.0], [1.0, 2.0]],
    },
    "column 'vector' of image_id 'image2': expected finite numbers": {
        "image_id": ["image1", "image2"],
        "vector": [[1.0], [np.nan]],
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_table_is_one_line(tmp_path, pneumonia, message):
    path = written(pd.DataFrame(WRONG[message]), tmp_path / "vectors.parquet")
    with pytest.raises(InputError, match=message):
        external("linear_probe", {}, path, least_share=0.0, **pneumonia)


@pytest.mark.parametrize("value", ["1_000", "٣", "１", "0x1p3", "1e", "nan", "1e999", "½", ""])
def test_numbers_are_those_that_programs_write(tmp_path, value):
    path, wanted = tmp_path / "scores.csv", pd.DataFrame({"image_id": ["i1", "i2"]})
    written = ["0.5", " -1.5e-3", "+2.", ".25", "7"]
    for number in written:
        path.write_text(f"image_id,score\ni1,{number}\ni2,1\n")
        assert ExternalTable(path).numbers(wanted, ["score"])[0, 0] == float(number)
    path.write_text(f"image_id,score\ni1,0.5\ni2,{value}\n")
    with pytest.raises(InputError, match="column 'score' of image_id 'i2': expected a number"):
        ExternalTable(path).numbers(wanted, ["score"])


def test_a_last_line_without_its_end_is_refused(tmp_path):
    """A number that was cut off is a number all the same."""
    for name, opened in (("scores.csv", open), ("scores.csv.gz", gzip.open)):
        for end in ("\n", "\r\n", ""):
            with opened(tmp_path / name, "wt", newline="") as file:
                file.write(f"image_id,score\ni1,0.125\ni2,0.8{end}")
            if end:
                assert len(ExternalTable(tmp_path / name).frame) == 2
                continue
            with pytest.raises(InputError, match=f"{name}: its last line has no line end"):
                ExternalTable(tmp_path / name)


def test_a_wrong_list_is_one_line(pixels, tmp_path, pneumonia):
    contents, path = pneumonia | {"least_share": 0.0}, tmp_path / "scores.csv"
    path.write_text("image_id,Pneumonia\nimage1,0.5\nimage3,high\n")
    with pytest.raises(InputError, match="'Pneumonia' of image_id 'image3': expected a number"):
        zero_shot(contents, path)
    path.write_text("image_id,Pneumonia\nimage1,0.5,3\n")
    with pytest.raises(InputError, match=r"scores.csv:2: .*wrong number of fields"):
        zero_shot(contents, path)
    path.write_text("image_id,Pneumonia\nimage1,0.5\nimage2,0.25\n")
    wanted = pd.DataFrame({"image_id": ["image2", "image7"]})
    with pytest.raises(InputError, match="scores.csv: no row of image_id 'image7'"):
        ExternalTable(path).numbers(wanted, ["Pneumonia"])
    with pytest.raises(InputError, match="absent.csv: file not found"):
        ExternalTable(tmp_path / "absent.csv")
    settings, table = {"categories": list(CATEGORIES)}, grounding_samples(30)
    contents |= stored(table, pixels)
    path.write_text("image_id,map\nimage1,a.png\n")
    with pytest.raises(InputError, match="rows are named by image_id; expected sample_id"):
        external("phrase_grounding", settings, path, **contents)
    written(pd.DataFrame({"sample_id": table["sample_id"], "map": "../secret.png"}), path)
    with pytest.raises(InputError, match="'../secret.png' lies outside of the table's folder"):
        external("phrase_grounding", settings, path, **contents)


def test_what_a_file_cannot_be_scored_in_is_one_line(tmp_path, capsys, pixels, pneumonia):
    asked = ["--cohort", "c", "--output", "o"]
    with pytest.raises(SystemExit, match="2"):
        main(["segmentation", "--external", "x.csv", *asked])
    assert "segmentation takes no --external; these do: phrase_gro" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["linear_probe", "--reference", "nothing", "--name", "mine/x", *asked])
    assert "--name is of --external" in capsys.readouterr().err
    path = vectors_of(fake_features(pixels), tmp_path / "vectors.parquet")
    with pytest.raises(InputError, match="augmentation is set, but a file has one vector an image"):
        external("linear_probe", {"augmentation": {}}, path, **pneumonia)
