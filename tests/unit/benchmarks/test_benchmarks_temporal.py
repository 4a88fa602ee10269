"""Temporal image classification learns what has changed, and is held against its control."""

import json
from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import SIZE, CosineModel, result_of, settings_of, store_of, write_cohort
from PIL import Image
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.utils.class_weight import compute_class_weight
from torch import nn

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxr_files.settings import from_record
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.temporal import temporal_classification as program
from cxrflow.benchmarks.temporal.head_training import (
    HeadTrainingProgram,
    PairSplits,
    class_weights,
    linear_head,
    multilayer_head,
)
from cxrflow.benchmarks.temporal.image_pairs import ImagePairs, encode
from cxrflow.benchmarks.temporal.scores import READ_TWICE
from cxrflow.data.readers.common_tables import DIRECTIONS
from cxrflow.encoders.image_encoder import (
    Frames,
    ImageEncoder,
    load_image_encoder,
    save_image_encoder,
)
from cxrflow.encoders.settings import ImageEncoderKind, MultiImageSettings
from cxrflow.images.store import PixelStore
from cxrflow.training.optimiser import parameter_groups

PATIENTS = 96
FINDINGS = ("Edema", "Consolidation")
ONE = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1, "projection": 16}
TWO = {
    **ONE,
    "kind": "multi_image",
    "comparison": {"blocks": 1, "width": 16, "heads": 2, "feed_forward": 16},
}
STILL = {"angle": 0, "shear": 0, "brightness": 0, "contrast": 0}
PROBE = {"name": "probe", "solver": {"inverse_penalty": 100}}
FEW = {
    **{"name": "few_shot", "share": 0.3, "seeds": [0]},
    "training": {"batch_size": 4, "epochs": 1, "optimiser": {"learning_rate": 1e-12}},
}
QUICK = {
    "name": "fine_tuned",
    "seeds": [0, 1],
    "hidden": 16,
    "augmentation": STILL,
    "training": {"batch_size": 16, "epochs": 12, "optimiser": {"learning_rate": 3e-3}},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A store of two images a patient, the second paler, alike or brighter; and their labels."""
    folder = tmp_path_factory.mktemp("temporal")
    (folder / "root").mkdir()
    rng = np.random.default_rng(0)
    rows, images = [], []
    for patient in range(PATIENTS):
        change = patient % 3 - 1
        before = int(rng.integers(80, 180))
        for name, level in (("prior", before), ("current", before + 60 * change)):
            grey = rng.integers(0, 60, (SIZE, SIZE)).astype(np.uint8)
            grey[16:48, 16:48] = level
            grey[0, :2] = (0, 255)
            Image.fromarray(grey).save(folder / f"root/{name}{patient}.png")
            images.append(f"{name}{patient}")
        split = "test" if patient % 4 == 3 else "validate" if patient % 8 == 0 else "train"
        for finding in FINDINGS:
            rows.append(
                {
                    "sample_id": f"{patient}|{finding}",
                    "subject_id": f"p{patient}",
                    "image_id": f"current{patient}",
                    "prior_image_id": f"prior{patient}",
                    "prior_study_id": f"s{patient}",
                    "finding": finding,
                    "label": DIRECTIONS[change + 1],
                    "quality": ("disagreement", "multiple_experts", "one_expert")[patient % 5 % 3],
                    "split": split,
                }
            )
    store_of(folder, images)
    write_cohort(folder / "cohort", "samples.parquet", pd.DataFrame(rows), DIRECTIONS)
    return folder


def samples_of(world):
    """The store, and the table of the cohort."""
    return PixelStore(world / "pixels"), pd.read_parquet(world / "cohort/samples.parquet")


def write_model(folder, sizes, seed=0):
    """A model folder with a random image encoder."""
    torch.manual_seed(seed)
    save_image_encoder(ImageEncoder(from_record(ImageEncoderKind, sizes, "sizes")), folder)
    record = {"model": "tiny/model", "settings": {}, "data": {"geometry": f"shorter{SIZE}"}}
    write_json(folder / "run.json", record)
    return folder


def options(world, model, tmp_path):
    return Namespace(
        model=model, cohort=world / "cohort", pixels=world / "pixels", state=tmp_path / "state"
    )


def settings(learning, **values):
    values = {"findings": list(FINDINGS), **values, "learning": learning}
    return settings_of("temporal_classification", values)


def classified(folders, learning, reference=None, **values):
    """The result of a model, or of a reference row."""
    return result_of("temporal_classification", settings(learning, **values), folders, reference)


@pytest.mark.parametrize("sizes", [ONE, TWO], ids=["apart", "together"])
def test_a_probe_of_frozen_features_sees_what_has_changed(world, tmp_path, sizes):
    """And no longer does when the prior is another patient's."""
    model = write_model(tmp_path / "model", sizes)
    result = classified(options(world, model, tmp_path), PROBE)
    rows = result.predictions
    assert len(rows) == 2 * PATIENTS // 4 and set(rows["finding"]) == set(FINDINGS)
    for finding in FINDINGS:
        own = rows[rows["finding"] == finding]
        for column, name in (("own_prior", "macro_accuracy"), ("other_prior", "other_prior")):
            expected = balanced_accuracy_score(own["label"], own[f"{column}_seed0"])
            assert result.metrics[f"{name}/{finding.lower()}"].value == pytest.approx(expected)
        for test, end in (("own_prior", ""), ("other_prior", "_other_prior")):
            better, stable, worse = (own[f"{test}_{name}_seed0"] for name in DIRECTIONS)
            moved = own["label"] != "stable"
            is_worse = own["label"] == "worsening"
            for name, truth, score in (
                ("direction", is_worse[moved], (worse / better)[moved]),
                ("change", moved, 1 - stable),
            ):
                found = result.metrics[f"{name}_auroc{end}/{finding.lower()}"]
                assert found.value == pytest.approx(roc_auc_score(truth, score))
                assert (found.n, found.counts["positives"]) == (len(truth), truth.sum())
    if sizes is ONE:  # side by side even random features show what has changed
        assert result.metrics["macro_accuracy"].value > 0.9
        assert result.metrics["other_prior"].value < 0.7
    assert result.metrics["macro_accuracy/edema"].n == PATIENTS // 4
    for quality, name in READ_TWICE.items():  # Figure A.1
        losses = rows.loc[rows["quality"] == quality, "cross_entropy_seed0"]
        assert result.metrics[f"cross_entropy/{name}"].value == pytest.approx(losses.mean())
        assert result.metrics[f"cross_entropy/{name}"].n == len(losses) > 5
    assert [figure.name for figure in result.figures] == ["agreement.png"]
    sure = rows.loc[rows["label"] == rows["own_prior_seed0"], "cross_entropy_seed0"]
    wrong = rows.loc[rows["label"] != rows["own_prior_seed0"], "cross_entropy_seed0"]
    assert (sure < np.log(3)).all() and (wrong > np.log(2)).all()


def write_alignments(world, folder, shift):
    """All priors moved by so many pixels."""
    samples = pd.read_parquet(world / "cohort/samples.parquet")
    table = samples[["image_id", "prior_image_id"]].drop_duplicates()
    still = {"scale": 1.0, "rotation": 0.0, "shift_x": shift, "shift_y": 0.0}
    folder.mkdir()
    table.assign(**still, mutual_information=1.0, failure=None).to_parquet(
        folder / "alignments.parquet"
    )
    write_json(folder / "registration.json", {"size": SIZE, "geometry": f"shorter{SIZE}"})
    return folder


def test_registered_priors_are_what_it_learns_from_and_is_scored_on(world, tmp_path):
    model = write_model(tmp_path / "model", ONE)
    given = options(world, model, tmp_path)
    plain = classified(given, PROBE)
    given.registration = write_alignments(world, tmp_path / "here", 0.0)
    here = classified(given, PROBE, registered=True)
    pd.testing.assert_frame_equal(plain.predictions, here.predictions)
    assert here.protocol["registered"] and here.data["pictures"] != plain.data["pictures"]
    given.registration = write_alignments(world, tmp_path / "away", 2.0 * SIZE)
    away = classified(given, PROBE, registered=True)
    assert away.metrics["macro_accuracy"].value < plain.metrics["macro_accuracy"].value - 0.2


def test_fine_tuning_goes_on_after_a_kill_and_writes_a_whole_result(world, tmp_path, monkeypatch):
    """Killed in its second run: the first is only read, the second gives the same scores."""
    model = write_model(tmp_path / "model", TWO)
    learning = {**QUICK, "training": {**QUICK["training"], "epochs": 30}}  # any seed has learnt
    folders = options(world, model, tmp_path / "whole")
    whole = classified(folders, {**learning, "seeds": [0]}, findings=["Edema"])
    assert whole.metrics["macro_accuracy"].value > 0.5

    both = classified(options(world, model, tmp_path / "both"), learning, findings=["Edema"])
    given = options(world, model, tmp_path)
    trained = []
    losses = HeadTrainingProgram.losses

    def killed(self, batch, part, parts):
        trained.append((self.seed, batch[0]))
        if self.seed == 1 and batch[0] == 3:
            raise KeyboardInterrupt
        return losses(self, batch, part, parts)

    monkeypatch.setattr(HeadTrainingProgram, "losses", killed)
    with pytest.raises(KeyboardInterrupt):
        classified(given, learning, findings=["Edema"])
    monkeypatch.setattr(HeadTrainingProgram, "losses", losses)
    again = classified(given, learning, findings=["Edema"])
    pd.testing.assert_frame_equal(again.predictions, both.predictions)
    column = "own_prior_seed0"  # one run does not depend on the others
    assert again.predictions[column].tolist() == whole.predictions[column].tolist()
    assert {seed for seed, _ in trained} == {0, 1}


def test_the_program_writes_a_result_and_clears_its_state(world, tmp_path):
    model = write_model(tmp_path / "model", ONE)
    learning = {**QUICK, "seeds": [3], "training": {**QUICK["training"], "epochs": 1}}
    chosen = settings(learning, findings=["Edema", "Pneumonia"])
    given = ["--model", model, "--cohort", world / "cohort", "--pixels", world / "pixels"]
    given += ["--state", tmp_path / "state", "--output", tmp_path / "out"]
    given += ["--settings", chosen.model_dump_json(), "--task", "biovil_t/temporal"]
    main(["temporal_classification", *map(str, given)])
    found = json.loads((tmp_path / "out/metrics.json").read_text())
    assert (found["task"], found["model"]) == ("biovil_t/temporal", "tiny/model")
    assert found["data"]["left_out"] == {"Pneumonia": "not every class has a train pair"}
    assert found["protocol"]["two_images"] == "features side by side"
    assert not (tmp_path / "state").exists()
    with pytest.raises(InputError, match=r"holds another product \(result\)|holds files"):
        given[given.index("--state") + 1] = model
        main(["temporal_classification", *map(str, given)])
    assert (model / "run.json").is_file()


def test_a_few_shot_head_starts_at_the_prompts_of_its_finding(world, tmp_path, monkeypatch):
    """Before training it is the zero-shot classifier of the joint space."""
    model = write_model(tmp_path / "model", TWO)
    (model / "config.json").write_text("{}")
    asked = []

    class Text(CosineModel):
        def encode_text(self, texts):
            asked.append(texts)
            return torch.eye(3, 16)

    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: Text())
    result = classified(options(world, model, tmp_path), FEW, findings=["Edema"])
    assert asked == [["Edema is improving", "Edema is stable", "Edema is worsening"]]
    assert result.data["train_pairs"]["Edema"] < PATIENTS / 4
    image = load_image_encoder(model).eval()
    store, table = samples_of(world)
    chosen = (table["split"] == "test") & (table["finding"] == "Edema")
    test = ImagePairs.of(table[chosen], store, DIRECTIONS)
    features = program.encode_all(image, store, test, 7, torch.device("cpu"), projected=True)
    expected = [DIRECTIONS[place] for place in features[:, :3].argmax(1)]
    assert result.predictions["own_prior_seed0"].tolist() == expected
    one = write_model(tmp_path / "one", ONE)
    (one / "config.json").write_text("{}")
    with pytest.raises(InputError, match="a model of two images with a text encoder"):
        classified(options(world, one, tmp_path), FEW)
    whole = SimpleNamespace(is_linear=False)
    monkeypatch.setattr(Text, "similarity", SimpleNamespace(whole=whole))
    with pytest.raises(InputError, match="which compares them by the cosine"):
        classified(options(world, model, tmp_path), FEW)


