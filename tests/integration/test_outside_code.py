"""Code outside of the package as docs/extending.md shows it, one file a door: run as printed."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from programs import program
from safetensors.torch import load_file, save_file
from toy_programs import TRAINING, trainings

import cxrflow
from cxr_files.atomic import file_digest, read_object
from cxr_files.errors import InputError
from cxr_files.settings import read_settings
from cxrflow.benchmarks.features import weights_file, write_features
from cxrflow.config import load_config
from cxrflow.kinds import TRUSTED
from cxrflow.pretrain.settings import ImagePretrainingSettings, JointPretrainingSettings
from cxrflow.programs import source_code
from cxrflow.programs.source_code import PACKAGE, code_digest, source_files

TOP = PACKAGE.parents[1]
LOSS, ENCODER = "my_losses:SigmoidPairs", "my_encoders:Tiny"
OURS = ("my_losses", "my_similarity", "my_encoders", "my_data", "my_benchmarks")


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The page's files in the folder of a run, where Python looks for modules."""
    folder = tmp_path_factory.mktemp("outside")
    page = (TOP / "docs/extending.md").read_text("utf-8")
    for name, text in re.findall(r"^    # (my_\w+\.\w+)\n((?:    .*\n|\n)+)", page, re.MULTILINE):
        if name.startswith(OURS):
            lines = (line[4:] for line in text.rstrip().split("\n"))
            (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        yield folder
    for name in OURS:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def start(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text encoder to start from."""
    folder = tmp_path_factory.mktemp("start")
    trainings(inputs, folder)["phase II"].train("text", folder, epochs=1).succeeds()
    return folder / "text"


def train(inputs: Path, start: Path, folder: Path, name: str) -> Any:
    """Train with both in this process."""
    settings = {
        "encoder": {"kind": ENCODER, "width": 16, "projection": 16, "channels": 1},
        "terms": {"mlm": {}, "pairs": {"kind": LOSS, "temperature": 0.2}},
        "augmentation": {},
        "length": 48,
        "training": {**TRAINING, "epochs": 3, "save_minutes": 1e-5},
    }
    given = {"pairs": inputs / "cohort/pairs.parquet", "pixels": inputs / "pixels", "text": start}
    places = {"state": folder / f"state-{name}", "output": folder / name}
    return program("pretrain.joint", settings, **given, **places, model="mine", seed=0)


@pytest.fixture(scope="module")
def whole(beside: Path, inputs: Path, start: Path) -> Path:
    """A model that was trained without a stop."""
    train(inputs, start, beside, "whole").succeeds()
    return beside / "whole"


def test_trained_stopped_and_resumed_it_is_a_model_like_ours(
    whole: Path,
    inputs: Path,
    start: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    import my_losses  # type: ignore[import-not-found]

    calls, loss = [0], my_losses.SigmoidPairs.loss

    def stopped(self: Any, views: Any) -> Any:
        calls[0] += 1
        if calls[0] == 7:
            raise KeyboardInterrupt
        return loss(self, views)

    with monkeypatch.context() as patch:
        patch.setattr(my_losses.SigmoidPairs, "loss", stopped)
        assert train(inputs, start, tmp_path, "resumed").code == 130
    state = tmp_path / "state-resumed"
    assert list(state.glob("step-*.pt"))
    calls[0] = 100
    with monkeypatch.context() as patch:
        patch.setattr(my_losses.SigmoidPairs, "loss", stopped)
        train(inputs, start, tmp_path, "resumed").succeeds()
    assert calls[0] < 112 and not state.exists()  # not all of its 12 steps again
    weights = sorted(path.relative_to(whole) for path in whole.rglob("*.safetensors"))
    assert len(weights) == 2
    for path in weights:
        again = load_file(tmp_path / "resumed" / path)
        for key, value in load_file(whole / path).items():
            assert torch.equal(value, again[key]), key
    lines = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().split("\n") if line]
    assert all("pairs" in line and "mlm" in line for line in lines)
    run = read_object(whole / "run.json")
    assert run["settings"]["terms"]["pairs"]["kind"] == LOSS
    # Its own pairs decide whether it has learnt, and the log ends with the answer.
    assert run["twins"]["image and text"]["terms"].keys() == {"pairs"}
    assert "learnt: it tells its pairs apart" in caplog.messages[-1].lower()
    model = cxrflow.load(whole)
    assert model.similarity_map(torch.rand(1, 1, 32, 32), ["Edema."]).shape == (1, 2, 2)


def test_a_constant_answer_is_the_worst_start_and_scores_are_those_of_the_loss(
    beside: Path,
) -> None:
    """Its bias begins where 32 pairs that look alike cost least; shuffled pairs cost the score."""
    import my_losses

    term = my_losses.SigmoidPairs(my_losses.SigmoidSettings(kind=LOSS), None)

    def views(image_NP: torch.Tensor, text_NP: torch.Tensor) -> Any:
        batch = SimpleNamespace(gather=lambda *both: (both, slice(None)))
        image, text = (
            {0: SimpleNamespace(projected_global=image_NP)},
            {"intact": SimpleNamespace(projected=text_NP)},
        )
        return SimpleNamespace(batch=batch, images=image, texts=text)

    apart = views(torch.eye(32, 64), torch.eye(32, 64).roll(32, 1))  # all cosines are 0
    term.loss(apart).backward()
    assert term.loss(apart).item() == pytest.approx(4.450, abs=1e-3)
    assert abs(term.bias.grad.item()) < 0.05
    image_NP, text_NP = torch.randn(2, 32, 8, generator=torch.Generator().manual_seed(0))
    true, shuffled = (term.loss(views(image_NP, t)).item() for t in (text_NP, text_NP.roll(1, 0)))
    compared = term.comparisons(views(image_NP, text_NP))
    score_NN = compared.groups[0].score_KK
    change = (score_NN.diag() - score_NN.roll(1, 1).diag()).mean().item()
    assert shuffled - true == pytest.approx(compared.slope * change, rel=1e-4)


def test_a_model_folder_alone_imports_no_code(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "my_encoders")
    said = f"config.json: kind '{ENCODER}' is code outside of cxrflow; if you trust it, import my"
    with pytest.raises(InputError, match=f"{said}_encoders first or name it in .*{TRUSTED}"):
        cxrflow.load(whole)
    monkeypatch.setenv(TRUSTED, "my_encoders")
    assert cxrflow.load(whole).image_encoder is not None
    # No published layout has another encoder.
    output = tmp_path / "exported"
    program("commands.export", None, model=whole, output=output).refuses(
        "expected a ResNet or a vit"
    )


SIMILAR = '''
"""A term whose similarity the model keeps: a cosine with a factor that is learnt."""

import torch
from torch import nn

from cxrflow.objectives.biovil import symmetric_cross_entropy
from cxrflow.pretrain.objective import Term
from cxrflow.pretrain.terms.base_settings import Needs, OutsideTermSettings
from cxrflow.similarity.settings import SimilaritySettings
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts, Similarity


class ScaleSettings(SimilaritySettings):
    start: float


class Scaled(Similarity):
    settings: ScaleSettings

    def __init__(self, settings, words=None):
        super().__init__(settings, words)
        self.factor = nn.Parameter(torch.tensor(settings.start))

    def forward(self, images, texts):
        return self.factor * images.patches.mean((1, 2)) @ texts.projection.T

    def maps(self, images, texts):
        return self.factor * torch.einsum("nhwp,tp->nhw", images.patches, texts.projection[:1])


class ScaledSettings(OutsideTermSettings):
    title = "Scaled"
    nested: bool = False

    @property
    def needs(self):
        return Needs(images=1, texts=("intact",))


class ScaledPairs(Term):
    settings: ScaledSettings
    compares = True
    pairs = "image and text"

    def __init__(self, settings, encoders):
        super().__init__(settings, encoders)
        self.scaled = Scaled(ScaleSettings(start=2.0))
        if settings.nested:
            class Inner(Scaled):
                settings: ScaleSettings
            self.scaled = Inner(ScaleSettings(start=2.0))

    def similarity(self):
        return self.scaled

    def loss(self, views):
        texts = EncodedTexts(views.texts["intact"].projected)
        logits = self.scaled(EncodedImages.of(views.images[0]), texts)
        return symmetric_cross_entropy(logits, slice(0, len(logits)))
'''


def test_a_similarity_from_outside_is_kept_or_refused_before_the_first_step(
    beside: Path, inputs: Path, start: Path, tmp_path: Path
) -> None:
    (beside / "my_losses_similar.py").write_text(SIMILAR)
    pair: dict[str, Any] = {"kind": "my_losses_similar:ScaledPairs"}

    def trained(name: str, **terms: Any) -> Any:
        settings = {"encoder": {"width": 16, "projection": 16, "channels": 1}, "terms": terms}
        settings |= {"augmentation": {}, "length": 48, "training": {**TRAINING, "epochs": 1}}
        given = {"pairs": inputs / "cohort/pairs.parquet", "pixels": inputs / "pixels"}
        places = {"state": tmp_path / f"state-{name}", "output": tmp_path / name}
        return program("pretrain.joint", settings, text=start, **given, **places,
                       model="mine", seed=0)  # fmt: skip

    trained("kept", pairs=pair).succeeds()
    model = cxrflow.load(tmp_path / "kept")
    assert type(model.similarity).__name__ == "Scaled" and model.similarity.factor.item() != 2.0
    assert "compares by Scaled" in repr(model)
    refusal = "terms.pairs: its similarity my_losses_similar:ScaledPairs.__init__.<locals>.Inner"
    trained("nested", pairs={**pair, "nested": True}).refuses(refusal)
    trained("two", pairs=pair, more=pair).refuses("terms.pairs and terms.more both give the model")
    assert not (tmp_path / "nested").exists() and not (tmp_path / "two").exists()


def test_the_loss_alone_is_another_beside_the_paper_s_row(beside: Path) -> None:
    """By the one file that is printed, which needs no other of the page."""
    (beside / "alone.yaml").write_text(json.dumps({"papers": [str(beside / "my_losses.yaml")]}))
    run = load_config([TOP / "config.yaml", beside / "alone.yaml"])
    models = [model for _, model in run.results["my_losses"].cells("headline/table5")]
    assert [name for name in models if "reference" not in name] == [
        "biovil/biovil",
        "my_losses/sigmoid",
    ]
    ours, mine = (run.models[name].settings for name in ("biovil/biovil", "my_losses/sigmoid"))
    assert isinstance(ours, JointPretrainingSettings) and isinstance(mine, JointPretrainingSettings)
    ours, mine = (one.model_dump(exclude={"terms": True}) for one in (ours, mine))
    assert ours == mine
    assert run.outside_modules == ["my_losses"]


def test_the_configuration_knows_its_code(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [TOP / "config.yaml", beside / "run.yaml"]
    papers = [str(beside / f"{name}.yaml") for name in OURS]
    for place in ("tiny.pth", "shenzhen"):
        (beside / place).touch()
    weights = {"my_encoders/tiny": str(beside / "tiny.pth")}
    dataset = {"root": str(beside), "layout": "my_data:Shenzhen"}
    (beside / "run.yaml").write_text(
        json.dumps({"papers": papers, "weights": weights, "datasets": {"shenzhen": dataset}})
    )
    run = load_config(files)
    code = run.models["my_losses/sigmoid"].code
    assert {LOSS, "pretrain.terms.mlm"} <= {*code}
    assert "pretrain.terms.global_alignment" not in code
    assert run.outside_modules == sorted(OURS)
    tiny = run.models["my_encoders/tiny"]
    assert ENCODER in tiny.code and tiny.imported
    assert "my_similarity:MatrixPairs" in run.models["my_similarity/matrix"].code
    assert run.tasks["my_benchmarks/isotropy"].code == ["my_benchmarks:Isotropy"]
    assert run.data.layout("shenzhen").source("tables") == ["my_data:Shenzhen"]
    settings = run.models["my_encoders/from_tiny"].settings
    assert isinstance(settings, JointPretrainingSettings)
    assert settings.encoder.kind == ENCODER and settings.encoder.channels == 1
    assert read_settings(settings.model_dump_json(), JointPretrainingSettings) == settings
    # What counts is the class's file and what it imports, of ours too; not what is said of it.
    names = [path.name for path in source_files(LOSS)]
    assert {"my_losses.py", "objective.py", "base_settings.py"} >= {
        "my_losses.py"
    } and "objective.py" in names
    before, file = code_digest(*code), beside / "my_losses.py"
    text = file.read_text()
    for old, new, changes in (
        ("two convolutions", "two", False),
        ("bias: float = -3.4", "bias: float = -5.0", True),
        ('"""Every image', '"""Each image', False),
        ("import torch\n", "import torch\n\nimport my_layers\n", True),
    ):
        edited = text.replace(old, new)
        monkeypatch.setattr(
            source_code,
            "_text",
            lambda path, e=edited: e if path == file else path.read_text("utf-8"),
        )
        source_code._code_of.cache_clear()
        assert (code_digest(*code) != before) is changes, new
    monkeypatch.undo()
    source_code._code_of.cache_clear()


def test_the_encoder_starts_from_its_published_weights(beside: Path, tmp_path: Path) -> None:
    weights = {"conv1.weight": torch.rand(32, 1, 16, 16), "conv2.weight": torch.rand(32, 32, 3, 3)}
    weights |= {name: torch.rand(32) for name in ("conv1.bias", "conv2.bias", "fc.bias")}
    torch.save(weights | {"fc.weight": torch.rand(32, 32)}, tmp_path / "tiny.pth")
    given = {"kind": ENCODER, "weights": tmp_path, "model": "tiny", "output": tmp_path / "model"}
    program("pretrain.imported", {"geometry": "shorter32"}, **given, seed=0).succeeds()
    trunk = cxrflow.load(tmp_path / "model").image_encoder.encoder  # type: ignore[union-attr]
    assert torch.equal(trunk.stem.weight, weights["conv1.weight"])


def test_the_similarity_is_trained_and_kept(
    beside: Path, inputs: Path, start: Path, tmp_path: Path
) -> None:
    settings = {
        "encoder": {"width": 16, "projection": 16, "channels": 1},
        "terms": {"matrix": {"kind": "my_similarity:MatrixPairs"}},
        **{"augmentation": {}, "length": 48, "training": {**TRAINING, "epochs": 1}},
    }
    given = {"pairs": inputs / "cohort/pairs.parquet", "pixels": inputs / "pixels", "text": start}
    places = {"state": tmp_path / "state", "output": tmp_path / "model"}
    program("pretrain.joint", settings, **given, **places, model="mine", seed=0).succeeds()
    similarity: Any = cxrflow.load(tmp_path / "model").similarity
    assert not torch.equal(similarity.matrix, torch.eye(16))


def test_the_data_set_is_a_cohort_that_the_benchmark_measures(
    beside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRUSTED, "my_data,my_benchmarks")
    (tmp_path / "data/CXR_png").mkdir(parents=True)
    for number in range(12):
        name = f"CXR_png/CHNCXR_{number:04d}_{number % 2}.png"
        Image.fromarray(np.full((8, 8), number, dtype=np.uint8)).save(tmp_path / "data" / name)
    settings = {"kind": "classification", "splits": {"method": "patients", "shares": {"test": 1}}}
    given = {"layout": "my_data:Shenzhen", "root": tmp_path / "data", "output": tmp_path / "cohort"}
    program("data.cohorts.build_cohort", settings, **given).succeeds()
    rows = pd.read_parquet(tmp_path / "cohort/samples.parquet")
    assert [labels[0] for labels in rows["labels"]] == [int(n[-1]) for n in rows["image_id"]]
    model = weights_file(tmp_path / "model")
    model.parent.mkdir(parents=True)
    save_file({"x": torch.zeros(1)}, model)
    said = {"weights": file_digest(model)[:16], "geometry": "x", "pixels": "x"}
    features = torch.nn.functional.one_hot(torch.arange(12) % 2).float()
    write_features(tmp_path / "features", rows[["image_id"]], {"pooled": features}, said)
    read = {name: tmp_path / name for name in ("model", "cohort", "features")}
    measured = program(
        "benchmarks.evaluate", {}, "my_benchmarks:Isotropy", **read, output=tmp_path / "scores"
    )
    measured.succeeds()
    cosine = read_object(tmp_path / "scores/metrics.json")["metrics"]["cosine"]
    assert cosine["value"] == pytest.approx(5 / 11) and cosine["n"] == 12


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"pairs": {"kind": "my_losses:Nothing"}}, "the module my_losses has no class Nothing"),
        ({"pairs": {"kind": "my_loses:Pairs"}}, "there is no module my_loses in "),
        ({"pairs": {"kind": "my_losses"}}, "unknown key 'terms.pairs'"),
        (
            {"pairs": {"kind": "os:PathLike"}},
            "expected a subclass of cxrflow.pretrain.objective.Term",
        ),
        ({"pairs": {"kind": LOSS, "temperature": 0}}, "key 'terms.pairs.temperature' is 0"),
        ({"token_alignment": {"kind": LOSS}}, "token_alignment: expected another name"),
        ({"Pairs": {"kind": LOSS}}, "Pairs: expected another name"),
        ({"pairs": {"kind": "a b:C"}}, "expected module:Class"),
        ({"simclr": {}, "pairs": None}, "unknown key 'terms.pairs'"),
    ],
)
def test_a_wrong_name_is_one_line(beside: Path, terms: dict[str, Any], message: str) -> None:
    given = {"training": {"batch_size": 4, "epochs": 1}, "augmentation": {}, "terms": terms}
    with pytest.raises(InputError) as caught:
        read_settings(json.dumps(given), ImagePretrainingSettings)
    assert message in str(caught.value) and "\n" not in str(caught.value)
