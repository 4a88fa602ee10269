"""The demo's configuration, and what tests lay over it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "config.yaml"
BIOVIL = {"papers": ["biovil"]}  # one paper alone
OPEN_I = {"layout": "open_i", "root": "/data/open_i"}
ALONE = {  # a hospital of one's own, and nothing else
    "datasets": {"mine": {"layout": "mimic_cxr", "root": "/mine", "in_place_of": "mimic_cxr"}}
}
COMPARISONS = "label_agreement.comparisons"


def nested(path, value):
    """An overlay of one value, at the place that dots name."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def table_of(task, metric, *models, **more):
    """A table of one metric, a row a model, as a paper's YAML has it; ``more`` over it."""
    column = {"key": "a", "label": "A", "metric": metric}
    rows = [{"label": name, "model": name} for name in models]
    table = {"title": "T", "source": "ours", "task": task, "columns": [column], "rows": rows}
    return table | more


def compared(*comparisons):
    """An overlay that compares report labels with these."""
    return {"label_agreement": {"comparisons": list(comparisons)}}


def real(*names):
    """These data sets as published, in folders that need not be there."""
    return {name: {"root": f"/data/{name}"} for name in names}
