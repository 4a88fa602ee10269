"""Texts as ``cxrflow label`` reads those of a table, and files of texts with their right labels."""

import gc
import json
import math
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from held_out_wording import NAMES

from cxr_labels.labelling import LabelRows, Worker
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.report import RawReport
from cxr_labels.settings import ReportSettings

FOLDER = Path(__file__).parent / "label_sentences"
CODES = {**NAMES, "NF": "No Finding"}
VALUES = {"+": 1, "-": 0, "?": -1, ".": None}


@cache
def worker(headings: str, reasons: bool) -> Worker:
    settings = ReportSettings.model_validate({"sections": {"headings": headings}})
    return Worker(settings.of_layout("table"), "table", Path("x"), None, reasons)


def label_rows(text: str, headings: str = "any", reasons: bool = False) -> LabelRows:
    """What labelling writes of one text."""
    return worker(headings, reasons).process([RawReport("0", None, text=text)])


def labels_of(text: str, headings: str = "any") -> tuple[dict[str, int], str]:
    """The observations that a text mentions, and the outcome."""
    ((_, outcome, values),) = label_rows(text, headings).labels
    named = zip(OBSERVATIONS, values or (), strict=bool(values))
    return {name: int(value) for name, value in named if not math.isnan(value)}, outcome


def read_texts(name: str) -> list[dict[str, str]]:
    """The texts of a file, with their labels."""
    lines = (FOLDER / f"reports_{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def allowed(row: dict[str, str]) -> dict[str, list[int | None]]:
    """The values that a text may have, by observation; the signs after a code say them."""
    values = {}
    for code in row["labels"].split():
        if code != "none":
            name = code.rstrip("+-?.|")
            values[CODES[name]] = [VALUES[sign] for sign in code.removeprefix(name).split("|")]
    return values


def seconds_of(read: Callable[[str], object], text: str) -> float:
    """Processor seconds of reading a text, without collecting what else lives in this process."""
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        read(text)
        return time.process_time() - started
    finally:
        gc.enable()
