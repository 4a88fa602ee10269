"""The figures of the papers, of any kind, unchanged.

Beside each picture its program leaves a JSON file. It holds the ``data``, a list of the patients'
data that the picture ``shows`` (radiographs; phrases or reports, which are text), a ``caption``
and ``lines``, the picture in words. Reports have no picture: their ``columns`` and ``rows`` are in
the file. A figure goes into the page only if ``privacy:`` allows the data that it shows.
"""

from pathlib import Path
from typing import Any

from cxr_files.atomic import read_object
from cxrflow.papers.figures import PictureFigure
from cxrflow.show.page.album import Album
from cxrflow.show.page.examples import drawn_pictures
from cxrflow.show.page.inputs import RunFolder, require
from cxrflow.show.tables.text import split_title

HIDDEN = "Not shown: it holds radiographs of real data (privacy.show_images)."
NOT_DRAWN = {"uri": None, "rows": None, "why": "This figure has not been drawn."}
NO_ROOM = "Not shown, since this page would be too large; it lies in the results, as {path}."
TEXT = frozenset(("phrases", "reports"))
FIELDS = ("data", "shows", "caption", "lines")


def paper_figures(run: RunFolder, paper: str, album: Album) -> list[dict[str, Any]]:
    """The figures of a paper that this run draws, in the paper's order."""
    folder = run.root / "figures" / paper
    content = []
    for name, figure in run.config.results[paper].figures(run.papers[paper]).items():
        short, rest = split_title(figure.title)
        picture = (
            _picture(run, figure, album)
            if isinstance(figure, PictureFigure)
            else _figure(run, folder / f"{name}.json", album)
        )
        content.append({"id": f"{paper}-{name}", "short": short, "title": rest, **picture})
    return content


def _picture(run: RunFolder, figure: PictureFigure, album: Album) -> dict[str, Any]:
    """A picture that a task has drawn beside its numbers."""
    seed = run.config.models.seeds_of(figure.model)[0] if figure.model else 0
    scores = run.scores(figure.task, figure.model, seed)
    folder = run.score_folder(figure.task, figure.model, seed) / "figures"
    entries = [
        entry for entry in drawn_pictures(folder / "examples.json") if entry["file"] == figure.file
    ]
    if scores is None or not entries:
        return NOT_DRAWN
    synthetic = bool(scores["data"]["synthetic"])
    if figure.radiographs and not run.permits("images", synthetic):
        return NOT_DRAWN | {"why": HIDDEN}
    return _embedded(run, folder / figure.file, album, figure.radiographs) | {
        "synthetic": synthetic,
        "caption": entries[0]["caption"],
        "lines": [],
    }


def _figure(run: RunFolder, path: Path, album: Album) -> dict[str, Any]:
    view: dict[str, Any] = dict(NOT_DRAWN)
    if not path.is_file():
        return view
    content = read_object(path, FIELDS)
    require(path, content["data"], "data", ("synthetic",))
    synthetic = bool(content["data"]["synthetic"])
    if "radiographs" in content["shows"] and not run.permits("images", synthetic):
        view["why"] = HIDDEN
    elif TEXT.intersection(content["shows"]) and not run.permits("text", synthetic):
        view["why"] = "Not shown: it holds report text of real data (privacy.show_text)."
    elif "rows" in content:
        view |= {"columns": content["columns"], "rows": content["rows"]}
    else:
        view |= _embedded(run, path.with_suffix(".png"), album, "radiographs" in content["shows"])
    return view | {"synthetic": synthetic} | {name: content[name] for name in ("caption", "lines")}


def _embedded(run: RunFolder, picture: Path, album: Album, radiographs: bool) -> dict[str, Any]:
    uri = album.uri(picture, sheet=radiographs)
    why = None if uri else NO_ROOM.format(path=picture.relative_to(run.root))
    return {"uri": uri, "why": why, "radiographs": radiographs}