def test_the_loss_is_the_weighted_mean_and_parts_add_up(world):
    """Weights as scikit-learn's 'balanced'; a batch in parts gives the loss of the whole."""
    store, table = samples_of(world)
    train = table[(table["split"] == "train") & (table["finding"] == "Edema")].iloc[1:40]
    train = train[~((train["label"] == "stable") & (np.arange(39) % 2 == 0))]
    pairs = ImagePairs.of(train, store, DIRECTIONS)
    weights = class_weights(pairs.labels, 3)
    balanced = compute_class_weight("balanced", classes=np.arange(3), y=pairs.labels)
    np.testing.assert_allclose(weights, balanced, rtol=1e-6)
    assert class_weights(np.array([0, 0, 2]), 3).tolist() == [0.75, 0.0, 1.5]

    torch.manual_seed(0)
    image = ImageEncoder(MultiImageSettings.model_validate(TWO))
    learning = settings({**QUICK, "training": {**QUICK["training"], "batch_size": 12}}).learning
    head = nn.Linear(image.encoder.features, 3)
    splits = PairSplits(pairs, pairs, {})
    made = HeadTrainingProgram(image, head, splits, store, 3, learning, 0, torch.device("cpu"))
    whole = made.losses((0, 0), 0, 1)
    shares = [made.losses((0, 0), part, 3) for part in range(3)]
    torch.testing.assert_close(sum(one.total for one in shares), whole.total)
    assert sum(one.samples for one in shares) == whole.samples == 12
    rows = made.sampler.rows(0, 0)
    own = pairs.rows(rows)
    frames = Frames(
        *(
            torch.from_numpy(np.array(store.read(stored)))[:, None].float() / 255
            for stored in (own.current, own.prior)
        )
    )
    logits = head(encode(image, frames, projected=False))
    literal = nn.CrossEntropyLoss(weight=weights)(logits, torch.from_numpy(own.labels))
    torch.testing.assert_close(whole.total, literal, rtol=1e-4, atol=1e-5)


