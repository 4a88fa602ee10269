"""Exports of five archives become folders that the trainings read; what does not fit is said."""

import base64
import csv
import hashlib
import hmac
import html
import io
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from cohort_fixtures import cohort
from PIL import Image
from pydicom import dcmread
from pydicom.dataset import FileDataset

from command_options import run_to_end
from cxr_files.errors import InputError
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.mimic_cxr import write_mimic_cxr
from cxr_labels.command import main as label
from cxrflow.commands.adopt.adopt import main
from cxrflow.commands.adopt.archive import view_of
from cxrflow.commands.adopt.dates import read_dates
from cxrflow.commands.adopt.folder import free_name
from cxrflow.commands.adopt.new_ids import NewIds, read_key
from cxrflow.config.__main__ import main as configure
from cxrflow.programs.source_code import PACKAGE
from cxrflow.reports.corpus import main as process_reports

TOP = PACKAGE.parents[1]
OVER_TIME = [str(TOP / f"{name}.yaml") for name in ("config", "hospital", "hospital_over_time")]
SECOND_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"


@dataclass
class Drawn:
    """A study of the synthetic hospital: its images, its report, and numbers of an archive."""

    accession: str
    patient: str
    uid: str
    date: str
    text: str
    images: list[FileDataset]

    @property
    def frontal(self) -> list[FileDataset]:
        return [each for each in self.images if each.ViewPosition in ("PA", "AP")]


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> list[Drawn]:
    """The studies of six patients that have a frontal image; nobody changes them."""
    root = tmp_path_factory.mktemp("hospital") / "mimic"
    settings = HospitalSettings(patients=6, image_size=64, followed=None, spoilt_share=0.0)
    write_mimic_cxr(settings, root)
    studies = []
    for number, folder in enumerate(sorted(p for p in root.glob("files/*/*/s*") if p.is_dir())):
        images = [dcmread(file) for file in sorted(folder.glob("*.dcm"))]
        first = images[0]
        text = folder.with_suffix(".txt").read_text(encoding="utf-8")
        drawn = Drawn(
            f"A{number:05d}", first.PatientID, first.StudyInstanceUID, first.StudyDate, text, images
        )
        for image in images:
            image.AccessionNumber = drawn.accession
        if drawn.frontal:
            studies.append(drawn)
    assert len(studies) > 8
    return studies


