"""The registry of data set layouts: name → reader, and what a cohort must know about each."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cxrflow.data import (
    covid_chestxray,
    mimic_cxr,
    mimic_cxr_jpg,
    ms_cxr,
    nli,
    open_i,
    rsna,
)
from cxrflow.data.request import Request
from cxrflow.data.tables import Tables
from cxrflow.errors import InputError


@dataclass(frozen=True)
class Layout:
    """Attributes:
    read: the reader.
    patients: whose patient ids these are; equal in data sets that share patients.
    kinds: cohorts that can be made of it.
    study_prefix: what corpora may write before or after the bare study id, as a regular expression.
    """

    read: Callable[[Path, Request], Tables]
    patients: str
    kinds: tuple[str, ...]
    study_prefix: str = r"^s(?=\d)"


LAYOUTS: dict[str, Layout] = {
    "mimic_cxr": Layout(mimic_cxr.read, "mimic", ("pairs",)),
    "mimic_cxr_jpg": Layout(mimic_cxr_jpg.read, "mimic", ("pairs",)),
    "ms_cxr": Layout(ms_cxr.read, "mimic", ("grounding",)),
    "radnli": Layout(nli.read_radnli, "radnli", ("nli",)),
    "mednli": Layout(nli.read_mednli, "mednli", ("nli",)),
    "rsna": Layout(rsna.read, "nih", ("classification",)),
    "open_i": Layout(open_i.read, "open_i", ("pairs",), study_prefix=r"^CXR(?=\d)"),
    "covid_chestxray": Layout(
        covid_chestxray.read, "covid_chestxray", ("pairs",), study_prefix=r"\.(?:jpe?g|png)$"
    ),
}


def layout(name: str) -> Layout:
    """The layout of that name, or InputError listing those there are."""
    if name not in LAYOUTS:
        raise InputError(f"layout '{name}' is unknown; expected one of {', '.join(LAYOUTS)}")
    return LAYOUTS[name]
