"""Figures of the papers and how the page shows or hides them; charts, and what they count."""

import io
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from page_fixtures import ROOT, load
from PIL import Image
from table_fixtures import write_result

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.config import load_config
from cxrflow.config.configuration import Config
from cxrflow.papers import load_paper
from cxrflow.show.page.album import Album
from cxrflow.show.page.cohorts import lanes, sums_check
from cxrflow.show.page.figures import paper_figures
from cxrflow.show.page.inputs import RunFolder, Training
from cxrflow.show.page.svg import ChartLine, line_chart, ticks
from cxrflow.show.page.training import POINTS, curve, outline, resting, speed, term_names, thinned

GROUNDED = ["figure3", "figure_a1", "figure_a2"]


def test_the_demo_draws_the_figures_of_models_it_can_train():
    config = load()
    assert list(config.results["biovil"].figures()) == [*GROUNDED, "figure_c1", "labels"]
    assert list(config.results["biovil"].figures("headline")) == ["figure3", "labels"]
    task = "biovil/phrase_grounding"
    assert config.results["biovil"].shown_in("figure3") == [(task, "biovil/biovil")]
    shown = config.results["biovil"].shown_in("figure_a1")
    assert len(shown) == 4 and {name for name, _ in shown} == {task}
    drawn = {model for _, model in config.results["biovil"].shown_in("labels")}
    assert drawn == {"biovil/biovil", "biovil/simclr"}


def test_no_pictures_no_figures():
    """The switch that privacy guards is that of the figures too."""
    none = {"tasks": {"biovil/phrase_grounding": {"figures": 0}}}
    assert list(load(**none).results["biovil"].figures()) == ["figure_c1", "labels"]
    assert list(load(datasets={"ms_cxr": None}).results["biovil"].figures()) == ["labels"]
    nothing = dict.fromkeys(("mimic_cxr_jpg", "rsna", "ms_cxr"))
    assert load(datasets=nothing).results["biovil"].figures() == {}


def test_the_columns_are_the_papers():
    """Appendix A.2: from left ClinicalBERT baseline, ConVIRT, GLoRIA, BioViL."""
    for name in ("figure_a1", "figure_a2"):
        labels = [column.label for column in load_paper("biovil").figures[name].columns]
        places = [labels.index(n) for n in ("ClinicalBERT baseline", "ConVIRT", "GLoRIA", "BioViL")]
        assert places == sorted(places)


def test_an_unknown_model_is_named(paper):
    figure = {
        **{"kind": "grounding", "title": "F", "task": "biovil/phrase_grounding", "by": "nobody"},
        **{"rank": "best", "each_finding": True, "count": 1},
        "columns": [{"label": "N", "model": "nobody"}],
    }
    with pytest.raises(InputError, match="mine/nobody"):
        load(papers=[paper({"figures": {"f": figure}})])


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


def write_examples(figures: Path, **entry: str) -> None:
    """A task's list of the one picture that it has drawn."""
    write_json(figures / "examples.json", [{"title": "", "category": "", "cnr": None, **entry}])


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
    write_examples(task / "figures", file="box_positions.png", caption="How often.")
    named = ("biovil/ms_cxr_statistics", "ms_cxr_statistics", 0, {})
    write_result(task / "metrics.json", *named, learnt=None, synthetic=False)
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
    assert config.tasks[task].settings.figures == (6 if images else 0)
    shown = config.results["biovil_t"].figures()
    assert ("figure3" in shown) == bool(images) and "figure4" in shown
    if not images:
        return
    run = RunFolder(config, {}, tmp_path, {"biovil_t": "all"})
    place = run.score_folder(task, model, 0)
    (place / "figures").mkdir(parents=True)
    Image.new("P", (4, 4)).save(place / "figures/rollout.png")
    write_examples(place / "figures", file="rollout.png", caption="Medians.")
    write_result(place / "metrics.json", task, model, 0, {}, synthetic=False)
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