def save(image: FileDataset, path: Path, **elements: object) -> None:
    """A DICOM file with some elements of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {name: image.get(name) for name in elements}
    for name, value in elements.items():
        setattr(image, name, value)
    image.save_as(path)
    for name, value in kept.items():
        if value is None:
            delattr(image, name)
        else:
            setattr(image, name, value)


@dataclass
class Desk:
    """Where the studies are adopted: an export, tables of reports, and what becomes of them."""

    root: Path
    studies: list[Drawn]
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.export, self.mine = self.root / "export", self.root / "mine"

    def nested(self) -> Path:
        """As a PACS writes it to a disc: PAT1/STU1/SER1/I0000001."""
        names = dict.fromkeys(study.patient for study in self.studies)
        patients = {name: number for number, name in enumerate(names, start=1)}
        for number, study in enumerate(self.studies, start=1):
            for series, image in enumerate(study.images, start=1):
                folder = self.export / f"PAT{patients[study.patient]}/STU{number}/SER{series}"
                save(image, folder / f"I{series:07d}")
        return self.export

    def table(
        self, header: list[str], rows: list[list[str]], name: str = "reports.csv", parted: str = ","
    ) -> Path:
        with open(self.root / name, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=parted).writerows([header, *rows])
        return self.root / name

    def accessions(self, first: int = 0) -> Path:
        """The usual table, of the studies from the first on."""
        rows = [[study.accession, study.patient, study.text] for study in self.studies[first:]]
        return self.table(["accession", "patient", "report"], rows)

    def adopt(self, reports: Path, *options: object) -> tuple[str, dict]:
        """What an adoption prints, and its account."""
        words = [self.export, reports, "--output", self.mine, "--yes", *options]
        main(list(map(str, words)))
        account = json.loads((self.mine / "adopted.json").read_text("utf-8"))
        return self.capsys.readouterr().out, account

    @property
    def listed(self) -> pd.DataFrame:
        return pd.read_csv(self.mine / "studies.csv", dtype=str).set_index("study_id")

    def report(self, name: str) -> str:
        return (self.mine / f"reports/{name}.txt").read_text("utf-8")

    def labelled_and_planned(self) -> tuple[pd.DataFrame, str]:
        """The next steps of docs/own_hospital.md: labels of all reports, what is trained on."""
        labels = self.root / "labels.csv"
        label(["--input", str(self.mine / "reports"), "--output", str(labels)])
        return pd.read_csv(labels), self.checked(*OVER_TIME)

    def require_usable(self) -> None:
        labels, said = self.labelled_and_planned()
        count = len(self.studies)
        assert len(labels) == count and f"{count} studies of" in said

    def checked(self, *configurations: str) -> str:
        """What the check of a configuration says of the folder."""
        self.monkeypatch.setenv("CXR_HOSPITAL", str(self.mine))
        self.capsys.readouterr()
        configure(["check", "--configfile", *configurations])
        return self.capsys.readouterr().out


@pytest.fixture
def desk(
    tmp_path: Path,
    hospital: list[Drawn],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Desk:
    return Desk(tmp_path, hospital, capsys, monkeypatch)


def left_out(account: dict) -> dict[str, int]:
    return {drop["reason"]: drop["count"] for drop in account["left_out"]}


def test_a_nested_export_of_an_archive(desk: Desk) -> None:
    export = desk.nested()
    first = desk.studies[0].frontal[0]
    save(first, export / "PAT1/STU1/SER9/I0000001", SOPClassUID=SECOND_CAPTURE)
    save(first, export / "PAT1/STU1/SER9/I0000002", Modality="CT", SOPInstanceUID="1.2.3")
    save(first, export / "PAT1/STU1/SER9/I0000003", BodyPartExamined="ABDOMEN", Modality="CR")
    save(first, export / "PAT1/STU1/SER9/I0000004", ImageType=["DERIVED", "PRIMARY", "LOCALIZER"])
    save(first, export / "PAT1/STU1/SER8/I0000001")
    (export / "DICOMDIR").write_bytes(b"\0" * 128 + b"DICM")
    (export / "viewer.exe").write_bytes(b"MZ")
    (export / "circle").symlink_to("circle")
    rows = [[s.accession, s.patient, s.date, s.text] for s in desk.studies]
    said, account = desk.adopt(desk.table(["accession", "patient", "date", "report"], rows))
    lateral = sum(len(s.images) - len(s.frontal) for s in desk.studies)
    assert left_out(account) == {
        "image: lateral view": lateral,
        "image: secondary capture": 1,
        "image: modality CT": 1,
        "image: body part ABDOMEN": 1,
        "image: localiser": 1,
        "image: the same image again (SOPInstanceUID)": 1,
        "image: index of a disc (DICOMDIR)": 1,
        "image: no DICOM, PNG or JPEG file": 1,
        "image: cannot be read (Too many levels of symbolic links)": 1,
    }
    assert f"{len(desk.studies)} of {len(desk.studies)} studies of 6 patients have a report" in said
    assert desk.studies[0].text.split()[3] not in said.partition("Next")[0].split("pairs are")[0]
    listed = desk.listed
    for study in desk.studies:
        assert listed.loc[study.accession, "patient_id"] == study.patient
        assert listed.loc[study.accession, "date"].replace("-", "").startswith(study.date)
        report = desk.report(study.accession)
        assert report.strip() == study.text.strip()
        links = sorted((desk.mine / "images").glob(f"{study.accession}_*"))
        assert [dcmread(link).SOPInstanceUID for link in links] == sorted(
            (image.SOPInstanceUID for image in study.frontal),
            key=lambda uid, study=study: [i.SOPInstanceUID for i in study.images].index(uid),
        )
        assert all(link.is_symlink() for link in links)
    assert desk.mine.stat().st_mode & 0o077 == 0
    labels, checked = desk.labelled_and_planned()
    assert len(labels) == len(desk.studies) and (labels["outcome"] == "labelled").all()
    by_training = {row["training"]: row for row in account["trainings"]}
    pairs = by_training["BioViL: a frontal image and an impression"]["studies"]
    prior = by_training["BioViL-T: these, with an earlier image of the patient"]["studies"]
    assert 0 < prior < pairs < len(desk.studies)
    assert (
        f"biovil_t/mimic_cxr, for biovil_t/biovil_t: {pairs} studies have image and impression; "
        f"{prior} of them have a prior"
    ) in checked
    # What was counted is what the workflow makes of the folder.
    of_folder = ["--layout", "hospital", "--root", str(desk.mine)]
    process_reports([*of_folder, "--output", str(desk.root / "corpus")])
    options = [*of_folder, "--corpus", desk.root / "corpus"]
    require = ["image", "impression"]
    _, made = cohort(desk.root / "cohort", *options, views=None, require=require)
    assert len(made) == pairs and made["prior_study_id"].notna().sum() == prior


def test_a_flat_export_and_reports_as_files(desk: Desk) -> None:
    """Anonymised: no accession numbers, no view; files named by study, reports by the same."""
    export, reports = desk.export, desk.export / "reports"
    for number, study in enumerate(desk.studies):
        for n, image in enumerate(study.frontal):
            name = f"cxr{number:04d}_{n}.dcm"
            blank = {"AccessionNumber": "", "ViewPosition": "", "PatientOrientation": []}
            save(
                image, export / name, **blank, ViewCodeSequence=[], StudyInstanceUID=f"1.2.{number}"
            )
        reports.mkdir(exist_ok=True)
        (reports / f"cxr{number:04d}.txt").write_text(study.text, encoding="utf-8")
    (reports / "cxr9999.txt").write_text("FINDINGS: Clear lungs.\n")
    said, account = desk.adopt(reports, "--copy")
    assert left_out(account) == {"report: no image has its id": 1}
    images = sum(len(study.frontal) for study in desk.studies)
    assert f"{images} do not say how they were taken, and count as frontal" in said
    assert f"'name': {len(desk.studies)} are in the paths of {images} images" in said
    copies = list((desk.mine / "images").iterdir())
    assert len(copies) == images and not any(copy.is_symlink() for copy in copies)
    texts = {p.read_text("utf-8").strip() for p in (desk.mine / "reports").iterdir()}
    assert texts == {study.text.strip() for study in desk.studies}
    desk.require_usable()


def test_an_accession_number_that_two_patients_have(desk: Desk) -> None:
    """The patients of the table tell them apart; without them neither gets a report."""
    one = desk.studies[0]
    other = next(study for study in desk.studies if study.patient != one.patient)
    doubled = {other.accession: one.accession}
    export = desk.export
    rows = []
    for number, study in enumerate(desk.studies):
        accession = doubled.get(study.accession, study.accession)
        rows.append([accession, study.patient, study.text])
        for n, image in enumerate(study.frontal):
            save(image, export / f"{number}/{n}", AccessionNumber=accession)
    _, account = desk.adopt(desk.table(["AccessionNumber", "PatientID", "text"], rows))
    assert account["matched"] == len(desk.studies) and left_out(account) == {}
    for study in (one, other):
        name = f"{one.accession}-{study.patient}"
        assert desk.report(name).strip() == study.text.strip()
    desk.require_usable()
    _, account = desk.adopt(desk.table(["AccessionNumber", "text"], [[a, t] for a, _, t in rows]))
    assert account["matched"] == len(desk.studies) - 2
    several = "its id is that of several patients, and the table does not say which"
    assert left_out(account) == {f"study without a report: {several}": 2, f"report: {several}": 2}


def test_a_report_of_another_patient_than_the_headers_is_not_taken(desk: Desk) -> None:
    desk.nested()
    rows = [[s.accession, s.patient, s.text] for s in desk.studies]
    rows[2][1] = "4711"
    _, account = desk.adopt(desk.table(["accession", "patient", "report"], rows))
    assert account["matched"] == len(desk.studies) - 1
    reasons = left_out(account)
    assert (
        reasons["study without a report: its report is of another patient than the header's"] == 1
    )
    assert reasons["report: the header of its study names another patient"] == 1
    assert not (desk.mine / f"reports/{desk.studies[2].accession}.txt").exists()


def test_ids_that_are_spelt_almost_alike(desk: Desk) -> None:
    """0012 does not get the report of 12; p7 is P7, and 07 beside 7 is counted."""
    export = desk.export
    ids = (("0012", "p7"), ("12", "P7"), ("A3", "07"), ("A4", "7"))
    numbers = [(*of_study, study) for of_study, study in zip(ids, desk.studies, strict=False)]
    for number, patient, study in numbers:
        save(study.frontal[0], export / number, AccessionNumber=number, PatientID=patient)
    rows = [[number, patient, study.text] for number, patient, study in numbers[1:]]
    _, account = desk.adopt(desk.table(["accession", "patient", "report"], rows))
    assert left_out(account) == {"study without a report: no report has its id": 1}
    assert not (desk.mine / "reports/0012.txt").exists()
    listed = desk.listed
    assert listed["patient_id"].to_dict() == {"0012": "p7", "12": "p7", "A3": "07", "A4": "7"}
    almost = "patients whose ids differ in zeros or punctuation alone, and who count as several"
    assert account["matching"][almost] == 2


def test_reports_by_patients_are_not_spread_over_examinations_of_several_days(desk: Desk) -> None:
    """A table of patients alone: who has one examination gets the report, the others do not."""
    first, again, alone = desk.studies[0], desk.studies[1], desk.studies[-1]
    patients = {"P1": (first, again), "P2": (alone,)}
    for patient, studies in patients.items():
        for year, study in enumerate(studies, start=2018):
            place = desk.export / patient / study.accession
            save(study.frontal[0], place, PatientID=patient, StudyDate=f"{year}0203")
    rows = [[patient, study.text] for patient, studies in patients.items() for study in studies]
    _, account = desk.adopt(desk.table(["patient", "report"], rows))
    days = "its id is that of examinations on several days, and the table does not say which"
    assert left_out(account) == {f"study without a report: {days}": 2, f"report: {days}": 2}
    assert [path.stem for path in (desk.mine / "reports").iterdir()] == [alone.accession]


def test_a_study_with_two_reports_and_an_addendum(desk: Desk) -> None:
    desk.nested()
    rows = [[study.uid, study.text] for study in desk.studies]
    first, second, third = desk.studies[:3]
    rows.insert(0, [first.uid, "PRELIMINARY: Awaits review."])
    rows.append([second.uid, "ADDENDUM: Called to the ward."])
    rows.append([third.uid, third.text])
    _, account = desk.adopt(desk.table(["Study UID", "Narrative"], rows, "reports.tsv", "\t"))
    assert account["matching"] == {
        "studies with several reports, of which the last counts": 3,
        "of these with one text": 1,
    }
    assert desk.report(first.accession).strip() == first.text.strip()
    joined = desk.report(second.accession)
    assert joined == f"{second.text.strip()}\n\nADDENDUM: Called to the ward.\n"
    assert desk.report(third.accession).strip() == third.text.strip()
    desk.require_usable()


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_a_table_with_other_names_and_a_column_a_section(kind: str, desk: Desk) -> None:
    """Numbers lost their zeros in a spreadsheet, and headers have no date."""
    export = desk.export
    header = ["Acc. No.", "Pat. No.", "Birth date", "Exam date", "Findings", "Impression"]
    rows = []
    for number, study in enumerate(desk.studies):
        for n, image in enumerate(study.frontal):
            undated = {"StudyDate": "", "SeriesDate": "", "ContentDate": ""}
            name = f"{'abcdefghijklmnopqrstuvwxyz'[number]}{n}"
            save(image, export / name, AccessionNumber=f"00{number:04d}", **undated)
        day = f"{study.date[6:]}.{study.date[4:6]}.{study.date[:4]}"
        rows.append([str(number), study.patient, "01.02.1950", day, "Clear lungs.", "Normal."])
    if kind == "csv":
        reports = desk.table(header, rows, parted=";")
    else:
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        book.create_sheet("notes").append(["about this export"])
        sheet = book.active
        sheet.append(header)
        for row in rows:
            sheet.append([int(row[0]), int(row[1]), *row[2:]])
        reports = desk.root / "reports.xlsx"
        book.save(reports)
    said, account = desk.adopt(reports)
    assert f"study    'Acc. No.': {len(desk.studies)} of {len(desk.studies)} are accession" in said
    assert "date     'Exam date'" in said
    assert "patient  'Pat. No.'" in said and "text     'Findings', 'Impression'" in said
    assert account["matched"] == len(desk.studies) and left_out(account) == {}
    assert account["dates"]["studies dated by the table"] == len(desk.studies)
    listed = desk.listed
    for number, study in enumerate(desk.studies):
        assert listed.loc[f"00{number:04d}", "date"].replace("-", "") == study.date
    text = desk.report("000000")
    assert text == "FINDINGS: Clear lungs.\n\nIMPRESSION: Normal.\n"
    labels, checked = desk.labelled_and_planned()
    assert (labels["No Finding"] == 1).all()
    assert f"dates: {len(desk.studies)} of {len(desk.studies)} studies have one" in checked


def test_without_a_terminal_nothing_is_written_and_no_id_or_text_is_said(desk: Desk) -> None:
    export, reports = desk.nested(), desk.accessions()
    words = [str(export), str(reports), "--output", str(desk.mine)]
    with pytest.raises(InputError, match=r"no terminal to ask on; type `cxrflow adopt .* --yes`"):
        main(words)
    said = desk.capsys.readouterr().out
    assert f"{len(desk.studies)} of {len(desk.studies)} studies of 6 patients have a report" in said
    assert "pairs are shown on a terminal alone" in said
    for study in desk.studies:
        assert study.accession not in said and study.patient not in said
    assert not desk.mine.exists()


def on_a_terminal(words: list[object], answer: str) -> str:
    """What a command says on a terminal where a person gives an answer."""
    command = [sys.executable, "-m", "cxrflow", "adopt", *map(str, words)]
    code = (
        "import pty, sys, os\n"
        "def keep(d):\n"
        "    read = os.read(d, 4096)\n"
        f"    if b'[y/N]' in read: os.write(d, b'{answer}\\n')\n"
        "    return read\n"
        f"sys.exit(os.waitstatus_to_exitcode(pty.spawn({command!r}, keep)))\n"
    )
    done = run_to_end([sys.executable, "-c", code], cwd=TOP, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_person_sees_pairs_and_is_asked_once(desk: Desk) -> None:
    export, reports = desk.nested(), desk.accessions()
    words = [export, reports, "--output", desk.mine]
    said = on_a_terminal(words, "n")
    assert said.count("[y/N]") == 1 and "nothing is written" in said
    assert not desk.mine.exists()
    first = desk.studies[0]
    assert f"image   {first.accession}  {first.patient}  {first.date[:4]}-" in said
    assert f"report  {first.accession}  {first.patient}" in said
    opening = " ".join(first.text.split()[:5])
    assert opening in said
    assert "nothing is written" in on_a_terminal(words, "\\x04")  # Ctrl-D
    said = on_a_terminal([*words, "--no-text"], "y")
    assert opening not in said and f"image   {first.accession}" in said
    assert len(list((desk.mine / "reports").iterdir())) == len(desk.studies)


def test_a_person_who_asks_gets_a_page_of_pairs_with_their_pictures(desk: Desk) -> None:
    export, reports = desk.nested(), desk.accessions()
    page = desk.root / "pairs.html"
    words = [export, reports, "--output", desk.mine, "--pairs-page"]
    with pytest.raises(InputError, match="no terminal to ask on"):
        main(list(map(str, [*words, page])))
    shown, first = page.read_text(encoding="utf-8"), desk.studies[0]
    assert page.stat().st_mode & 0o777 == 0o600
    sources = re.findall(r'src="data:image/png;base64,([^"]+)"', shown)
    assert len(sources) == shown.count("<section>") == min(10, len(desk.studies))
    with Image.open(io.BytesIO(base64.b64decode(sources[0]))) as picture:
        assert min(picture.size) == 64 and len(set(picture.tobytes())) > 20
    assert first.accession in shown and first.text.strip() in html.unescape(shown)
    with pytest.raises(InputError, match="no terminal to ask on"):
        main(list(map(str, [*words, page, "--no-text"])))
    assert first.text.split()[-1] not in page.read_text(encoding="utf-8").partition("<section>")[2]
    for inside in (export / "pairs.html", desk.mine / "pairs.html"):
        with pytest.raises(InputError, match="expected another place"):
            main(list(map(str, [*words, inside])))
    assert first.accession not in desk.capsys.readouterr().out


@pytest.mark.parametrize(
    ("dates", "options", "read"),
    [
        (["13/02/2019", "02/13/2019", "03/04/2019"], [], "1 dates are written as 13/02/2019 and 1"),
        (["03/02/2019", "04/05/2019", "05/06/2019"], [], "nothing says whether the day or the"),
        (["03/02/2019", "04/05/2019", "05/06/2019"], ["--day-first"], "2019-02-03"),
        (["03/02/2019", "04/05/2019", "05/06/2019"], ["--month-first"], "2019-03-02"),
        (["03/02/2019", "04/05/2019", "25/06/2019"], [], "2019-02-03"),
        (["03/02/2019", "02/13/2019", "25/06/2019"], ["--day-first"], "2019-02-03"),
    ],
)
def test_dates_that_could_be_two_days_are_refused(
    dates: list[str], options: list[str], read: str, desk: Desk
) -> None:
    studies = desk.studies[:3]
    for study in studies:
        undated = {"StudyDate": "", "SeriesDate": "", "ContentDate": ""}
        save(study.frontal[0], desk.export / study.accession, **undated)
    rows = [[s.accession, s.text, date] for s, date in zip(studies, dates, strict=True)]
    reports = desk.table(["accession", "report", "exam date"], rows)
    if not read.startswith("2019"):
        with pytest.raises(InputError, match=f"reports.csv: column 'exam date': .*{read}"):
            desk.adopt(reports, *options)
        return
    said, account = desk.adopt(reports, *options)
    listed = desk.listed
    assert listed.loc[studies[0].accession, "date"] == read
    mixed = "both 13/02/2019 and 02/13/2019: 1 such as 03/02/2019 are read day first" in said
    assert mixed == ("02/13/2019" in dates)
    unread = int("02/13/2019" in dates)
    assert account["dates"]["texts of the table that are no date"] == unread
    assert listed["date"].isna().sum() == account["dates"]["studies without a date"] == unread


def test_headers_say_which_number_of_a_table_is_the_day(desk: Desk) -> None:
    """Two studies of three have a date in the header; the third is dated by the table."""
    studies = desk.studies[:3]
    for study, date in zip(studies, ("20190203", "20190504", ""), strict=True):
        dates = {"StudyDate": date, "SeriesDate": "", "ContentDate": ""}
        save(study.frontal[0], desk.export / study.accession, **dates)
    rows = [
        [study.accession, study.text, date]
        for study, date in zip(studies, ("03/02/2019", "04/05/2019", "05/06/2019"), strict=True)
    ]
    desk.adopt(desk.table(["accession", "report", "exam date"], rows))
    listed = desk.listed
    assert listed.loc[studies[2].accession, "date"] == "2019-06-05"


def test_what_a_spreadsheet_does_to_ids_and_dates_is_said(desk: Desk) -> None:
    """Zeros are lost, dates are written both ways; one study has a lateral image alone."""
    rows = []
    for number, study in enumerate(desk.studies[:5]):
        side = {"ViewPosition": "LATERAL"} if number == 0 else {}
        accession = f"00{number + 21}"
        save(study.frontal[0], desk.export / f"{number}", AccessionNumber=accession, **side)
        rows.append([str(number + 21), study.text, ("13/02/2019", "02/13/2019")[number % 2]])
    rows.append(["99", "FINDINGS: Clear lungs.", "13/02/2019"])
    said, account = desk.adopt(desk.table(["order", "report", "exam date"], rows))
    assert left_out(account) == {
        "image: lateral view": 1,
        "report: its images are set aside": 1,
        "report: no image has its id": 1,
    }
    assert "'exam date': 100% are dates; not read: nothing says which number is the day" in said
    assert account["dates"] == {"studies dated by their header": 4, "studies without a date": 0}


def test_a_column_called_a_date_that_holds_none_is_named(desk: Desk) -> None:
    rows = [[study.accession, study.text, "13/02/19"] for study in desk.studies]
    desk.nested()
    said, _ = desk.adopt(desk.table(["accession", "report", "exam date"], rows))
    assert "the table has none; 'exam date' is none: 0% of it are dates in a form that is" in said


def test_ids_are_replaced_by_a_keyed_hash(desk: Desk) -> None:
    desk.nested()
    reports, key = desk.accessions(first=1), desk.root / "key"
    key.write_text("0123456789abcdef0123\n")
    _, account = desk.adopt(reports, "--key-file", key, "--copy")
    listed = desk.listed.reset_index()
    expected = {
        hmac.new(key.read_bytes().strip(), f"study:{s.accession.lower()}".encode(), hashlib.sha256)
        .hexdigest()[:20]
        for s in desk.studies
    }  # fmt: skip
    assert set(listed["study_id"]) == expected
    assert listed["patient_id"].nunique() == len({study.patient for study in desk.studies})
    assert account["ids_replaced"] and not (desk.mine / "left_out.csv").exists()
    names = [path.name for path in desk.mine.rglob("*")]
    written = "".join((desk.mine / name).read_text("utf-8") for name in
                      ("studies.csv", "adopted.html", "adopted.json"))  # fmt: skip
    for study in desk.studies:
        for number in (study.accession, study.patient, study.uid):
            assert number not in written and not any(number in name for name in names)
    hashed = NewIds(read_key(key))
    assert hashed.patient("P7 ") == hashed.patient("p7") != hashed.patient("7")
    key.write_text("short")
    with pytest.raises(InputError, match="--key-file .*key: 5 bytes; expected 16 or more"):
        desk.adopt(reports, "--key-file", key)


def test_pictures_named_by_study_and_what_is_there_twice(desk: Desk) -> None:
    """PNG and JPEG below a folder a study; one is another patient's, one again, one damaged."""
    export = desk.export
    studies = desk.studies[:6]
    for number, study in enumerate(studies):
        (export / f"study {number}").mkdir(parents=True)
        values = study.frontal[0].pixel_array.astype(float)
        picture = Image.fromarray((255 * values / values.max()).astype("uint8"))
        picture.save(export / f"study {number}/chest.{'png' if number % 2 else 'jpg'}")
    shutil.copy(export / "study 0/chest.jpg", export / "study 0/chest again.jpg")
    picture.save(export / "study 0/chest_lateral.png")
    other = next(n for n, study in enumerate(studies) if study.patient != studies[0].patient)
    shutil.copy(export / "study 0/chest.jpg", export / f"study {other}/second.jpg")
    (export / "study 5/broken.png").write_bytes((export / "study 5/chest.png").read_bytes()[:200])
    (export / "study 77").mkdir()
    shutil.copy(export / "study 1/chest.png", export / "study 77/chest.png")
    header, rows = ["study", "patient id", "findings"], []
    for number, study in enumerate(studies):
        rows.append([f"Study {number}", study.patient, "The lungs are clear. No effusion."])
    said, account = desk.adopt(desk.table(header, rows))
    assert "images' paths" not in said and "(folder)" in said
    reasons = left_out(account)
    damage = [reason for reason in reasons if reason.startswith("image: damaged")]
    assert len(damage) == 1 and reasons.pop(damage[0]) == 1
    assert reasons == {
        "image: lateral view": 1,
        "image: the same file again in its study": 1,
        "image: patient not known": 1,
    }
    shared = {one["what"]: one["count"] for one in account["pictures"]}
    assert shared["images whose picture another patient has"] == 2
    assert len(list((desk.mine / "images").iterdir())) == 7
    page = (desk.mine / "adopted.html").read_text("utf-8")
    assert "images whose picture another patient has" in page and "The lungs" not in page
    assert page.count("<main>") == 1  # which screen readers jump to
    header.remove("patient id")
    alone = desk.table(header, [[s, f] for s, _, f in rows])
    with pytest.raises(InputError, match="no study has a report .*expected PatientID in the head"):
        desk.adopt(alone)