def test_places_in_time_and_the_missing_prior_are_not_decayed(world):
    """BioViL-T, Appendix F.3; biases and normalisation are not either, as everywhere."""
    image = ImageEncoder(MultiImageSettings.model_validate(TWO))
    learning = settings(QUICK).learning
    head = multilayer_head(image.encoder.features, 16, 3)
    store, table = samples_of(world)
    pairs = ImagePairs.of(table[table["split"] == "train"], store, DIRECTIONS)
    splits = PairSplits(pairs, pairs, {})
    made = HeadTrainingProgram(image, head, splits, store, 3, learning, 0, torch.device("cpu"))
    groups = parameter_groups(made.modules, 0.01, made.parameter_rules)
    free = [p for group in groups if not group["decays"] for p in group["params"]]
    for name in ("missing_previous_emb", "vit_pooler.type_embed"):
        assert any(p is image.encoder.get_parameter(name) for p in free)
    trained = [p for group in groups for p in group["params"]]
    assert not any(p is q for q in image.projector.parameters() for p in trained)


def test_other_priors_are_of_other_patients(world):
    store, table = samples_of(world)
    pairs = ImagePairs.of(pd.concat([table, table.head(4)]), store, DIRECTIONS)
    owner = {row: name for row, name in zip(pairs.prior, pairs.table["subject_id"], strict=True)}
    other = pairs.other_priors()
    assert all(
        owner[row] != own for row, own in zip(other.prior, other.table["subject_id"], strict=True)
    )
    assert sorted(other.prior) == sorted(pairs.prior)


