"""The report page: ``<results>/report/index.html``, which needs nothing but a browser.

It shows what was found: a scoreboard of the papers, the numbers they lead with, all scores, next
steps. Pages beside it, in ``index_files/``, hold the rest: one a paper (pictures, figures, tables,
trainings, the flow of studies), one for the data and trainings of the run. They name what is
missing; a damaged or stale input stops the program. Their content security policy forbids them to
load anything (docs/page.md).
"""

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jinja2
import yaml
from markupsafe import Markup, escape

from cxr_files.errors import InputError
from cxrflow.names import anchor, paper_of, short_name
from cxrflow.show.page import cohorts, examples, figures, labels, paper_tables, text, training
from cxrflow.show.page.album import ROOM, Album
from cxrflow.show.page.inputs import RunFolder, Training
from cxrflow.show.page.living import json_text, living_table
from cxrflow.show.page.next_steps import next_steps, same_overlays
from cxrflow.show.page.overview import leading_cards, overview, paper_name
from cxrflow.show.page.root import root_of
from cxrflow.show.page.scoreboard import board_line, headline
from cxrflow.show.page.scores import COLUMNS, PaperScores, score_lines
from cxrflow.show.tables.text import coded

LARGEST = 3_000_000  # bytes of one page
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # in C where it is there: settings are long
#: Where a paper of ours can be read; one of the user's has no place here.
PAPERS = {
    "biovil": "https://arxiv.org/abs/2204.09817",
    "biovil_t": "https://arxiv.org/abs/2301.04558",
    "convirt": "https://arxiv.org/abs/2010.00747",
    "low_data": "https://arxiv.org/abs/2303.17644",
    "medcutmix": "https://doi.org/10.1109/icassp55912.2026.11462043",
}
CHECKOUT = Path(__file__).resolve().parents[4]
FRONT, DATA = "front", "data-and-trainings"  # a paper's name has no hyphen


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
    return yaml.dump(
        value, Dumper=DUMPER, sort_keys=False, allow_unicode=True, default_flow_style=None
    )


def without_folders(value: Any) -> Any:
    """A configuration whose absolute paths are cut to their last part: pages are passed on."""
    if isinstance(value, dict):
        return {key: without_folders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_folders(item) for item in value]
    if isinstance(value, str) and Path(value).is_absolute():
        return f"…/{Path(value).name}"
    return value


def command(text: str) -> Markup:
    """A command whose lines are broken between its words alone."""
    return Markup(re.sub(r"\S+", r'<span class="word">\g<0></span>', str(escape(text))))


def gather(run: RunFolder, room: Mapping[str, int]) -> dict[str, Any]:
    """Collect the content of all templates; ``room``: bytes of pictures on a paper's page."""
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
    board, lines = [], []
    for paper in run.papers:
        scores = PaperScores.read(run, paper)
        album = Album(room.get(paper, ROOM))
        chapter = _chapter(run, paper, flows, trainings, chapters, album)
        chapter["cards"] = leading_cards(config, paper, scores)
        chapters.append(chapter)
        board.append(board_line(paper, chapter["name"], scores, chapter["cards"]))
        lines += score_lines(chapter["name"], scores)
    return {
        "top": overview(run, flows, trainings),
        "found": headline(board),
        "board": board,
        "scores": living_table(COLUMNS, lines, "scores.csv"),
        "chapters": chapters,
        "paper_links": PAPERS,
        "page_of_model": {
            model["name"]: chapter["paper"] for chapter in chapters for model in chapter["models"]
        },
        "corpora": [text.corpus(run, name) for name in run.needs.corpora],
        "vocabularies": [text.vocabulary(run, name) for name in run.needs.vocabularies],
        "spellings": text.spellings(run),
        "agreements": [
            labels.agreement(run, comparison.dataset, comparison.reference)
            for comparison in config.label_comparisons()
        ],
        "certificate": paper_tables.certificate(run),
        "runs": training.run_rows(trainings),
        "next": [*next_steps(run, next((chapter["leading"] for chapter in chapters), None))],
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
        "command": command,
        "json": json_text,
    }
    return environment


class Place(NamedTuple):
    """A page among those of a run, and the way from it to the others."""

    name: str  # of the front page's file, without its ending
    here: str  # FRONT, DATA or a paper

    @property
    def path(self) -> str:
        """The page's file, from the folder of the front page."""
        front = self.here == FRONT
        return f"{self.name}.html" if front else f"{self.name}_files/{self.here}.html"

    def href(self, page: str, anchor: str = "") -> str:
        """A link to a part of a page."""
        fragment = f"#{anchor}" if anchor else ""
        if page == self.here:
            return fragment or "#top"
        path = self._replace(here=page).path
        if self.here != FRONT:
            path = f"../{path}" if page == FRONT else path.rpartition("/")[2]
        return quote(path) + fragment


class Link(NamedTuple):
    """A file of the checkout, and where it lies from a page; empty where that cannot be said."""

    name: str
    href: str


def checkout_links(page: Path) -> list[Link]:
    """The repository's front page and its documentation, as seen from a page.

    A page outside of the checkout names them alone: a path to it would tell the machine's folders.
    """
    return [Link(name, _from(page, name)) for name in ("README.md", "docs/index.md")]


def _from(page: Path, name: str) -> str:
    place = page.resolve().parent
    if not place.is_relative_to(CHECKOUT) or not (CHECKOUT / name).is_file():
        return ""
    return Path(os.path.relpath(CHECKOUT / name, place)).as_posix()


def build_pages(
    config: Path, results: Path, output: Path, papers: Sequence[str] = (), so_far: str = ""
) -> dict[Path, str]:
    """The pages by their files, those beside the first one before it.

    ``output`` is the first one; ``papers`` as :meth:`RunFolder.read` takes them. ``so_far``: of a
    run that goes on, what there is of it; its first page renews itself.

    Raises:
        InputError: naming the input that is damaged, stale, or makes a page too large.
    """
    run = RunFolder.read(config, results, papers)
    frame = {
        "so_far": so_far,
        "checkout": checkout_links(output),
        # What goes on has none yet.
        "root": None if so_far else root_of(results),
    }
    room: dict[str, int] = {}
    pages = _render(gather(run, room), frame, output.stem)
    for page, html in pages.items():  # what else there is to show is long: fewer pictures
        excess = len(html.encode()) - LARGEST
        if excess > 0:
            room[page] = ROOM - excess
    if room:
        pages = _render(gather(run, room), frame, output.stem)
    for page, html in pages.items():
        if len(html.encode()) > LARGEST:
            raise InputError(
                f"{results}: the page '{page}' would be {len(html.encode()):,} bytes, more than "
                f"{LARGEST:,}; show fewer papers, by the option --papers"
            )
    return {output.parent / Place(output.stem, page).path: html for page, html in pages.items()}


def _render(content: Mapping[str, Any], frame: Mapping[str, Any], name: str) -> dict[str, str]:
    """Each page's text by its name, the first page last."""
    papers = {chapter["paper"]: chapter for chapter in content["chapters"]}
    pages = {}
    for page in (*papers, DATA, FRONT):
        template = _environment().get_template(
            "paper.html.jinja" if page in papers else f"{page}.html.jinja"
        )
        place = Place(name, page)
        pages[page] = template.render(
            **content, **frame, chapter=papers.get(page), here=page, href=place.href
        )
    return pages