def test_what_is_wrong_is_said_in_a_line(desk: Desk) -> None:
    export, reports = desk.nested(), desk.accessions()
    rows = [[f"99-{study.patient}x", study.text] for study in desk.studies]
    foreign = desk.table(["number", "report"], rows, "foreign.csv")
    desk.monkeypatch.setitem(sys.modules, "openpyxl", None)
    (desk.root / "book.xlsx").write_bytes(b"PK")
    (desk.root / "nothing").mkdir()
    (desk.root / "nothing/notes.txt").write_text("a note")
    headless = desk.table(["1", "There is no effusion. Clear."], rows, "headless.csv")
    for words, said in (
        ([export, foreign], r"found 'number' 99-9+A .*accession numbers A99999.*--study-column"),
        ([export, desk.root / "book.xlsx"], "book.xlsx: openpyxl is not installed"),
        ([export, desk.root / "none.csv"], "none.csv: not found"),
        ([desk.root / "nothing", reports], "none of its 1 files is DICOM, PNG or JPEG"),
        ([export, headless], r"headless.csv: its first row holds \(a text of 28 characters\); exp"),
        ([export, reports, "--text-column", "Befund"], "no column 'Befund' .*found 'accession'"),
        ([export, reports, "--output", export / "mine"], "lies in the export"),
    ):
        with pytest.raises(InputError, match=said):
            main(list(map(str, ["--output", desk.mine, "--yes", *words])))
    assert not desk.mine.exists()