def test_a_head_of_prompts_is_their_embeddings():
    starts = torch.randn(3, 5)
    features = torch.randn(2, 5)
    torch.testing.assert_close(linear_head(starts)(features), features @ starts.T)


# --- reference rows -------------------------------------------------------------------------------


def reference(world, name, learning, tmp_path):
    return classified(options(world, None, tmp_path), learning, name).metrics


@pytest.mark.parametrize(
    "learning", [{"name": "probe"}, {**QUICK, "seeds": [0]}], ids=["probe", "head"]
)
def test_plain_features_stand_in_an_encoder_s_place(world, tmp_path, learning):
    """The difference of two thumbnails tells what happened; one image, or wrong labels, do not."""
    names = ("nothing", "random", "shuffled", "current", "thumbnail", "thumbnail_optimum", "oracle")
    rows = {name: reference(world, name, learning, tmp_path) for name in names}
    score = {name: metrics["macro_accuracy"].value for name, metrics in rows.items()}
    assert score["nothing"] == pytest.approx(1 / 3) and abs(score["random"] - 1 / 3) < 0.2
    assert score["oracle"] == 1
    assert score["thumbnail_optimum"] > 0.75 and score["thumbnail"] > 0.6
    assert score["shuffled"] < score["current"] <= score["thumbnail"]
    assert rows["thumbnail_optimum"]["direction_auroc"].value > 0.95
    assert rows["nothing"]["direction_auroc"].value == 0.5 == rows["nothing"]["change_auroc"].value
    if learning["name"] == "probe":  # which is at its optimum
        assert rows["thumbnail"] == rows["thumbnail_optimum"]