def test_what_is_no_picture_for_a_page_is_one_line(tmp_path):
    Image.new("1", (20_000, 20_000)).save(tmp_path / "large.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "large.png").read_bytes()[:60])
    os.mkfifo(tmp_path / "pipe.png")
    for name, said in (
        ("large.png", "image size.* is not plausible"),
        *(("cut.png", "not a whole PNG"), ("pipe.png", "not a regular file")),
        ("none.png", "examples.json lists it"),
    ):
        with pytest.raises(InputError, match=said):
            Album().uri(tmp_path / name)


def test_a_damaged_figure_is_named(tmp_path):
    run = folder(tmp_path, load(), True, True)
    path = tmp_path / "figures/biovil/figure3.json"
    path.write_text("{}")
    with pytest.raises(InputError, match=r"figure3\.json: field 'data' is missing"):
        paper_figures(run, "biovil", Album())


def test_public_codes_protocol_is_a_task_of_its_own():
    task = load_config([ROOT / "config.yaml"]).tasks["biovil/phrase_grounding_released"].settings
    assert (task.smoothing_sigma, task.rescale, task.strip_punctuation) == (1.5, "none", True)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.25, 0.5, 0.75, 1]),
        (0, 600, [0, 200, 400, 600]),
        (-1.2, 1.2, [-1, 0, 1]),
        (3, 3, [3]),
    ],
)
def test_ticks_are_round_and_inside(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


def test_a_line_chart_places_the_ends_of_a_line_at_the_ends_of_its_axes():
    chart = line_chart([ChartLine("a", "train", [0, 10], [0, 1])], "said", "step", y_range=(0, 1))
    root = ElementTree.fromstring(str(chart))
    assert root.get("aria-label") == "said"
    line = next(one for one in root if one.get("class") == "line train")
    start, end = re.findall(r"([\d.]+),([\d.]+)", line.get("d"))
    axis = next(one for one in root if one.get("class") == "axis").get("d")
    left, bottom, right = map(float, re.match(r"M(\S+) (\S+)H(\S+)", axis).groups())
    assert (float(start[0]), float(start[1])) == pytest.approx((left, bottom))
    assert float(end[0]) == pytest.approx(right)
    assert float(end[1]) < bottom


def test_charts_escape_names():
    bad = '<script>"'
    chart = line_chart([ChartLine(bad, "train", [1], [1])], bad, bad)
    ElementTree.fromstring(str(chart))
    assert "<script" not in chart


def test_constant_values_and_a_single_point_can_be_drawn():
    ElementTree.fromstring(str(line_chart([ChartLine("a", "train", [5], [2.0])], "x", "step")))
    flat = line_chart([ChartLine("a", "train", [1, 2], [0.0, 0.0])], "x", "step")
    assert "nan" not in flat


def test_thinning_keeps_the_mean_and_the_last_step():
    xs = list(range(1, 1001))
    ys = [float(x % 7) for x in xs]
    thin_x, thin_y = thinned(xs, ys)
    assert len(thin_x) <= POINTS
    assert thin_x[-1] == 1000
    group = -(-len(xs) // POINTS)
    assert thin_y[0] == pytest.approx(sum(ys[:group]) / group)
    assert thinned([1, 2], [3.0, 4.0]) == ([1, 2], [3.0, 4.0])


def test_a_single_term_that_is_the_objective_is_shown_once():
    assert term_names([[{"step": 1, "split": "train", "mlm": 2.0, "loss": 2.0}]]) == ["mlm"]
    weighted = [[{"step": 1, "split": "train", "mlm": 2.0, "loss": 1.0}]]
    assert term_names(weighted) == ["loss", "mlm"]
    counted = [[{"mlm": 2.0, "cutmix": 1.0, "cutmix/mixed": 0.2, "loss": 3.0}]]
    assert term_names(counted) == ["loss", "mlm", "cutmix"]


def test_a_term_that_never_computed_anything_is_named():
    counts = {"cutmix/pairs/Edema": 0.5, "cutmix/pairs/Fracture": 0.0, "cutmix/skipped/warm_up": 0}
    log = [{"step": step, "split": "train", "mlm": 2.0, "cutmix": 0.0} | counts for step in (1, 2)]
    log.append({"step": 2, "split": "validate", "mlm": 0.0, "cutmix": 0.0})
    assert resting({0: Training({}, log)}) == ["seed 0: MedCutMix was 0 at every step"]
    log[1]["cutmix"] = 0.1
    assert resting({0: Training({}, log)}) == ["seed 0: no pair of Fracture"]
    log[0]["cutmix/pairs/Fracture"] = 0.5
    assert resting({0: Training({}, log)}) == resting({}) == []


def test_kept_weights_that_a_term_never_trained_are_named():
    """The best score may lie in MedCutMix's warm-up: the model is then its base model's."""
    log = [
        {"step": step, "split": split, "epoch": step / 10, "loss": 1.0, "cutmix": float(step > 20)}
        for step in (10, 20, 30)
        for split in ("train", "validate")
    ]
    terms = {"global_alignment": {"weight": 1.0}, "mlm": None, "cutmix": {"warmup_epochs": 2}}
    run = {"settings": {"terms": terms}, "kept_step": 20}
    (said,) = resting({3: Training(run, log)})
    assert said == (
        "seed 3: the weights that were kept are of epoch 2, and MedCutMix begins after epoch 2: "
        "they are those of a training without it"
    )
    assert resting({3: Training({**run, "kept_step": 30}, log)}) == []


def test_no_curve_without_values():
    assert curve({}, "loss") is None


def test_a_loss_that_is_not_finite_has_no_place_in_the_curve():
    log = [{"step": 1, "split": "train", "loss": 3.0}, {"step": 2, "split": "train", "loss": 2.0}]
    validated = enumerate((2.5, float("nan"), float("inf")), start=1)
    log += [{"step": step, "split": "validate", "loss": loss} for step, loss in validated]
    found = curve({0: Training({}, log)}, "loss")
    assert found is not None and "nan" not in str(found["chart"])
    assert found["rows"][0]["validate"] == 2.5


def test_the_best_of_a_watched_score_is_the_highest():
    log = [
        {"step": step, "split": "validate", "loss": 2.0, "selection/auroc": score}
        for step, score in enumerate((0.5, 0.8, 0.7), start=1)
    ]
    stopping = {"monitor": "selection/auroc", "mode": "max"}
    watched = Training({"settings": {"training": {"stopping": stopping}}}, log)
    for training, best in ((watched, 0.8), (Training({}, log), 0.5)):
        found = curve({0: training}, "selection/auroc")
        assert found is not None and found["rows"][0]["best"] == best


RATES = {"samples_per_second": 4321.4, "tokens_per_second": 0.0}


def test_speed_in_the_words_of_the_page():
    found = speed({**RATES, "flops_per_second": 2.5e8, "mfu": None, "data_wait_share": 0.02})
    assert (found["samples_rate"], found["tokens_rate"]) == ("4,321", "–")
    assert (found["gigaflops_rate"], found["mfu"], found["data_wait_share"]) == ("0.25", None, 0.02)


def test_what_a_run_did_not_record_is_none():
    found = speed(RATES)
    assert [found[name] for name in ("mfu", "data_wait_share", "precision")] == [None] * 3
    assert found["gigaflops_rate"] == "–"


def test_a_model_stands_below_and_to_the_right_of_what_it_started_from():
    parents = {
        "joint": ("bert", "simclr"),
        "phase2": (),
        "simclr": (),
        "bert": ("phase2",),
        "baseline": ("phase2", "simclr", "another paper's"),
    }
    assert list(outline(parents).items()) == [
        ("phase2", 0), ("bert", 1), ("joint", 2), ("baseline", 1), ("simclr", 0),
    ]  # fmt: skip


def test_lanes_follow_each_unit_through_its_own_filters():
    steps = [
        {"name": "listed", "unit": "images", "kept": 10, "dropped": [{"reason": "a", "count": 2}]},
        {"name": "studies", "unit": "studies", "kept": 6, "dropped": []},
        {"name": "frontal", "unit": "images", "kept": 5, "dropped": [{"reason": "b", "count": 4}]},
    ]
    images, studies = lanes(steps)
    assert [step["name"] for step in images["steps"]] == ["listed", "frontal"]
    assert images["steps"][0]["came"] == 12
    assert images["steps"][1]["came"] == 10
    assert images["steps"][1]["silent"] == 1  # neither kept nor dropped: shown as such
    assert images["steps"][1]["share"] == pytest.approx(5 / 12)
    assert studies["unit"] == "studies"
    assert sums_check([images, studies])["passed"]


def test_a_step_that_lets_out_more_than_came_in_fails_the_check():
    steps = [
        {"name": "listed", "unit": "images", "kept": 3, "dropped": []},
        {"name": "joined", "unit": "images", "kept": 4, "dropped": [{"reason": "a", "count": 1}]},
    ]
    check = sums_check(lanes(steps))
    assert not check["passed"]
    assert check["detail"] == "'joined' keeps 4 and drops 1 of 3 images"
