"""Figures of the papers: which a run draws, and how the page shows or hides them."""

import io
from pathlib import Path

import numpy as np
import pytest
from page_fixtures import ROOT, load
from PIL import Image

from cxrflow.config import load_config
from cxrflow.config.configuration import Config
from cxrflow.errors import InputError
from cxrflow.files.atomic import write_json
from cxrflow.page.album import Album
from cxrflow.page.figures import paper_figures
from cxrflow.page.inputs import RunFolder
from cxrflow.papers import load_paper

GROUNDED = ["figure3", "figure_a1", "figure_a2"]


def test_the_demo_draws_the_figures_of_models_it_can_train():
    config = load()
    assert list(config.figures("biovil")) == [*GROUNDED, "figure_c1", "labels"]
    assert list(config.figures("biovil", "headline")) == ["figure3", "labels"]
    task = "biovil/phrase_grounding"
    assert config.figure_results("biovil", "figure3") == [(task, "biovil/biovil")]
    shown = config.figure_results("biovil", "figure_a1")
    assert len(shown) == 4 and {name for name, _ in shown} == {task}
    drawn = {model for _, model in config.figure_results("biovil", "labels")}
    assert drawn == {"biovil/biovil", "biovil/simclr"}


def test_no_pictures_no_figures():
    """The switch that privacy guards is that of the figures too."""
    none = {"tasks": {"biovil/phrase_grounding": {"figures": 0}}}
    assert list(load(**none).figures("biovil")) == ["figure_c1", "labels"]
    assert list(load(datasets={"ms_cxr": None}).figures("biovil")) == ["labels"]
    nothing = dict.fromkeys(("mimic_cxr_jpg", "rsna", "ms_cxr"))
    assert load(datasets=nothing).figures("biovil") == {}


def test_the_columns_are_the_papers():
    """Appendix A.2: from left ClinicalBERT baseline, ConVIRT, GLoRIA, BioViL."""
    for name in ("figure_a1", "figure_a2"):
        labels = [column.label for column in load_paper("biovil").figures[name].columns]
        places = [labels.index(n) for n in ("ClinicalBERT baseline", "ConVIRT", "GLoRIA", "BioViL")]
        assert places == sorted(places)


def test_an_unknown_model_is_named(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "figures: {f: {kind: grounding, title: F, task: biovil/phrase_grounding, by: nobody,\n"
        "  rank: best, each_finding: true, count: 1, columns: [{label: N, model: nobody}]}}\n"
    )
    with pytest.raises(InputError, match="mine/nobody"):
        load(papers=[str(mine)])


LINE = "Edema: BioViL +1.50"


def folder(root: Path, config: Config, phrases: bool, synthetic: bool) -> RunFolder:
    """A run of which only Figure 3 has been drawn."""
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(buffer, "PNG")
    (root / "figures/biovil").mkdir(parents=True, exist_ok=True)
    (root / "figures/biovil/figure3.png").write_bytes(buffer.getvalue())
    content = {"data": {"synthetic": synthetic}, "caption": "Shown: the best."}
    content |= {"shows": ["radiographs", *["phrases"] * phrases], "lines": [LINE]}
    write_json(root / "figures/biovil/figure3.json", content)
    return RunFolder(config, {}, root, {"biovil": "all"})


def test_the_page_shows_what_was_drawn_and_says_what_was_not(tmp_path):
    first, *others = paper_figures(folder(tmp_path, load(), True, True), "biovil", Album())
    assert first["uri"].startswith("data:image/webp;base64,") and first["short"] == "Figure 3"
    assert (first["caption"], first["lines"]) == ("Shown: the best.", [LINE])
    assert len(others) == 4
    for other in others:
        assert other["uri"] is None and "has not been drawn" in other["why"]