def test_a_second_reader_has_the_recalls_of_those_who_agree(world, tmp_path):
    """Of pairs read twice; of another patient's prior nobody has said anything."""
    result = classified(options(world, None, tmp_path), {"name": "probe"}, "second_reader")
    _, table = samples_of(world)
    table = table[table["split"] == "test"]
    twice = table[table["quality"].isin(READ_TWICE)]
    agreed = (twice["quality"] == "multiple_experts").groupby([twice["finding"], twice["label"]])
    expected = agreed.mean().groupby("finding").mean().mean()
    value = result.metrics["macro_accuracy"]
    assert value.value == pytest.approx(expected) and value.n == len(twice) < len(table)
    assert result.metrics["other_prior"].value == pytest.approx(1 / 3)
    [drop] = result.data["dropped"]
    assert (drop["reason"], drop["count"]) == ("read by one radiologist", len(table) - len(twice))


def test_without_a_second_reading_there_is_no_second_reader(world, tmp_path):
    table, given = samples_of(world)[1].assign(quality="one_expert"), options(world, None, tmp_path)
    given.cohort = write_cohort(tmp_path / "cohort", "samples.parquet", table, DIRECTIONS)
    with pytest.raises(InputError, match="column 'quality' says of no tested pair"):
        classified(given, {"name": "probe"}, "second_reader")


def test_plain_features_of_one_image_or_their_difference_are_probed(world, tmp_path):
    def scores(features):
        learning = {"name": "probe", "features": features}
        rows = {n: reference(world, n, learning, tmp_path) for n in ("current", "thumbnail")}
        return {name: metrics["macro_accuracy"].value for name, metrics in rows.items()}

    pair, differences, current = map(scores, ("pair", "differences", "current"))
    assert differences["thumbnail"] > 0.6
    # The current image alone is what this row sees, whatever the models are given.
    assert pair["current"] == differences["current"] == current["current"]
    assert current["thumbnail"] == current["current"] < differences["thumbnail"]


def test_a_few_shot_head_of_plain_features_starts_at_nothing(world, tmp_path):
    metrics = reference(world, "thumbnail", FEW, tmp_path)
    assert metrics["direction_auroc"].value == pytest.approx(0.5, abs=0.2)
    assert metrics["cross_entropy/agreement"].value == pytest.approx(np.log(3), abs=1e-6)


@pytest.mark.parametrize("sizes", [ONE, TWO], ids=["apart", "together"])
def test_a_head_may_be_given_the_difference_and_its_size(sizes):
    torch.manual_seed(0)
    image = ImageEncoder(from_record(ImageEncoderKind, sizes, "sizes")).eval()
    frames = Frames(torch.rand(3, 1, SIZE, SIZE), torch.rand(3, 1, SIZE, SIZE))
    with torch.no_grad():
        current, prior = (image.encoder(Frames(one)).pooled for one in frames[:2])
        pair = encode(image, frames, projected=False)
        found = encode(image, frames, False, "differences")
        alone = encode(image, frames, False, "current")
    difference = current - prior
    expected = torch.cat([pair, difference, difference.abs()], dim=1)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(alone, current)
