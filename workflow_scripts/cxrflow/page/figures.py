"""The figures of the papers as they were drawn (BioViL Figures 3, A.1, A.2).

They show radiographs and, where their JSON says so, phrases, which are report text: a figure goes
into the page only where :mod:`cxrflow.page.privacy` allows what is on it.
"""

from pathlib import Path
from typing import Any

from cxrflow.errors import InputError
from cxrflow.files import read_object
from cxrflow.page.examples import png_uri
from cxrflow.page.inputs import RunFolder

FIELDS = ("title", "data", "chosen_by", "rank", "each_finding", "phrases", "left_out", "examples")


def paper_figures(run: RunFolder) -> list[dict[str, Any]]:
    """Each paper that has figures, with those this run draws, in the paper's order."""
    found = []
    for paper in run.config.papers:
        names = run.config.figures(paper)
        figures = [_figure(run, run.root / "figures" / paper, paper, name) for name in names]
        if figures:
            found.append({"paper": paper, "figures": figures})
    return found


def picture_bytes(papers: list[dict[str, Any]]) -> int:
    """How much of the page's room for pictures the figures take."""
    return sum(figure["bytes"] for paper in papers for figure in paper["figures"])


def _figure(run: RunFolder, folder: Path, paper: str, name: str) -> dict[str, Any]:
    title = " ".join(run.config.figures(paper)[name].title.split())
    short, _, rest = title.partition(". ")
    shown: dict[str, Any] = {
        "id": f"{paper}-{name}", "short": short, "title": rest or short, "uri": None,
        "bytes": 0, "why": "This figure has not been drawn.",
    }  # fmt: skip
    path = folder / f"{name}.json"
    if not path.is_file():
        return shown
    content = read_object(path, FIELDS)
    try:
        synthetic = bool(content["data"]["synthetic"])
        lines = [_line(example) for example in content["examples"]]
        left_out = [f"{one['label']} ({one['reason']})" for one in content["left_out"]]
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: field {error} is missing or of another kind") from None
    picture = folder / f"{name}.png"
    if not run.privacy.images(synthetic):
        shown["why"] = "Not shown: it holds radiographs of real data (privacy.show_images)."
    elif content["phrases"] and not run.privacy.text(synthetic):
        shown["why"] = "Not shown: it holds report text of real data (privacy.show_text)."
    else:
        shown |= {"uri": png_uri(picture), "bytes": picture.stat().st_size, "why": None}
    over = "of each finding" if content["each_finding"] else "of all phrases"
    rule = f"{content['rank']} {over} by signed CNR of {content['chosen_by']}, first seed"
    return shown | {"synthetic": synthetic, "rule": rule, "left_out": left_out, "lines": lines}


def _line(example: dict[str, Any]) -> str:
    """The scores of one example as a sentence; its phrase is on the picture, if anywhere."""
    scores = [
        f"{one['label']} {'–' if one['signed_cnr'] is None else format(one['signed_cnr'], '+.2f')}"
        for one in example["scores"]
    ]
    return f"{example['category']}: {', '.join(scores)}"
