"""Report texts of a data set, as published (MIMIC-CXR, Open-I, covid-chestxray), or a folder.

Listing and reading are apart, so that a list of references can be shared out to processes and
each reads its own. A report that cannot be read comes back with the reason, never as an error;
only a root that is not the data set at all is one.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cxr_files.archives import (
    DAMAGE,
    TWICE,
    ArchiveFile,
    TooLarge,
    names_of,
    open_zip,
    read_file,
    read_member,
    tar_files,
)
from cxr_files.atomic import read_json
from cxr_files.csv_table import bare_ids, find_file, read_csv, require_file, require_root
from cxr_files.drops import Drop, Tally, printable
from cxr_files.errors import InputError
from cxr_files.reading import OutsideError, below
from cxr_labels.report import RawReport, decode, read_text_file
from cxrflow.data import layouts

if TYPE_CHECKING:
    import pandas as pd

MIMIC_ARCHIVE = "mimic-cxr-reports.zip"
MIMIC_LIST = "cxr-study-list.csv"
OPEN_I_FOLDER, OPEN_I_ARCHIVE = "ecgen-radiology", "NLMCXR_reports.tgz"
COVID_LIST = "metadata.csv"
STUDIES, FOLDER = "studies.csv", "reports"

REPORT_PATH = re.compile(r"(?:^|/)p(\d+)/s(\d+)\.txt$")


class Reference(NamedTuple):
    """Place of a report: ids, without the letters MIMIC puts before them, and a path or member."""

    study_id: str
    subject_id: str | None
    place: str


@dataclass(frozen=True)
class Listing:
    """All reports of a data set in order, and rows left out by choice."""

    references: list[Reference]
    dropped: tuple[Drop, ...] = ()


class ReportReader(Protocol):
    """Reader of a data set's reports; each layout names its own."""

    def __init__(self, root: Path) -> None: ...

    def read(self, reference: Reference) -> RawReport:
        """Return the report, or the reason of its failure."""
        ...

    @staticmethod
    def listing(root: Path) -> Listing:
        """All reports below ``root``."""
        ...


class MimicReports:
    """Reports of MIMIC-CXR: from the unpacked tree where it has the file, else from the archive."""

    @staticmethod
    def listing(root: Path) -> Listing:
        """From the study list; without one, from the archive's members or the live tree."""
        path = find_file(root, MIMIC_LIST)
        if path is not None:
            rows, damage = read_csv(path, {"study_id": "id", "subject_id": "id", "path": "path"})
            ids = (bare_ids(rows["study_id"]), bare_ids(rows["subject_id"]))
            return Listing(list(map(Reference, *ids, rows["path"])), tuple(damage))
        if (root / MIMIC_ARCHIVE).is_file():
            places, _ = names_of(open_zip(root / MIMIC_ARCHIVE))
        else:
            places = [p.relative_to(root).as_posix() for p in root.glob("files/p*/p*/s*.txt")]
        matches = [(REPORT_PATH.search(place), place) for place in sorted(places)]
        references = [Reference(match[2], match[1], place) for match, place in matches if match]
        if not references:
            raise InputError(
                f"{root}: no report; expected {MIMIC_LIST}, {MIMIC_ARCHIVE} "
                "or files/pNN/pNNNNNNNN/sNNNNNNNN.txt"
            )
        return Listing(references)

    def __init__(self, root: Path):
        self._root, archive = root, root / MIMIC_ARCHIVE
        self._zip = open_zip(archive) if archive.is_file() else None
        self._repeated = frozenset() if self._zip is None else names_of(self._zip)[1]

    def read(self, reference: Reference) -> RawReport:
        study, subject, place = reference
        try:
            path = below(self._root, place)
            if path.is_file():
                content = read_file(path)
            elif place in self._repeated:
                return RawReport(study, subject, failure=TWICE)
            elif self._zip is not None:
                content = read_member(self._zip, place)
            else:
                return RawReport(study, subject, failure="file not found")
        except (TooLarge, OutsideError) as error:
            return RawReport(study, subject, failure=str(error))
        except KeyError:
            return RawReport(study, subject, failure="file not found")
        except DAMAGE:
            return RawReport(study, subject, failure="file cannot be read")
        text, failure = decode(content)
        return RawReport(study, subject, text=text, failure=failure)


def _open_i_files(root: Path) -> dict[str, ArchiveFile | Path]:
    folder, archive = root / OPEN_I_FOLDER, root / OPEN_I_ARCHIVE
    if folder.is_dir():
        return {path.name: path for path in folder.glob("*.xml")}
    if not archive.is_file():
        raise InputError(f"{root}: neither {OPEN_I_FOLDER}/ nor {OPEN_I_ARCHIVE} found")
    return {member.name: member for member in tar_files(archive, ".xml")}


class OpenIReports:
    """XML reports with labelled sections, from the folder or the archive."""

    @staticmethod
    def listing(root: Path) -> Listing:
        """Ids are those of ``uId``: "CXR" and the file's number."""
        names = sorted(_open_i_files(root), key=lambda name: (len(name), name))
        if not names:
            raise InputError(f"{root}: no report; expected <n>.xml files")
        return Listing(
            [Reference(f"CXR{printable(Path(name).stem)}", None, name) for name in names]
        )

    def __init__(self, root: Path):
        self._files = _open_i_files(root)

    def read(self, reference: Reference) -> RawReport:
        study, subject, place = reference
        file = self._files[place]
        try:
            content = read_file(file) if isinstance(file, Path) else file.content
        except DAMAGE:
            return RawReport(study, subject, failure="file cannot be read")
        if isinstance(file, ArchiveFile) and file.failure is not None:
            return RawReport(study, subject, failure=file.failure)
        if not content.strip():
            return RawReport(study, subject, failure="empty file")
        try:
            root = ElementTree.fromstring(content)
        except (ElementTree.ParseError, ValueError, LookupError):  # LookupError: unknown encoding
            return RawReport(study, subject, failure="not XML")
        identity = root.find(".//uId")
        study = (identity.get("id") if identity is not None else None) or study
        sections = {
            element.get("Label", "").lower(): "".join(element.itertext())
            for element in root.iter("AbstractText")
        }
        return RawReport(study, subject, sections=sections)


