"""The report page: ``<results>/report/index.html``, one file that needs nothing but a browser.

It shows the data, the flow of studies through every cohort, the trainings, the papers' tables and
figures, and next steps. It names what is missing; a damaged or stale input stops the program. Its
content security policy forbids the page to load anything (docs/page.md).
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import yaml

from cxr_files.errors import InputError
from cxrflow.names import anchor, paper_of, short_name
from cxrflow.show.page import cohorts, examples, figures, labels, paper_tables, text, training
from cxrflow.show.page.album import ROOM, Album
from cxrflow.show.page.inputs import RunFolder, Training
from cxrflow.show.page.next_steps import next_steps, same_overlays
from cxrflow.show.page.overview import leading_cards, overview, paper_name
from cxrflow.show.tables.text import coded

LARGEST = 3_000_000  # bytes


def count_text(value: float | None) -> str:
    """A whole number with separators."""
    return "–" if value is None else f"{round(value):,}"


def number_text(value: float | None) -> str:
    """A measured number in three digits, with a true minus sign."""
    return "–" if value is None else f"{value:,.3g}".replace("-", "−")


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


def gather(run: RunFolder, album: Album) -> dict[str, Any]:
    """Collect the content of all templates."""
    config = run.config
    flows = {name: run.flow(name) for name in run.needs.cohorts}
    controls = [name for paper in run.papers for name in config.results[paper].controls]
    trainings = {}
    for name in dict.fromkeys([*run.needs.models, *controls]):
        seeds = {seed: run.training(name, seed) for seed in config.models.seeds_of(name)}
        trainings[name] = {seed: trained for seed, trained in seeds.items() if trained is not None}
    # A control is part of the page once somebody has trained it.
    trainings = {
        n: trained
        for n, trained in trainings.items()
        if trained or not config.models[n].recipe.control
    }
    chapters: list[dict[str, Any]] = []
    for paper in run.papers:
        chapters.append(_chapter(run, paper, flows, trainings, chapters, album))
    return {
        "top": overview(run, flows, trainings),
        "chapters": chapters,
        "corpora": [text.corpus(run, name) for name in run.needs.corpora],
        "vocabularies": [text.vocabulary(run, name) for name in run.needs.vocabularies],
        "spellings": text.spellings(run),
        "agreements": [
            labels.agreement(run, comparison.dataset, comparison.reference)
            for comparison in config.label_comparisons()
        ],
        "certificate": paper_tables.certificate(run),
        "runs": training.run_rows(trainings),
        "next": next_steps(run, next((chapter["leading"] for chapter in chapters), None)),
        "again": same_overlays(run),
        "privacy": config.values.privacy,
        "configuration": without_folders(config.values.model_dump(mode="json")),
    }


def _chapter(
    run: RunFolder,
    paper: str,
    flows: Mapping[str, dict[str, Any] | None],
    trainings: Mapping[str, Mapping[int, Training]],
    before: Sequence[Mapping[str, Any]],
    album: Album,
) -> dict[str, Any]:
    """The content of one paper, without models and cohorts that an earlier chapter shows."""
    needs = run.config.needs((paper, run.papers[paper]))
    models_of_paper = {*needs.models, *run.config.results[paper].controls}
    names_before = {
        kind: {entry["name"] for chapter in before for entry in chapter[kind]}
        for kind in ("models", "cohorts")
    }
    models = [name for name in trainings if name in models_of_paper]
    flows = {name: flows[name] for name in needs.cohorts if name not in names_before["cohorts"]}
    grounded = examples.Scored.of(run, paper, "phrase_grounding")
    classified = examples.Scored.of(run, paper, "zero_shot_classification")
    figures_of_paper = figures.paper_figures(run, paper, album)
    pictures = examples.grounding_examples(run, grounded, album) if grounded else None
    leading = grounded or classified
    tables = paper_tables.paper_tables(run, paper)
    untrainable = [name for name in run.config.models if paper_of(name) == paper]
    return {
        "paper": paper,
        "title": run.config.library.chosen[paper].title or paper,
        "name": paper_name(run, paper),
        "cards": leading_cards(run, paper),
        "extent": run.papers[paper],
        "leading": leading.models[0] if leading else None,
        "tables": tables,
        "filled": any(table["ours"] for table in tables["shown"]),
        "figures": figures_of_paper,
        "grounded": grounded if pictures else None,
        "classified": classified,
        "examples": pictures,
        "roc": examples.roc_curves(run, classified) if classified else None,
        "uncharted": classified is not None and len(classified.models) > examples.CHARTED,
        "models": training.models(run, models, trainings, names_before["models"]),
        "untrainable": [name for name in untrainable if not run.config.models[name].trainable],
        "cohorts": [cohorts.cohort(run, name, flow) for name, flow in flows.items()],
    }


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [
                jinja2.PackageLoader("cxrflow.show.page", "templates"),
                jinja2.PackageLoader("cxrflow.show.tables", ""),
            ]
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "count": count_text,
        "number": number_text,
        "share": share_text,
        "duration": time_text,
        "yaml": yaml_text,
        "anchor": anchor,
        "short": short_name,
        "coded": coded,
    }
    return environment


def build_page(config: Path, results: Path, papers: Sequence[str] = (), so_far: str = "") -> str:
    """The page as text; ``papers`` as :meth:`RunFolder.read` takes them.

    ``so_far``: of a run that goes on, what there is of it; such a page renews itself.

    Raises:
        InputError: naming the input that is damaged, stale, or makes the page too large.
    """
    run = RunFolder.read(config, results, papers)
    template = _environment().get_template("page.html.jinja")
    html = template.render(**gather(run, Album(ROOM)), so_far=so_far)
    excess = len(html.encode()) - LARGEST
    if excess > 0:  # what else there is to show is long: fewer pictures
        html = template.render(**gather(run, Album(ROOM - excess)), so_far=so_far)
    if len(html.encode()) > LARGEST:
        raise InputError(
            f"{results}: the page would be {len(html.encode()):,} bytes, more than {LARGEST:,}; "
            "show fewer papers, by the option --papers"
        )
    return html
