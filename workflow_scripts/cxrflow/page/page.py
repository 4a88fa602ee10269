"""The report page: ``<results>/report/index.html``, one file that needs nothing but a browser.

What was run on which data, where every study went, what training looked like, the papers' tables,
grounding examples, and how to go on. What is missing is said; a damaged or stale input stops the
program with its name. The page forbids itself (by a content security policy) to load anything.
"""

import logging
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import yaml

from cxrflow.errors import InputError
from cxrflow.page import cohorts, examples, labels, tables, text, training
from cxrflow.page.figures import paper_figures, picture_bytes
from cxrflow.page.inputs import RunFolder
from cxrflow.page.next_steps import next_steps
from cxrflow.page.overview import overview, shown_model

log = logging.getLogger("cxrflow")

LARGEST = 6_000_000  # bytes


def count_text(value: float | None) -> str:
    """A whole number with separators."""
    return "–" if value is None else f"{round(value):,}"


def number_text(value: float | None, digits: int = 3) -> str:
    """A measured number with a true minus sign."""
    return "–" if value is None else f"{value:,.{digits}g}".replace("-", "−")


def share_text(value: float | None) -> str:
    """A share in per cent."""
    if value is None:
        return "–"
    return f"{100 * value:.1f} %" if 0 < value < 0.1 else f"{100 * value:.0f} %"


def time_text(seconds: float | None) -> str:
    """A duration in the unit that fits it."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def yaml_text(value: Any) -> str:
    """Settings as YAML, short lists on one line."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None)


def without_folders(value: Any) -> Any:
    """A configuration whose absolute paths are cut to their last part: pages are passed on."""
    if isinstance(value, dict):
        return {key: without_folders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_folders(item) for item in value]
    if isinstance(value, str) and Path(value).is_absolute():
        return f"…/{Path(value).name}"
    return value


def gather(run: RunFolder) -> dict[str, Any]:
    """Everything the templates show."""
    config = run.config
    flows = {name: run.flow(name) for name in config.cohorts_in_use()}
    trainings = {}
    for name in run.models:
        seeds = {seed: run.training(name, seed) for seed in config.seeds_of(name)}
        trainings[name] = {seed: found for seed, found in seeds.items() if found is not None}
    # A control is part of the page once somebody has trained it.
    models = [name for name in run.models if trainings[name] or not config.recipes[name].control]
    leading = shown_model(run)
    joint = [name for name in models if config.recipes[name].program == "joint"]
    joint.sort(key=lambda name: name != leading)
    figures = paper_figures(run)
    drawn = picture_bytes(figures)
    return {
        "top": overview(run, flows, trainings),
        "cohorts": [cohorts.cohort(run, name, flow) for name, flow in flows.items()],
        "corpora": [text.corpus(run, name) for name in run.corpus_names()],
        "vocabularies": [text.vocabulary(run, name) for name in config.vocabularies_in_use()],
        "spellings": text.spellings(run),
        "agreements": [
            labels.agreement(run, given.dataset, given.reference)
            for given in config.label_comparisons()
        ],
        "lineage": training.lineage(run, models),
        "runs": training.run_rows(trainings),
        "models": [training.model(run, name, trainings[name]) for name in models],
        "untrainable": [name for name in config.recipes if not config.trainable(name)],
        "papers": tables.paper_tables(run),
        "figures": figures,
        "roles": config.roles,
        "findings": examples.by_finding(run, joint),
        "examples": examples.grounding_examples(run, joint[:1], drawn),
        "roc": examples.roc_curves(run, joint),
        "uncharted": len(joint) > examples.CHARTED,
        "next": next_steps(run, leading),
        "privacy": run.privacy,
        "configuration": without_folders(config.model_dump(mode="json", exclude={"models"})),
    }


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("cxrflow.page", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= {
        "count": count_text,
        "number": number_text,
        "share": share_text,
        "duration": time_text,
        "yaml": yaml_text,
    }
    return made


def build_page(config: Path, results: Path) -> str:
    """The page as text.

    Raises:
        InputError: naming the input that is damaged, stale, or makes the page too large.
    """
    run = RunFolder.read(config, results)
    html = _environment().get_template("page.html.jinja").render(**gather(run))
    if len(html.encode()) > LARGEST:
        raise InputError(
            f"{results}: the page would be {len(html.encode()):,} bytes, more than {LARGEST:,}; "
            "set benchmarks.phrase_grounding.figures lower"
        )
    return html