def test_the_page_shows_the_picture_of_a_task_of_the_data(tmp_path):
    """Figure C.1, which counts boxes and shows nobody: privacy does not hide it."""
    run = folder(tmp_path, load(privacy={"show_images": False}), True, False)
    task = tmp_path / "benchmarks/biovil/ms_cxr_statistics"
    (task / "figures").mkdir(parents=True)
    picture = (tmp_path / "figures/biovil/figure3.png").read_bytes()
    (task / "figures/box_positions.png").write_bytes(picture)
    counted = {"title": "Boxes", "caption": "How often.", "category": "", "cnr": None}
    write_json(task / "figures/examples.json", [{"file": "box_positions.png", **counted}])
    data = {"name": "ms_cxr", "synthetic": False}
    record = {"task": "biovil/ms_cxr_statistics", "benchmark": "ms_cxr_statistics", "seed": 0}
    record |= {"model": None, "learnt": None, "data": data, "protocol": {}, "metrics": {}}
    write_json(task / "metrics.json", record)
    [shown] = [one for one in paper_figures(run, "biovil", Album()) if one["short"] == "Figure C.1"]
    assert shown["uri"].startswith("data:image/webp;base64,") and shown["caption"] == "How often."
    assert shown["synthetic"] is False


@pytest.mark.parametrize(
    ("privacy", "phrases", "synthetic", "shown"),
    [
        ({}, True, True, True),
        ({}, False, False, False),
        ({"show_images": True}, False, False, True),
        ({"show_images": True}, True, False, False),
        ({"show_images": True, "show_text": True}, True, False, True),
        ({"show_text": False}, True, True, False),
    ],
)
def test_radiographs_and_phrases_only_where_privacy_allows(
    tmp_path, privacy, phrases, synthetic, shown
):
    run = folder(tmp_path, load(privacy=privacy), phrases, synthetic)
    first, *_ = paper_figures(run, "biovil", Album())
    assert (first["uri"] is not None) == shown
    assert shown or "Not shown" in first["why"]


@pytest.mark.parametrize("images", ["auto", True, False])
def test_a_picture_of_patients_is_drawn_and_shown_as_privacy_says(tmp_path, images):
    """Figure 3 of BioViL-T, which its task draws; Figure 4 shows nobody."""
    config = load(papers=["biovil_t"], privacy={"show_images": images})
    task, model = "biovil_t/attention_rollout", "biovil_t/biovil_t"
    assert config.task(task).settings.figures == (6 if images else 0)
    shown = config.figures("biovil_t")
    assert ("figure3" in shown) == bool(images) and "figure4" in shown
    if not images:
        return
    run = RunFolder(config, {}, tmp_path, {"biovil_t": "all"})
    place = run.score_folder(task, model, 0)
    (place / "figures").mkdir(parents=True)
    Image.new("P", (4, 4)).save(place / "figures/rollout.png")
    drawn = {"file": "rollout.png", "title": "", "caption": "Medians.", "category": "", "cnr": None}
    write_json(place / "figures/examples.json", [drawn])
    of_data = {"data": {"name": "ms_cxr", "synthetic": False}, "protocol": {}, "metrics": {}}
    said = {"task": task, "benchmark": "attention_rollout", "model": model, "seed": 0}
    write_json(place / "metrics.json", {**said, "learnt": True, **of_data})
    figures = {one["id"]: one for one in paper_figures(run, "biovil_t", Album())}
    rollout = figures["biovil_t-figure3"]
    assert (rollout["uri"] is not None) == (images is True)
    assert images is True or "privacy.show_images" in rollout["why"]
    assert "has not been drawn" in figures["biovil_t-figure4"]["why"]


def test_what_the_page_has_no_room_for_is_said_to_lie_in_the_results(tmp_path):
    album = Album(room=30)
    first, *_ = paper_figures(folder(tmp_path, load(), True, True), "biovil", album)
    assert first["uri"] is None and "figures/biovil/figure3.png" in first["why"]
    assert album.room == 30


def test_a_damaged_figure_is_named(tmp_path):
    run = folder(tmp_path, load(), True, True)
    path = tmp_path / "figures/biovil/figure3.json"
    path.write_text("{}")
    with pytest.raises(InputError, match=r"figure3\.json: field 'data' is missing"):
        paper_figures(run, "biovil", Album())


def test_public_codes_protocol_is_a_task_of_its_own():
    task = load_config([ROOT / "config.yaml"]).task("biovil/phrase_grounding_released").settings
    assert (task.smoothing_sigma, task.rescale, task.strip_punctuation) == (1.5, "none", True)
