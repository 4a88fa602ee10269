"""What descends from a stand-in says so, in all tables, figures and claims of the five papers."""

import re
from functools import cache
from itertools import cycle, pairwise

import pytest
from page_fixtures import load

from cxrflow.papers.figures import BarsFigure, CurveFigure
from cxrflow.papers.table import Address
from cxrflow.show.figures.bars import read_bars
from cxrflow.show.figures.curve import read_series
from cxrflow.show.tables import tests as paired
from cxrflow.show.tables.cells import make_cells
from cxrflow.show.tables.orderings import compare
from cxrflow.show.tables.rendering import table_markdown
from cxrflow.show.tables.results import Results
from cxrflow.show.tables.verdicts import NOT_COMPARABLE, NOT_RUN

PAPERS = ["biovil", "biovil_t", "convirt", "low_data", "medcutmix"]
# Trained here where `weights:` names nothing; the papers did not train them.
STAND_INS = {
    "biovil/clinical_bert", "biovil/pubmed_bert", "convirt/imagenet_pretraining",
    "low_data/bert_base", "low_data/clip_pretraining", "medcutmix/vit_pretraining",
}  # fmt: skip
WORD = "stand-in"
EMPTY = Results({}, {})


class Anything(dict):
    """Metrics of any name."""

    def __contains__(self, name):
        return True

    def __getitem__(self, name):
        return {"value": 0.5, "low": 0.4, "high": 0.6}

    def get(self, name, default=None):
        return self[name]


class Everything(Results):
    """Three trainings of whatever is asked for."""

    def of(self, result):
        run = {"learnt": True, "data": {"name": "d"}, "protocol": {}, "metrics": Anything()}
        return [run | {"seed": seed} for seed in range(3)] if result and result[1] else []


@pytest.fixture(scope="module", params=["demo", "paper"])
def config(request):
    return load(papers=PAPERS, scale=request.param)


@pytest.fixture
def descends(config):
    """True of a model of the run that is a stand-in, or goes back to one by its recipe."""
    models, scale = config.library.models, config.values.scale

    @cache
    def goes_back(name):
        return name in STAND_INS or any(map(goes_back, models[name].at(scale).parents.values()))

    # Others are reference rows, rows from elsewhere, shares that the scale leaves out.
    return lambda name: name in models and config.models[name].trainable and goes_back(name)


def of_row(table, row):
    return {table.model_of(row, column) for column in table.columns if column.key not in row.blank}


def test_rows(config, descends):
    marked = 0
    for paper in PAPERS:
        tables = config.results[paper].paper.tables.items()
        for name, table in tables:
            text = table_markdown(table, make_cells(table, EMPTY), EMPTY)
            body, _, notes = text.rpartition("\n\n- ")
            for row, source in zip(
                table.rows, config.library.chosen[paper].tables[name].rows, strict=True
            ):
                models = of_row(table, row)
                # A row of words alone has the vocabulary of the model of its name.
                models |= {f"{paper}/{row.vocabulary}"} if row.model is None else set()
                has_word = f"| {source.label} ({WORD}" in body.replace("\\|", "|")
                assert has_word == any(map(descends, models)), (paper, name, source.label)
                marked += has_word
            assert (WORD in body) == ("Stand-ins: " in text), (paper, name)
    assert marked > 100


def test_figures(config, descends):
    for paper in PAPERS:
        content = config.results[paper].paper
        for name, figure in content.figures.items():
            shown = {}  # whether what is behind a label descends from a stand-in
            if isinstance(figure, CurveFigure):
                for line, series in zip(
                    figure.series, read_series(content, figure, EMPTY, paired.Tests()), strict=True
                ):
                    spots = map(content.spot, figure.cells(line))
                    models = [spot.table.model_of(spot.row, spot.column) for spot in spots]
                    shown[series["label"]] = any(map(descends, models))
            elif isinstance(figure, BarsFigure):
                bars = read_bars(content, figure, EMPTY, paired.Tests())
                for bar, row in zip(bars, cycle(figure.rows), strict=False):
                    spot = content.spot(Address(figure.table, row, bar["column"]))
                    shown[bar["row"]] = any(map(descends, of_row(spot.table, spot.row)))
            elif hasattr(figure, "columns"):
                shown = {column.label: descends(column.model) for column in figure.columns}
            else:
                shown[figure.title] = descends(getattr(figure, "model", None))
            for label, expected in shown.items():
                assert (WORD in label) == expected, (paper, name, label)


def test_claims(config, descends):
    """None that names such a row is judged; any other is, all having equal scores."""
    refused = 0
    for paper in PAPERS:
        content = config.results[paper].paper
        claimed = [pair for claim in content.orderings for pair in pairwise(claim.places())]
        for places, pair in zip(
            claimed, compare(content, Everything({}, {}), paired.Tests()), strict=True
        ):
            spots = [content.spot(place) for place in places if isinstance(place, Address)]
            expected = any(descends(spot.table.model_of(spot.row, spot.column)) for spot in spots)
            verdict, why = pair.record.judged
            refusal = verdict == NOT_COMPARABLE and why.startswith(f"{WORD} for ")
            assert refusal == expected or verdict == NOT_RUN, (paper, pair.claim.claim)
            refused += refusal
    assert refused > 50


def test_published_weights_are_none():
    """Whatever is made from them; the word goes with the last stand-in."""
    weights = {"convirt/imagenet_pretraining": "/weights"}
    models = load(papers=["convirt"], weights=weights).models
    assert models["convirt/imagenet"].stand_ins == "" and "convirt/imagenet" not in models.stand_ins
    assert models["convirt/convirt"].stand_ins == "ClinicalBERT"
    models = load(papers=["convirt"], weights=weights | {"biovil/clinical_bert": "/weights"}).models
    assert models["convirt/convirt"].stand_ins == "" and not re.search(
        "convirt", str(models.stand_ins)
    )
