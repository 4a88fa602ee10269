"""The figures of the papers, unchanged, of any kind.

Beside each picture its program leaves a JSON file: ``data``, what of them the picture ``shows``
(radiographs, phrases, which are report text, or neither), a ``caption``, and ``lines``, the picture
in words. It goes into the page only where ``privacy:`` of the configuration allows what it shows.
"""

from pathlib import Path
from typing import Any

from cxrflow.errors import InputError
from cxrflow.files import read_object
from cxrflow.page.examples import png_uri
from cxrflow.page.inputs import RunFolder

FIELDS = ("data", "shows", "caption", "lines")


def paper_figures(run: RunFolder, paper: str) -> list[dict[str, Any]]:
    """The figures of a paper that this run draws, in the paper's order."""
    folder = run.root / "figures" / paper
    return [
        _figure(run, folder / f"{name}.json", f"{paper}-{name}", figure.title)
        for name, figure in run.config.figures(paper, run.papers[paper]).items()
    ]


def _figure(run: RunFolder, path: Path, place: str, title: str) -> dict[str, Any]:
    short, _, rest = " ".join(title.split()).partition(". ")
    shown: dict[str, Any] = {
        "id": place, "short": short, "title": rest or short, "uri": None, "bytes": 0,
        "why": "This figure has not been drawn.",
    }  # fmt: skip
    if not path.is_file():
        return shown
    content = read_object(path, FIELDS)
    try:
        synthetic = bool(content["data"]["synthetic"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: field 'data.synthetic' is missing ({error})") from None
    picture = path.with_suffix(".png")
    if "radiographs" in content["shows"] and not run.config.may_show("images", synthetic):
        shown["why"] = "Not shown: it holds radiographs of real data (privacy.show_images)."
    elif "phrases" in content["shows"] and not run.config.may_show("text", synthetic):
        shown["why"] = "Not shown: it holds report text of real data (privacy.show_text)."
    else:
        shown |= {"uri": png_uri(picture), "bytes": picture.stat().st_size, "why": None}
    return shown | {"synthetic": synthetic} | {name: content[name] for name in ("caption", "lines")}
