"""Figures of the papers: which a run draws, and how the page shows or hides them."""

import io
import textwrap
from pathlib import Path

import numpy as np
import pytest
from cxrflow.config.models import overlay
from PIL import Image

from cxrflow.config import load_config
from cxrflow.config.loading import make_config
from cxrflow.config.schema import Config
from cxrflow.errors import InputError
from cxrflow.files import write_json
from cxrflow.page.figures import paper_figures, picture_bytes
from cxrflow.page.inputs import RunFolder
from cxrflow.papers import load_paper

DEMO = Path(__file__).parents[2] / "config.yaml"


def changed(**changes: object) -> Config:
    base = load_config([DEMO], check_roots=False).model_dump(mode="json")
    return make_config(overlay(base, changes), [DEMO], check_roots=False)


def test_the_demo_draws_the_figures_of_models_it_can_train():
    config = changed()
    figures = config.figures("biovil")
    assert list(figures) == ["figure3", "figure_a1", "figure_a2"]
    for figure in figures.values():
        assert figure.by in config.figure_models(figure)
    assert len(config.figure_models(figures["figure_a1"])) >= 2


def test_no_pictures_no_figures():
    """The switch that privacy guards is that of the figures too."""
    assert changed(benchmarks={"phrase_grounding": {"figures": 0}}).figures("biovil") == {}
    assert changed(roles={"grounding": None}).figures("biovil") == {}
    assert changed(roles={"pairs": None}).figures("biovil") == {}


def test_the_columns_are_the_papers():
    """Appendix A.2: from left ClinicalBERT baseline, ConVIRT, GLoRIA, BioViL."""
    for name in ("figure_a1", "figure_a2"):
        labels = [column.label for column in load_paper("biovil").figures[name].columns]
        places = [labels.index(n) for n in ("ClinicalBERT baseline", "ConVIRT", "GLoRIA", "BioViL")]
        assert places == sorted(places)


def test_an_unknown_model_is_named(monkeypatch):
    paper = load_paper("biovil")
    figure = paper.figures["figure3"]
    column = figure.columns[0].model_copy(update={"model": "nobody"})
    odd = paper.model_copy(
        update={"figures": {"figure3": figure.model_copy(update={"columns": [column]})}}
    )
    monkeypatch.setattr("cxrflow.config.schema.load_paper", lambda name: odd)
    with pytest.raises(InputError, match="figure figure3: 'nobody' is not known"):
        changed()


def folder(root: Path, config: Config, phrases: bool, synthetic: bool) -> RunFolder:
    """A run of which only Figure 3 has been drawn."""
    write_json(root / "report/config.json", config.described() | {"configfiles": ["config.yaml"]})
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(buffer, "PNG")
    (root / "figures/biovil").mkdir(parents=True, exist_ok=True)
    (root / "figures/biovil/figure3.png").write_bytes(buffer.getvalue())
    write_json(
        root / "figures/biovil/figure3.json",
        {
            "data": {"synthetic": synthetic},
            "shows": ["radiographs", "phrases"] if phrases else ["radiographs"],
            "caption": "Shown: the best.",
            "lines": ["Edema: BioViL +1.50"],
        },
    )
    return RunFolder.read(root / "report/config.json", root)


def test_the_page_shows_what_was_drawn_and_says_what_was_not(tmp_path):
    ((paper,),) = [paper_figures(folder(tmp_path, changed(), True, True))]
    first, second, third = paper["figures"]
    assert first["uri"].startswith("data:image/png;base64,") and first["short"] == "Figure 3"
    assert (first["caption"], first["lines"]) == ("Shown: the best.", ["Edema: BioViL +1.50"])
    assert picture_bytes([paper]) == (tmp_path / "figures/biovil/figure3.png").stat().st_size
    for other in (second, third):
        assert other["uri"] is None and "has not been drawn" in other["why"]


@pytest.mark.parametrize(
    ("privacy", "phrases", "synthetic", "shown"),
    [
        ({}, True, True, True),
        ({}, False, False, False),
        ({"show_images": True}, False, False, True),
        ({"show_images": True}, True, False, False),
        ({"show_images": True, "show_text": True}, True, False, True),
        ({"show_images": False}, False, True, False),
        ({"show_text": False}, True, True, False),
    ],
)
def test_radiographs_and_phrases_only_where_privacy_allows(
    tmp_path, privacy, phrases, synthetic, shown
):
    (paper,) = paper_figures(folder(tmp_path, changed(privacy=privacy), phrases, synthetic))
    assert (paper["figures"][0]["uri"] is not None) == shown
    assert shown or "Not shown" in paper["figures"][0]["why"]


def test_a_damaged_figure_is_named(tmp_path):
    run = folder(tmp_path, changed(), True, True)
    path = tmp_path / "figures/biovil/figure3.json"
    path.write_text("{}")
    with pytest.raises(InputError, match=r"figure3\.json: field 'data' is missing"):
        paper_figures(run)


def test_the_preset_of_public_code_is_a_configuration(tmp_path):
    page = (DEMO.parent / "docs/protocols.md").read_text(encoding="utf-8")
    block = page.partition("As public inference code does it")[2].partition("    pixels:")[2]
    text = "    pixels:" + block.partition("\n\n")[0]
    preset = tmp_path / "preset.yaml"
    preset.write_text(textwrap.dedent(text), encoding="utf-8")
    config = load_config([DEMO, preset])
    assert config.pixels.geometry == "shorter512crop480"
    found = config.benchmarks.phrase_grounding
    assert (found.smoothing_sigma, found.rescale, found.strip_punctuation) == (1.5, "none", True)