def test_a_check_of_the_configuration_opens_the_folder(desk: Desk) -> None:
    desk.nested()
    desk.adopt(desk.accessions())
    listed, lists = desk.listed.reset_index(), desk.mine / "studies.csv"
    (desk.mine / "reports/of_nobody.txt").write_text("FINDINGS: Clear lungs.")
    said = desk.checked(*OVER_TIME[:2])
    assert "reports of studies that are not listed: 1 (e.g. of_nobody)" in said
    dates = ["13/02/2019", "02/13/2019"] * len(listed)
    listed.assign(date=dates[: len(listed)]).to_csv(lists, index=False)
    assert f"dates: 0 of {len(listed)} studies have one" in desk.checked(*OVER_TIME[:2])
    with pytest.raises(InputError, match=r"column 'date' .* as 13/02/2019 beside .* biovil_t"):
        desk.checked(*OVER_TIME)
    listed.drop(columns="date").to_csv(lists, index=False)
    with pytest.raises(InputError, match=r"studies.csv: no study has a date .*biovil_t/biovil_t"):
        desk.checked(*OVER_TIME)
    named = listed.rename(columns={"study_id": "Study ID", "patient_id": "Patient ID"})
    named.to_csv(lists, index=False, sep=";")
    expected = r"studies.csv: .*expected study_id, patient_id, found Study ID;Patient ID;.*"
    with pytest.raises(InputError, match=rf"{expected}parted by commas; `cxrflow adopt"):
        desk.checked(*OVER_TIME[:2])
    assert desk.capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "view"),
    [
        *(
            ("PA", "PA"),
            ("CHEST AP", "AP"),
            ("postero-anterior", "PA"),
            ("Thorax lateral", "LATERAL"),
            ("Thorax p.a.", "PA"),
            ("a.p. liegend", "AP"),
        ),
        *(("LL", "LATERAL"), ("frontal", "FRONTAL"), ("CHEST PA AND LAT", None), ("CHEST", None)),
        ("capture", None),
    ],
)
def test_views_by_what_they_are_called(words: str, view: str | None) -> None:
    assert view_of(words) == view


