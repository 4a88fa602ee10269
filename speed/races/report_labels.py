"""CheXpert labels of reports: the scope engine against medspaCy's ConText with the same phrases;
and the labelling program on as many reports as MIMIC-CXR has, in two processes and in one.

Reports of the first race are Open-I's where ``CXR_REAL_DATA`` is set, else the synthetic
hospital's. The peer needs an environment of its own (it pins numpy 1.26): ``python -m venv DIR &&
DIR/bin/pip install medspacy``, then ``BENCH_MEDSPACY=DIR/bin/python``. Without it there is no race,
only a rate.
"""

import csv
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cxr_hospital.patient import make_patient
from cxr_hospital.report import report_of
from cxr_hospital.settings import HospitalSettings
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.rules import read_rules
from cxr_labels.scope.labeller import ScopeLabeller
from cxr_labels.sections import parse_report
from cxr_labels.sentences import RuleSplitter
from cxr_labels.settings import SectionSettings
from cxrflow.reports.texts import read_texts
from speed.race import Measured, Race
from speed.subprocesses import run_module

PEER = Path(__file__).parents[1] / "medspacy_labels.py"


def open_i(root: Path) -> list[str]:
    """Findings and impression of every Open-I report."""
    texts = (report.sections or {} for report in read_texts("open_i", root))
    joined = (f"{t.get('findings', '')} {t.get('impression', '')}".strip() for t in texts)
    return [text for text in joined if text]


def _texts_of(patient: int) -> list[str]:
    """Findings and impression of every report of a synthetic patient."""
    settings = HospitalSettings()
    made = make_patient(settings, patient)
    texts = []
    for study in made.studies:
        parsed = parse_report(report_of(settings, made, study).text, SectionSettings()).sections
        text = " ".join(parsed.get(name, "") for name in ("findings", "impression")).strip()
        texts.append(_less_repetitive(text, patient))
    return texts


def _less_repetitive(text: str, patient: int) -> str:
    """Every second sentence gets a size that no other patient has: real reports repeat less."""
    sentences = text.split(". ")
    sizes = (f" {patient}.{number} mm" if number % 2 else "" for number in range(len(sentences)))
    return ". ".join(s.removesuffix(".") + size for s, size in zip(sentences, sizes, strict=True))


def synthetic(count: int) -> Iterator[str]:
    """The texts of ``count`` reports of the synthetic hospital that have any."""
    with ProcessPoolExecutor() as pool:
        # A patient has one study or more: this many are enough.
        found = (
            text for texts in pool.map(_texts_of, range(count), chunksize=50) for text in texts
        )
        for _, text in zip(range(count), filter(None, found), strict=False):
            yield text
        pool.shutdown(cancel_futures=True)


def _medspacy(python: str, reports: list[str]) -> Callable[[], Any]:
    """A turn of the peer, whose process stays so that its start-up does not count."""
    folder = TemporaryDirectory(prefix="cxrflow-race-")
    given = Path(folder.name) / "given.json"
    phrases = [
        (observation, phrase)
        for observation, kinds in read_rules("scope/mentions").items()
        for kind, rows in kinds.items()
        for phrase in rows
        if kind != "unless"
    ]
    given.write_text(json.dumps({"phrases": phrases, "reports": reports}), encoding="utf-8")
    process = subprocess.Popen(
        [python, str(PEER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"},
    )

    def turn() -> Any:
        assert process.stdin is not None and process.stdout is not None and folder
        process.stdin.write("go\n" if turned else f"{given}\ngo\n")
        process.stdin.flush()
        turned.append(True)
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{python}: medspaCy's pipeline ended (is medspacy installed?)")
        return json.loads(line)

    turned: list[bool] = []
    return turn


def races(most: int = 4000, command: int = 227_835) -> list[Race]:
    """One race over at most ``most`` reports on one core, one over ``command`` on several."""
    return [_engine(most), _command(command)]


def _command(count: int) -> Race:
    folder = TemporaryDirectory(prefix="cxrflow-race-")
    table = Path(folder.name) / "reports.csv"

    def run(processes: int) -> Measured:
        if not table.exists():
            with table.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["report"])
                writer.writerows([text] for text in synthetic(count))
        output = Path(folder.name) / f"{processes}.csv"
        arguments = ["--input", table, "--output", output, "--threads", processes]
        peak = run_module("cxr_labels.command", arguments, processes)
        return Measured(output.read_bytes(), peak)

    def check(mine: Any, theirs: Any) -> None:
        assert mine == theirs, "the labels depend on the number of processes"

    return Race(
        name="report_labels_command",
        what=f"{count} synthetic reports, from CSV to labels, two processes against one",
        ours=lambda: run(2),
        peers={"one process": lambda: run(1)},
        check=check,
        amount=count,
        unit="report",
        notes=[
            "compared: every byte of the output",
            "every second sentence is made unique, as real reports repeat less than synthetic ones",
            "times are those of whole programs, with start-up, reading and writing",
            "memory is that of all processes together",
        ],
        most_rounds=1,
    )


def _engine(most: int) -> Race:
    real = os.environ.get("CXR_REAL_DATA")
    reports = open_i(Path(real) / "open_i")[:most] if real else list(synthetic(most))
    splitter = RuleSplitter()

    def ours() -> Any:
        labeller = ScopeLabeller()
        return labeller.label([splitter.split_one(report) for report in reports])

    def check(mine: Any, theirs: Any) -> None:
        """Both call about as many findings present: the same reports and phrases were read."""
        assert len(mine) == len(theirs) == len(reports)
        position = {name: i for i, name in enumerate(OBSERVATIONS)}
        agreed = mentioned = 0
        for labels, mentions in zip(mine, theirs, strict=True):
            present = {n for n, negated, unsure in mentions if not negated and not unsure}
            absent = {n for n, negated, _ in mentions if negated}
            for name in ("Pleural Effusion", "Pneumothorax", "Atelectasis", "Edema", "Fracture"):
                value = labels[position[name]]
                if value == 1 or name in present:
                    mentioned += 1
                    agreed += value == 1 and name in present
                elif value == 0 or name in absent:
                    mentioned += 1
                    agreed += value == 0 and name in absent
        assert agreed >= 0.7 * mentioned, f"only {agreed} of {mentioned} labels agree"

    peer = os.environ.get("BENCH_MEDSPACY")
    return Race(
        name="report_labels",
        what=f"CheXpert labels of {len(reports)} reports of "
        f"{'Open-I' if real else 'the synthetic hospital'}, text to labels, one core",
        ours=ours,
        peers={"medspacy": _medspacy(peer, reports)} if peer else {},
        check=check,
        gates={"medspacy": 15.0} if peer else {},
        amount=len(reports),
        unit="report",
        notes=[
            "no sentence is remembered from one turn to the next; the tables of words are",
            "compared: five findings present or absent, at least 70 % agree (the two differ in "
            "their rules for negation, not in phrases)",
            "medspaCy: PyRuSH, target matcher, ConText with its own English rules",
        ],
        most_rounds=5,
    )
