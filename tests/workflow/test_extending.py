"""What docs/extending.md shows, done to a copy of the workflow: files touched, runs, and reruns."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from command_options import run_to_end
from cxrflow.show.page.next_steps import METHOD

from .conftest import ROOT, Checkout, copy_of, models_of

PAGE = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
# The page's examples as parts of the package.
IN_PACKAGE = Path(__file__).with_name("in_package.md").read_text(encoding="utf-8")
OWN = ("config.yaml", "my_method.yaml", "my_tables.yaml")  # what is not of the package
BUDGETS = {
    "A paper's tables": 1,
    "A term": 4,
    "A program": 4,
    "A data set": 5,
    "A benchmark": 4,
    "An image encoder": 3,
}
PACKAGE = "workflow_scripts/cxrflow"


@dataclass(frozen=True)
class Block:
    """A file that the page shows, whole or as lines to be added to it and taken from it."""

    section: str
    file: str
    lines: list[str]

    @property
    def is_outside(self) -> bool:
        """True for a file of one of the doors."""
        return self.file.startswith("my_") and self.file not in OWN

    def apply(self, folder: Path) -> None:
        """Make the file, or edit it."""
        path = folder / ("" if self.file in OWN or self.is_outside else PACKAGE) / self.file
        if not any(line[:1] in ("+", "-") for line in self.lines):
            path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
            return
        text, at, before = path.read_text(encoding="utf-8").split("\n"), 0, list[str]()
        for line in filter(None, self.lines):
            sign, said = line[0], line[1:]
            if sign != "+":  # a line that is there: kept, or taken out
                at = text.index(said, at)
                text[at : at + (sign == "-")] = before
                at, before = at + len(before) + (sign == " "), []
            elif at:
                text.insert(at, said)
                at += 1
            else:
                before.append(said)
        path.write_text("\n".join(text), encoding="utf-8")


def blocks() -> list[Block]:
    """What the page shows and what the package gets for it, in this order."""
    shown = []
    sections = [part for text in (PAGE, IN_PACKAGE) for part in re.split(r"(?m)^##+ ", text)[1:]]
    for section in sections:
        title = re.split("[:\n]", section)[0]
        for code in re.findall(r"(?:^    .*\n|^\n(?=    |\n))+", section, re.MULTILINE):
            lines = [line[4:] for line in code.strip("\n").split("\n")]
            if named := re.fullmatch(r"# ([\w/.-]+\.(?:py|yaml))", lines[0]):
                shown.append(Block(title, named[1], lines[1:]))
    return shown


def extend(folder: Path) -> Path:
    """Do all that the page shows."""
    for block in blocks():
        block.apply(folder)
    return folder


def printed_method(where: str) -> tuple[str, str, str]:
    """(file, its text, command) of what the documentation or a page prints."""
    if where == "page":
        text, _, command = METHOD.partition("\n\n")
        return text.partition("\n")[0].removeprefix("# "), text, command
    first = next(block for block in blocks() if block.file == "my_method.yaml")
    command = re.search(r"^    (snakemake .*my_method.yaml.*)$", PAGE, re.MULTILINE)
    assert command is not None
    return first.file, "\n".join(first.lines), command[1]


@pytest.mark.parametrize("where", ["page", "documentation"])
def test_a_method_is_a_row_as_printed_and_from_anywhere(where, checkout, tmp_path_factory):
    """The file beside the configuration, as the command names it, or outside of the checkout."""
    outside = tmp_path_factory.mktemp("outside")
    file, text, command = printed_method(where)
    name = Path(file).stem
    for place, path in ((checkout.folder, file), (outside, str(outside / file))):
        (place / file).write_text(text, encoding="utf-8")
        done = run_to_end(
            f"{Checkout.python} -m {command.replace(file, path)} -n",
            shell=True,
            cwd=checkout.folder,
            env=checkout.environment(),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"results/tables/{name}/headline/table5.html" in done.stdout
        made = set(re.findall(r"results/models/([\w/]+)/seed0/run.json", done.stdout))
        # The method, BioViL, and what both start from: no other row of Table 5.
        assert made - {"biovil/cxr_bert_phase2", "biovil/cxr_bert", "biovil/simclr"} == {
            "biovil/biovil",
            f"{name}/{'mine' if where == 'page' else 'my_method'}",
        }
        (place / file).unlink()


def test_a_loss_alone_is_a_row_beside_biovils_as_printed(checkout: Checkout) -> None:
    """Its two files and its command, without another section's: BioViL is not trained anew."""
    command = re.search(r"^    (snakemake .*my_losses.yaml.*)$", PAGE, re.MULTILINE)
    assert command is not None
    own = [block for block in blocks() if block.file in ("my_losses.py", "my_losses.yaml")]
    for block in own:
        block.apply(checkout.folder)
    done = run_to_end(
        f"{Checkout.python} -m {command[1]} -n",
        shell=True,
        cwd=checkout.folder,
        env=checkout.environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "results/tables/my_losses/headline/table5.html" in done.stdout
    made = set(re.findall(r"results/models/([\w/]+)/seed0/run.json", done.stdout))
    starts = {"biovil/cxr_bert_phase2", "biovil/cxr_bert", "biovil/simclr"}
    assert made - starts == {"biovil/biovil", "my_losses/sigmoid"}
    for block in own:
        (checkout.folder / block.file).unlink()


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout with all that the page adds, and papers that use it."""
    checkout = Checkout(extend(copy_of(ROOT, tmp_path_factory.mktemp("extended"))))
    checkout.write("three.yaml", {"papers": ["biovil", *OWN[1:]], "extent": "all"})
    return checkout


def python(folder: Path, *arguments: str) -> str:
    """Run Python on a checkout's packages."""
    scripts = folder / "workflow_scripts"
    places = ":".join(map(str, [scripts, *scripts.glob("cxr-*")]))
    done = run_to_end(
        [Checkout.python, *arguments],
        cwd=folder,
        env=Checkout(folder).environment(PYTHONPATH=places),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("section", "budget"), BUDGETS.items())
def test_files_touched(section: str, budget: int) -> None:
    shown = [block for block in blocks() if block.section == section]
    files = {block.file for block in shown if not block.is_outside}
    assert len(files) == budget
    heading = f"## {section}: {budget} file{'s' * (budget > 1)}\n"
    assert heading in PAGE or f"\n| {section.lower()} | {budget} |" in PAGE


def test_what_is_new_is_all_that_is_planned(extended: Checkout) -> None:
    before = extended.write("biovil.yaml", {"papers": ["biovil"], "extent": "all"}).plan()
    after = extended.with_overlay("three.yaml").plan()
    new_models = {"my_method/my_method", "my_method/my_transformer"}
    assert models_of(after) - models_of(before) == new_models
    assert models_of(before) <= models_of(after)
    new = {path for job in after for path in job.output}
    new -= {path for job in before for path in job.output}
    for made in (
        "phantom/shenzhen/MANIFEST.json",
        "cohorts/my_method/shenzhen/samples.parquet",
        "pixels/my_method/shenzhen/shorter128/store.json",
        "benchmarks/my_method/isotropy/my_method/my_method/seed0/metrics.json",
        "benchmarks/my_method/isotropy/biovil/simclr/seed0/metrics.json",
        "tables/my_method/tuberculosis.html",
        "tables/my_tables/probes.tests.json",
        "tables/my_tables/orderings.html",
    ):
        assert f"results/{made}" in new
    # Of BioViL's models nothing is made again.
    assert not [path for path in new if path.startswith("results/models/biovil/")]


DIGESTS = """
from cxrflow.config import load_config
from cxrflow.programs.source_code import code_digest
run = load_config(["config.yaml"])
for name in run.whole.models:
    print(name, code_digest(*run.models[name].code), run.models[name].settings.record())
for name in run.tasks.available:
    print(name, code_digest(*run.tasks[name].code))
"""


def test_what_was_trained_and_scored_is_as_before(extended: Checkout) -> None:
    assert python(extended.folder, "-c", DIGESTS) == python(ROOT, "-c", DIGESTS)


def test_the_data_set_and_the_benchmark_run(extended: Checkout) -> None:
    """Drawn, made a cohort, measured: with features that are known."""
    hospital = '{"rsna_images": 12, "image_size": 64}'
    cohort = '{"kind": "classification", "splits": {"method": "patients", "shares": {"test": 1}}}'
    python(extended.folder, "-m", "cxr_hospital.draw", "--layout", "shenzhen", "drawn",
           "--settings", hospital)  # fmt: skip
    python(extended.folder, "-m", "cxrflow.data.cohorts.build_cohort", "--layout", "shenzhen",
           "--root", "drawn", "--settings", cohort, "--output", "cohort")  # fmt: skip
    said = python(extended.folder, "-c", """
import json, pandas, torch
from pathlib import Path
from safetensors.torch import save_file
from cxrflow.benchmarks.features import weights_file, write_features
from cxr_files.atomic import file_digest
rows = pandas.read_parquet("cohort/samples.parquet")
flow = json.loads(Path("cohort/flow.json").read_text())
assert flow["classes"] == ["Tuberculosis"] and len(rows) == 12, flow
assert [labels[0] for labels in rows["labels"]] == [float(name[-1]) for name in rows["image_id"]]
weights_file(Path("model")).parent.mkdir(parents=True)
save_file({"x": torch.zeros(1)}, weights_file(Path("model")))
said = {"weights": file_digest(weights_file(Path("model")))[:16], "geometry": "x", "pixels": "x"}
features = torch.nn.functional.one_hot(torch.arange(12) % 2).float()
write_features(Path("features"), rows[["image_id"]], {"pooled": features}, said)
""")  # fmt: skip
    assert said == ""
    python(extended.folder, "-m", "cxrflow.benchmarks.evaluate", "isotropy", "--model", "model",
           "--cohort", "cohort", "--features", "features", "--output", "scores")  # fmt: skip
    scores = (extended.folder / "scores/metrics.json").read_text()
    assert f'"value": {5 / 11:.8f}'[:16] in scores and '"n": 12' in scores


def test_the_program_is_a_command_and_trains_a_model(extended: Checkout) -> None:
    said = python(extended.folder, "-m", "cxrflow", "pretrain_adaptation", "--help")
    assert said.startswith("usage: cxrflow pretrain_adaptation") and "--image" in said
    python(extended.folder, "-c", """
from cxrflow.config import load_config
run = load_config(["config.yaml", "three.yaml"])
model = run.models["my_method/adapted"]
assert model.recipe.offers == {"image"} and model.recipe.kind.rule == "pretrain_image"
assert model.parents == {"image": "biovil/simclr"} and model.trainable
assert model.code[:2] == ["pretrain.adaptation", "pretrain.terms.simclr"]
""")  # fmt: skip


def test_the_term_is_one_of_its_model(extended: Checkout) -> None:
    """How such a term is trained and scored: test_outside.py."""
    python(extended.folder, "-c", """
from cxrflow.config import load_config
run = load_config(["config.yaml", "three.yaml"])
terms = run.models["my_method/my_method"].settings.terms
assert list(terms.named()) == ["mlm", "matrix"] and terms.similarity == "matrix"
assert {"pretrain.terms.matrix", "similarity.matrix"} <= {
    *run.models["my_method/my_method"].code
}
""")  # fmt: skip


def test_the_image_encoder_pauses_and_trains_and_is_read_back(extended: Checkout) -> None:
    python(extended.folder, "-c", """
from pathlib import Path
import torch
from cxrflow.config import load_config
from cxrflow.encoders.image_encoder import Frames, ImageEncoder
from cxrflow.encoders.image_encoder import load_image_encoder, save_image_encoder
run = load_config(["config.yaml", "three.yaml"])
settings = run.models["my_method/my_transformer"].settings.encoder
assert settings.kind == "patch_transformer" and settings.blocks == 2
assert "encoders.patch_transformer" in run.models["my_method/my_transformer"].code
image, frames = ImageEncoder(settings), Frames(torch.rand(3, 1, 64, 96))
whole = image.encoder(frames)
assert whole.grid.shape == (3, 64, 4, 6)
for stage in range(image.encoder.stages + 1):
    part = image.encoder.forward_from(image.encoder.forward_until(frames, stage), stage)
    assert torch.equal(part.grid, whole.grid) and torch.equal(part.pooled, whole.pooled)
image(frames).projected_global[:, 0].sum().backward()
assert all(parameter.grad.abs().sum() > 0 for parameter in image.parameters())
save_image_encoder(image, Path("transformer"))
again = load_image_encoder(Path("transformer"))
assert again.settings == settings
assert torch.equal(again.eval()(frames).projected_patches, image.eval()(frames).projected_patches)
""")  # fmt: skip