@pytest.mark.parametrize(
    ("text", "day", "month"),
    [
        *(("2019-02-13", "2019-02-13", "2019-02-13"), ("20190213", "2019-02-13", "2019-02-13")),
        *(("03.02.2019 14:30", "2019-02-03 14:30", "2019-03-02 14:30"), ("13/02/19", None, None)),
        *(("02/13/2019 2:30 PM", None, "2019-02-13 14:30"), ("31/02/2019", None, None)),
        ("13-Feb-2019", "2019-02-13", "2019-02-13"),
    ],
)
def test_dates_by_the_order_of_day_and_month(text: str, day: str | None, month: str | None) -> None:
    for order, expected in (("day", day), ("month", month)):
        (read,) = read_dates(pd.Series([text]), order)  # type: ignore[arg-type]
        assert pd.isna(read) if expected is None else read == pd.Timestamp(expected)


def test_a_name_that_another_study_has_gets_the_first_number_that_is_free() -> None:
    """2019/1 and 2019-1 are one name of a file, and its numbered form may be a study's own."""
    taken: set[str] = set()
    for wanted, given in (("a-2", "a-2"), ("a", "a"), ("a", "a-3"), ("a-2", "a-2-2")):
        assert free_name(wanted, taken) == given
        taken.add(given)


def test_a_long_name_of_many_bytes_is_cut_where_a_character_ends() -> None:
    name = NewIds(None).study("a" + 200 * "\N{CJK UNIFIED IDEOGRAPH-6F22}", "P7", alone=True)
    assert len(name.encode()) <= 120 and len(name) == 40
