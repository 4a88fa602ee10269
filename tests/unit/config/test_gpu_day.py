"""gpu_day.yaml: every headline row of five papers, at 224 pixels, in 24 hours of the estimator."""

import re

import pytest
from config_overlays import DEMO, ROOT

from cxr_files.settings import overlay
from cxr_files.yaml_file import read_yaml
from cxrflow.config import Config, make_config
from cxrflow.config.gpu_hours import FullScale, updates
from cxrflow.images.geometry import Geometry

PAPERS = ["biovil", "biovil_t", "convirt", "low_data", "medcutmix"]
OPEN = ("paper.yaml", "public.yaml")
#: What is smaller: lengths, batches and the rates that go with them, images and their pixels.
SIZES = r"geometry|training\.(batch_size|accumulate|epochs|steps|validations|validate_steps)"
SIZES += r"|training\.optimiser\.learning_rate|augmentation\.(elastic_\w+|blur_sigma)"


def run_of(*files: str) -> Config:
    """The headline of a run that has every data set and weight that its files name."""
    values = read_yaml(DEMO)
    for file in files:
        values = overlay(values, read_yaml(ROOT / file))
    for entry in filter(None, [*values["datasets"].values(), *values["weights"].values()]):
        entry.pop("optional", None)
    return make_config(values | {"extent": "headline"}, [DEMO], check_roots=False)


@pytest.fixture(scope="module")
def runs():
    """The day, and the same rows at the papers' sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXR_DATA", "/data")
        return run_of(*OPEN, "gpu_day.yaml"), run_of(*OPEN)


def trained(config: Config) -> list[str]:
    """The models that a run of the headline trains."""
    models = config.needs(*((paper, "headline") for paper in PAPERS)).models
    return [name for name in models if config.models[name].trained]


def differing(first, second, key: str = "") -> set[str]:
    """The keys at which two nested settings differ."""
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return {key} if first != second else set()
    keys = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    return set().union(*(differing(first.get(k), second.get(k), f"{key}.{k}") for k in keys))


def test_every_headline_row_of_the_papers_is_there(runs):
    day, whole = runs
    assert list(day.library.chosen) == PAPERS and day.values.extent == "headline"
    for paper in PAPERS:
        assert day.results[paper].all("headline") == whole.results[paper].all("headline")
    assert trained(day) == trained(whole) and len(trained(day)) == 15
    assert all(list(day.models[name].seeds) == [0] for name in trained(day))


def test_one_gpu_trains_them_in_a_day(runs):
    """By measured steps; two trainings that were not measured count as what takes longer."""
    day = FullScale(runs[0])
    hours = day.total(trained(runs[0]))
    assert hours.trainings == 15 and hours.unknown == ["biovil/report_labels"]
    joint, labels = (day.models[f"biovil/{name}"] for name in ("biovil", "report_labels"))
    assert labels.settings.training == joint.settings.training and labels.geometry == joint.geometry
    # A batch of 20 texts counts as a share of one of 256; it takes no longer than all of it.
    name = "low_data/cxr_bert"
    text = updates(day.models[name]) * float(day.step(name)["seconds"]) / 3600
    most = hours.most + day.hours_of("biovil/biovil")[0] + text - day.hours_of(name)[0]
    assert hours.most < most <= 24


def test_every_model_sees_224_pixels(runs):
    day = runs[0]
    models = [day.models[name] for name in trained(day) if day.models[name].geometry]
    shown = [
        getattr(model.settings.augmentation, "size", None) or Geometry.parse(model.geometry).size
        for model in models
    ]
    assert len(shown) == 12 and set(shown) == {224}
    stores = day.needs(*((paper, "headline") for paper in PAPERS)).stores
    assert max(Geometry.parse(geometry).size for _, geometry in stores) == 256


def test_sizes_alone_differ_from_the_papers(runs):
    day, whole = runs
    for name in trained(day):
        here, there = day.models[name], whole.models[name]
        settings = [model.settings.model_dump(mode="json") for model in (here, there)]
        changed = {key[1:] for key in differing(*settings)}
        assert all(re.fullmatch(SIZES, key) for key in changed), (name, changed)
        parents = [dict(model.parents) for model in (here, there)]
        assert parents[0] == parents[1] and here.recipe.cohort == there.recipe.cohort
    for task in day.tasks.available:
        settings = [run.tasks[task].settings.model_dump(mode="json") for run in runs]
        assert differing(*settings) <= {".dilate"}, task


def test_the_page_has_the_estimators_hours(runs):
    page = (ROOT / "docs/public_data.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)` \| ([\d,]+) x ([\d,]+) \| ([\d.]+) \|", page, re.MULTILINE)
    day, sums = FullScale(runs[0]), dict.fromkeys(PAPERS, 0.0)
    assert sorted(name for name, *_ in rows) == sorted(trained(runs[0]))
    for name, length, batch, hours in rows:
        counted = day.hours_of("biovil/biovil" if name == "biovil/report_labels" else name)[0]
        training = day.models[name].settings.training
        assert f"{training.steps:,} {training.batch_size:,}" == f"{length} {batch}", name
        assert hours == f"{counted:.1f}", name
        sums[name.split("/")[0]] += counted
    total = page.split("By paper: ")[1].split(" hours")[0]
    assert re.findall(r"\d+\.\d", total) == [
        f"{h:.1f}" for h in (*sums.values(), sum(sums.values()))
    ]
