"""The trainings, each killed by SIGKILL at random moments, against an undisturbed run.

CXR_KILLS sets how many kills each training suffers (2 by default, to keep the test short).
"""

import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from programs import ENVIRONMENT, started
from safetensors.torch import load_file
from toy_programs import CUTMIX, MGCA, Toy, trainings

from cxr_files.atomic import CHECKSUMS
from cxr_files.attempts import FOLDER
from cxr_files.errors import InputError
from cxrflow.encoders.image_encoder import Frames
from cxrflow.pretrain.registry import TRAINING_PROGRAMS
from cxrflow.pretrain.terms.global_alignment import GlobalAlignment
from cxrflow.programs.source_code import PACKAGE
from cxrflow.training import step
from cxrflow.training.program import ParameterRule
from cxrflow.training.step import Feed, Step

KILLS = int(os.environ.get("CXR_KILLS", "2"))
# Long enough that the last kill still finds the run training.
LONGER = max(1, KILLS // 2)
STARTED = re.compile("starting: |resuming at step")


class Undisturbed:
    """The trainings as they end when nothing happens to them, each done when first asked for."""

    def __init__(self, inputs: Path, folder: Path) -> None:
        self.inputs, self.folder = inputs, folder

    def toy(self, name: str, length: int = 1) -> Toy:
        """A training, all that it starts from being there."""
        toy = trainings(self.inputs, self.folder, length)[name]
        for given in toy.inputs.values():
            if isinstance(given, Path) and given.parent == self.folder:
                self.model(given.name)
        return toy

    def model(self, name: str) -> Path:
        """The model folder of a training."""
        if not (self.folder / name).is_dir():
            self.toy(name, LONGER).train(name, self.folder).succeeds()
        return self.folder / name


@pytest.fixture(scope="module")
def undisturbed(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(inputs, tmp_path_factory.mktemp("undisturbed"))


def killed_at_random(
    command: list[str], generator: random.Random, state: Path, log: Path
) -> str | None:
    """Start, wait for a saved state, kill at a random moment; what it said when it began.

    None when the run came to its end before the kill.
    """
    process = started(command, log)
    begun = None
    while process.is_alive() and (begun is None or not list(state.glob("step-*.pt"))):
        time.sleep(0.01)
        begun = STARTED.search(log.read_text()) if log.exists() else None
    time.sleep(generator.uniform(0.05, 0.5))
    process.kill()
    process.join()
    return begun[0] if begun and process.exitcode == -signal.SIGKILL else None


NAMES = (
    *("phase II", "phase III", "SimCLR", "MoCo", "joint", "joint with words", "temporal"),
    *("supervised", "supervised transformer", "studies", "matched pairs", "MGCA", "MedCutMix"),
    *("DeCLIP", "sentence pairs"),
    *("report", "Caption-LSTM", "Caption-Transformer"),
)


@pytest.mark.parametrize("name", NAMES)
def test_killed_training_ends_with_the_same_weights(name, undisturbed, tmp_path, monkeypatch):
    """Also where a thread then prepares its batches, as on a GPU."""
    toy, generator = undisturbed.toy(name, LONGER), random.Random(name)
    command, state = toy.command(name, tmp_path), tmp_path / f"state-{name}"
    logs = [tmp_path / f"{kill}.log" for kill in range(KILLS)]
    begun = [killed_at_random(command, generator, state, log) for log in logs]
    killed = [line for line in begun if line is not None]
    assert len(killed) > KILLS // 2, "the runs are too short for this machine"
    assert any("resuming at step" in line for line in killed), killed
    monkeypatch.setattr(step, "Feed", lambda prepare, count, ahead: Feed(prepare, count, True))
    toy.train(name, tmp_path).succeeds()
    compared = 0
    for weights in sorted((undisturbed.model(name)).rglob("*.safetensors")):
        again = load_file(tmp_path / name / weights.relative_to(undisturbed.model(name)))
        for key, value in load_file(weights).items():
            assert torch.equal(value, again[key]), key
            compared += 1
    assert compared > 10
    assert not state.exists()


@pytest.mark.parametrize("change", [{}, {"pairs": 0, "warmup_epochs": 0}], ids=["warm-up", "none"])
def test_medcutmix_in_its_warm_up_or_without_pairs_is_mgca(
    change: dict[str, Any], undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """Bit for bit, prototypes and their losses included; after the warm-up no more."""
    plain, mixed = undisturbed.toy("MGCA"), undisturbed.toy("MedCutMix")
    term = mixed.settings["terms"]["cutmix"]
    settings = {**mixed.settings, "terms": {**mixed.settings["terms"], "cutmix": term | change}}
    trained = {"plain": plain, "mixed": mixed._replace(settings=settings)}
    for name, toy in trained.items():
        toy.train(name, tmp_path, epochs=3, log_steps=1).succeeds()
    logs = [log_of(tmp_path / name) for name in trained]
    values = [[line["loss"], line["prototypes"]] for line in logs[0] if line["split"] == "train"]
    assert [[r["loss"], r["prototypes"]] for r in logs[1] if r["split"] == "train"] == values
    assert len(values) == 12
    reason = "cutmix/skipped/few_pairs" if change else "cutmix/skipped/warm_up"
    assert all(line[reason] == 1 for line in logs[1] if line["split"] == "train")
    halves = [
        {p.relative_to(tmp_path / name): load_file(p)
         for p in sorted((tmp_path / name).rglob("*.safetensors"))}
        for name in trained
    ]  # fmt: skip
    assert halves[0].keys() == halves[1].keys() and len(halves[0]) == 2
    for path, weights in halves[0].items():
        assert all(torch.equal(value, halves[1][path][key]) for key, value in weights.items())


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def without_dropout(settings: Any) -> Any:
    """The same settings, with nothing that a GPU draws otherwise than a CPU."""
    if not isinstance(settings, dict):
        return settings
    return {
        key: 0.0 if key.endswith(("dropout", "drop_path")) else without_dropout(value)
        for key, value in settings.items()
    }


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("name", NAMES)
def test_gpu_and_cpu_begin_alike(name: str, undisturbed: Undisturbed, tmp_path: Path) -> None:
    toy, losses = undisturbed.toy(name), {}
    kind = TRAINING_PROGRAMS[toy.module.removeprefix("pretrain.")].settings
    written = without_dropout(kind.model_validate(toy.settings).model_dump(mode="json"))
    one = {"epochs": None, "steps": 1, "validate_steps": None, "checkpoint_validations": None}
    toy = toy._replace(settings=written | {"training": toy.settings["training"] | one})
    for device in ("cpu", "cuda"):
        toy.train(device, tmp_path, device=device, precision="fp32", log_steps=1).succeeds()
        losses[device] = log_of(tmp_path / device)[0]["loss"]
    # A GPU rounds the factors of convolutions to TF32.
    assert losses["cuda"] == pytest.approx(losses["cpu"], rel=1e-3)


def test_a_joint_step_reads_from_few_files(
    undisturbed: Undisturbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From batch to views, terms and update a reader has few files to open."""
    files, step = set[str](), Step.__call__
    toy = undisturbed.toy("joint")

    def watched(self: Step, number: int, *rest: Any) -> Any:
        if number:  # the first step makes what later ones find
            sys.setprofile(lambda frame, *_: files.add(frame.f_code.co_filename))
        try:
            return step(self, number, *rest)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(Step, "__call__", watched)
    toy.train("joint", tmp_path, epochs=None, steps=2).succeeds()
    entered = sorted(name for name in files if name.startswith(str(PACKAGE)))
    assert str(PACKAGE / "training/step.py") in entered and len(entered) <= 20, entered


def test_joint_model_folder_is_complete(undisturbed: Undisturbed) -> None:
    import cxrflow

    model = cxrflow.load(undisturbed.model("joint"))
    assert model.geometry == "shorter32"
    pixels = torch.rand(2, 1, 32, 32)
    texts = ["New left effusion.", "No other finding."]
    similarity = model.similarity_map(pixels, texts)
    assert similarity.shape == (2, 1, 1) and similarity.abs().max() <= 1 + 1e-6
    image = model.encode_image(pixels).projected_global
    torch.testing.assert_close(image.norm(dim=1), torch.ones(2))
    run = json.loads((undisturbed.model("joint") / "run.json").read_text())
    assert run["data"]["synthetic"] is True and run["samples_per_second"] > 0
    lines = log_of(undisturbed.model("joint"))
    steps = [line["step"] for line in lines if line["split"] == "train"]
    assert steps == sorted(set(steps)), "no line is written twice"


def test_mgca_keeps_what_it_is_and_reads_prompts_as_reports(undisturbed: Undisturbed) -> None:
    import cxrflow

    folder = undisturbed.model("MGCA")
    model = cxrflow.load(folder)
    assert model.similarity_map(torch.rand(2, 1, 32, 32), ["A", "b"]).shape == (2, 4, 4)
    assert model.image_features(torch.rand(2, 1, 32, 32)).shape == (2, 16)
    shouted, *rest = model.encode_text(["LEFT, Effusion!", "left effusion", "left pneumothorax"])
    assert torch.equal(shouted, rest[0]) and not torch.equal(shouted, rest[1])
    terms = json.loads((folder / "run.json").read_text())["permuted_pairs"]["terms"]
    assert terms.keys() == MGCA["terms"].keys() and None not in [t["p"] for t in terms.values()]


def test_joint_model_with_words_pools_as_it_was_trained(undisturbed: Undisturbed) -> None:
    import cxrflow

    folder = undisturbed.model("joint with words")
    text = cxrflow.load(folder).text_encoder
    before = cxrflow.load(undisturbed.model("phase III")).text_encoder
    assert text is not None and before is not None
    assert (text.pooling, before.pooling) == ("max", "cls")
    halves = zip(before.named_parameters(), text.parameters(), strict=True)
    trained = {name for (name, old), new in halves if not torch.equal(old, new)}
    assert any(name.startswith("bert.encoder.layer.1.") for name in trained)
    assert not any(name.startswith(("bert.embeddings", "bert.encoder.layer.0")) for name in trained)
    lines, losses = log_of(folder), {"train": [], "validate": []}
    for line in lines:
        losses[line["split"]].append(line["local_alignment"])
    train, validate = losses.values()
    assert len(train) > 5 and min(train) < 0.8 * train[0]
    # The images are noise: of others than it learned from, none tells more than chance.
    chance = 2 * math.log(16)  # two directions over a batch of 16
    assert validate[0] > 1.05 * chance > min(validate) > 0.98 * chance


def test_temporal_model_compares_and_lets_text_look(undisturbed: Undisturbed) -> None:
    import cxrflow
    from cxrflow.encoders.guided_text import load_guidance

    folder = undisturbed.model("temporal")
    model = cxrflow.load(folder)
    assert model.takes_prior and model.text_encoder is not None
    current, prior = torch.rand(2, 2, 1, 32, 32)
    alone, compared = model.encode_image(current), model.encode_image(current, prior)
    assert not torch.allclose(alone.projected_global, compared.projected_global)
    guided = load_guidance(folder, model.text_encoder)
    before = cxrflow.load(undisturbed.model("phase III")).text_encoder
    assert before is not None
    assert not torch.equal(guided.mlm_token, before.bert.embeddings.word_embeddings.weight[2])
    data = json.loads((folder / "run.json").read_text())["data"]
    assert (data["train_samples"], data["train_samples_with_prior"]) == (64, 42)


@pytest.mark.parametrize("name", ["Caption-LSTM", "Caption-Transformer"])
def test_captioner_writes_what_it_reads_from_an_image(name, undisturbed, tmp_path):
    import cxrflow

    folder = undisturbed.model(name)
    model = cxrflow.load(folder)
    pixels = torch.rand(2, 1, 32, 32)
    written = model.generate_report(pixels, beams=5)
    assert len(written) == 2 and all(isinstance(text, str) for text in written)
    # It knows nothing of what was before.
    again = model.generate_report(Frames(pixels, pixels), None, ["A report.", None], beams=5)
    assert again == written
    assert model.image_encoder is not None and model.image_encoder.projector is None
    with pytest.raises(InputError, match="a trunk alone, with no projection to a joint space"):
        model.encode_image(torch.rand(1, 1, 32, 32))
    weights = [one / "image/model.safetensors" for one in (undisturbed.model("SimCLR"), folder)]
    start, end = map(load_file, weights)
    assert start.keys() == end.keys() and any(not torch.equal(start[n], end[n]) for n in start)
    lines = log_of(folder)
    losses = [one["report_likelihood"] for one in lines if one["split"] == "train"]
    assert losses[-1] < losses[0] / 2
    validated = [one for one in lines if one["split"] == "validate"]
    assert max(one["cider"] for one in validated) > 0
    # The vocabulary of another model: as many pieces, in another order.
    shutil.copytree(folder, tmp_path / "other")
    (tmp_path / "other/tokenizer.json").unlink()
    (tmp_path / "other" / CHECKSUMS).unlink()
    pieces = (folder / "vocab.txt").read_text().splitlines()
    (tmp_path / "other/vocab.txt").write_text("\n".join(pieces[:5] + pieces[:4:-1]) + "\n")
    with pytest.raises(InputError, match="other: the fingerprint of its tokenizer's pieces is"):
        cxrflow.load(tmp_path / "other")


def test_images_without_a_report_are_left_out(inputs: Path, tmp_path: Path) -> None:
    toy = trainings(inputs, tmp_path)["Caption-LSTM"]
    shutil.copytree(inputs / "cohort", tmp_path / "cohort")
    table = tmp_path / "cohort/pairs.parquet"
    given = {name: path for name, path in toy.inputs.items() if name != "image"} | {"pairs": table}
    toy = toy._replace(inputs=given)
    whole = pd.read_parquet(table)
    silent = {"findings": "", "impression": " "}
    silent |= {f"{name}_sentences": [[]] * len(whole) for name in ("findings", "impression")}

    def without(rows: pd.Series) -> None:
        changed = {n: whole[n].where(~rows, pd.Series(v, whole.index)) for n, v in silent.items()}
        whole.assign(**changed).to_parquet(table, index=False)

    without(whole["study_id"].isin(["3", "7", "70"]))
    toy.train("some", tmp_path, epochs=1).succeeds()
    data = json.loads((tmp_path / "some/run.json").read_text())["data"]
    assert (data["train_samples"], data["validation_samples"]) == (62, 15)
    reason = "no text in findings or impression"
    assert [(one["reason"], one["count"], one["part"]) for one in data["dropped"]] == [
        (reason, 2, "train"), (reason, 1, "validate")
    ]  # fmt: skip
    assert not [one for one in data["dropped"] if "examples" in one]  # it travels, patients do not
    without(whole["split"] == "validate")
    toy.train("none", tmp_path).refuses(table, "split 'validate'", reason)


def test_what_no_attempt_can_mend_is_tried_once(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the workflow starts it: with the same command, within the same run or in a new one."""
    toy = trainings(inputs, tmp_path)["phase II"]

    def attempt(run: str) -> str:
        monkeypatch.setenv(FOLDER, str(tmp_path / run))
        end = toy.train("run", tmp_path, optimiser={"learning_rate": 1e30})
        assert end.code == 2, end.stderr
        return end.stderr

    assert " is nan at step " in attempt("first") and (tmp_path / "first").is_dir()
    again = attempt("first")
    assert again.startswith("error: not tried again, since it would fail as it did before: toy: t")
    assert attempt("second").startswith("error: toy: term 'mlm' is nan at step")


def test_true_boxes_without_their_folder_are_refused_before_the_warm_up(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    toy = undisturbed.toy("MedCutMix")
    terms = {**toy.settings["terms"], "cutmix": {**CUTMIX, "control": "true_boxes"}}
    toy = toy._replace(settings={**toy.settings, "terms": terms})
    toy.train("run", tmp_path).refuses(
        "terms.cutmix reads the boxes of findings, but --truth is miss"
    )
    toy = toy._replace(inputs={**toy.inputs, "selection_task": "retrieval"})
    toy.train("run", tmp_path).refuses("--selection is missing; --selection-task needs the task")


def test_more_parts_than_a_batch_has_rows_are_refused(inputs: Path, tmp_path: Path) -> None:
    toy = trainings(inputs, tmp_path)["phase II"]
    said = ("key 'training.accumulate' is 17", "training.batch_size 16", "have 16 each")
    toy.train("run", tmp_path, epochs=1, accumulate=17).refuses(*said)
    assert not (tmp_path / "run").exists()


def test_compiled_training_killed_and_resumed_ends_with_the_same_weights(inputs, tmp_path):
    toy, changes = trainings(inputs, tmp_path)["phase II"], {"compile": True, "epochs": 100}
    subprocess.run(toy.command("undisturbed", tmp_path, **changes), env=ENVIRONMENT, check=True)
    state = tmp_path / "state-run"
    command = toy.command("run", tmp_path, **changes)
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    while not list(state.glob("step-*.pt")):
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    subprocess.run(command, env=ENVIRONMENT, check=True)
    assert json.loads((tmp_path / "run/run.json").read_text())["settings"]["training"]["compile"]
    undisturbed = load_file(tmp_path / "undisturbed" / "model.safetensors")
    for key, value in load_file(tmp_path / "run" / "model.safetensors").items():
        assert torch.equal(value, undisturbed[key]), key


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """The steps of the trainings that have ended."""
    ended: list[Step] = []
    monkeypatch.setattr(Step, "close", lambda step: ended.append(step))
    return ended


def rates_of(step: Step) -> dict[str, set[float]]:
    """The factors on the learning rate of the trained parameters of each module."""
    groups = step.optimiser.param_groups
    factors = {p: group["rate"] for group in groups for p in group["params"]}
    return {
        name: {factors[p] for p in module.parameters() if p in factors}
        for name, module in step.program.modules.items()
    }


@pytest.mark.parametrize("rate", [0.0, 0.05])
def test_image_encoder_of_a_report_model_is_trained_at_its_own_rate(
    rate: float, inputs: Path, undisturbed: Undisturbed, steps: list[Step], tmp_path: Path
) -> None:
    toy = undisturbed.toy("report")
    steps.clear()
    toy._replace(settings={**toy.settings, "image_rate": rate}).train("report", tmp_path).succeeds()
    folders = (undisturbed.model("temporal"), tmp_path / "report")
    start, end = (load_file(folder / "image/model.safetensors") for folder in folders)
    moved = [name for name in start if not torch.equal(start[name], end[name])]
    assert bool(moved) == bool(rate)  # at 0 batch statistics stay as well
    run = json.loads((tmp_path / "report/run.json").read_text())
    assert run["settings"]["image_rate"] == rate
    rates = rates_of(steps[0])
    assert rates["decoder"] == {1.0} and rates.get("image", {0.0}) == {rate}


def test_the_trunk_of_a_captioner_is_trained_at_its_own_rate(
    undisturbed: Undisturbed, steps: list[Step], tmp_path: Path
) -> None:
    toy = undisturbed.toy("Caption-LSTM")
    steps.clear()
    toy.train("caption", tmp_path, epochs=1).succeeds()
    rates = rates_of(steps[0])
    assert (rates["decoder"], rates["image"]) == ({1.0}, {0.25})


def test_a_term_of_the_temporal_program_may_have_rules_of_parameters(
    undisturbed: Undisturbed,
    steps: list[Step],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toy, rules = undisturbed.toy("temporal"), (ParameterRule("text.*", rate=0.5),)
    steps.clear()
    monkeypatch.setattr(GlobalAlignment, "parameter_rules", rules)
    toy.train("temporal", tmp_path, epochs=1).succeeds()
    rates = rates_of(steps[0])
    assert (rates["text"], rates["image"]) == ({0.5}, {1.0})