class FolderReports:
    """Reports of a folder that any hospital can fill: ``reports/<study_id>.txt``, with headings."""

    @staticmethod
    def listing(root: Path) -> Listing:
        """All files, in order; the patient is that of the list of studies."""
        rows, _ = read_csv(require_file(root, STUDIES), {"study_id": "id", "patient_id": "id"})
        patients = dict(zip(rows["study_id"], rows["patient_id"], strict=True))
        files = sorted(f for f in (root / FOLDER).glob("[!.]*") if f.suffix.lower() == ".txt")
        if not files:
            raise InputError(f"{root / FOLDER}: no report; expected <study_id>.txt")
        return Listing([Reference(printable(f.stem), patients.get(f.stem), f.name) for f in files])

    def __init__(self, root: Path):
        self._folder = root / FOLDER

    def read(self, reference: Reference) -> RawReport:
        study, subject, place = reference
        text, failure = read_text_file(below(self._folder, place))
        return RawReport(study, subject, text=text, failure=failure)


class ReXGradientReports:
    """Sections of ReXGradient's lists of studies, as its publisher has cut them."""

    SECTIONS = ("Indication", "Comparison", "Findings", "Impression")

    @staticmethod
    def listing(root: Path) -> Listing:
        """All studies of all parts, in their order; a place is a list file and a study's name."""
        references, unnamed = [], []
        for path, studies in _rexgradient_lists(root).items():
            for name, entry in studies.items():
                uid = entry.get("StudyInstanceUid") if isinstance(entry, dict) else None
                if isinstance(uid, str):
                    references.append(Reference(uid, entry.get("PatientID"), f"{path}\n{name}"))
                else:
                    unnamed.append(name)
        drop = Drop.of("study has no StudyInstanceUid", unnamed, failed=True)
        return Listing(references, (drop,) if unnamed else ())

    def __init__(self, root: Path):
        self._lists = _rexgradient_lists(root)

    def read(self, reference: Reference) -> RawReport:
        study, subject, place = reference
        path, _, name = place.partition("\n")
        entry = self._lists[path][name]
        sections = {
            title.lower(): entry[title]
            for title in self.SECTIONS
            if isinstance(entry.get(title), str) and entry[title].strip()
        }
        if not sections:
            return RawReport(study, subject, failure="no section has text")
        return RawReport(study, subject, sections=sections)


def _rexgradient_lists(root: Path) -> dict[str, dict[str, Any]]:
    lists = layouts.layout("rexgradient").list_files(root, "reports")
    if not lists:
        raise InputError(f"{root}: no list of studies; expected metadata/<part>_metadata.json")
    contents = {path.name: read_json(path) for path in lists}
    for name, content in contents.items():
        if not isinstance(content, dict):
            raise InputError(f"{root}: {name} is no JSON object; expected studies by name")
    return contents


def _covid_rows(root: Path) -> "tuple[pd.DataFrame, list[Drop]]":
    columns = ("Patientid", "filename", "modality", "clinical notes")
    rows, damage = read_csv(require_file(root, COVID_LIST), {name: "text" for name in columns})
    return rows.fillna(""), damage


class CovidReports:
    """The clinical notes of a row, as text without headings."""

    @staticmethod
    def listing(root: Path) -> Listing:
        """A radiograph with notes is a study named by its file; the other rows are counted."""
        references: dict[str, Reference] = {}
        rows, damage = _covid_rows(root)
        tally = Tally("reports listed", "reports", 0, damage)
        for number, (patient, name, modality, notes) in enumerate(rows.itertuples(index=False)):
            name, modality = name.strip(), modality.strip()
            if modality.casefold() != "x-ray":
                tally.drop(f"modality {modality or 'not given'}", [name])
            elif not name:
                tally.drop("no filename", [f"row {number + 2}"])
            elif name in references:
                tally.drop("filename repeated", [name])
            elif not notes.strip():
                tally.drop("no clinical notes", [name])
            else:
                references[name] = Reference(name, patient.strip(), str(number))
        return Listing(list(references.values()), tuple(tally.drops))

    def __init__(self, root: Path):
        self._notes = _covid_rows(root)[0]["clinical notes"].tolist()

    def read(self, reference: Reference) -> RawReport:
        study, subject, place = reference
        return RawReport(study, subject, sections={"notes": self._notes[int(place)].strip()})


def _reader(layout: str, root: str | Path) -> tuple[type[ReportReader], Path]:
    kind: type[ReportReader] = layouts.layout(layout).reader("reports")
    return kind, require_root(Path(root))


def list_reports(layout: str, root: str | Path) -> Listing:
    """All reports of the data set at ``root``."""
    kind, place = _reader(layout, root)
    return kind.listing(place)


def open_reader(layout: str, root: str | Path) -> ReportReader:
    """A reader of the data set's listed reports; cheap enough to make one a process."""
    kind, place = _reader(layout, root)
    return kind(place)


def read_texts(layout: str, root: str | Path) -> Iterator[RawReport]:
    """All reports of a data set, in the order of its list."""
    listing, reader = list_reports(layout, root), open_reader(layout, root)
    return (reader.read(reference) for reference in listing.references)
