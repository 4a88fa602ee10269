"""Commands of the documentation, run as printed where a small demonstration has been made.

What a reader brings (a picture, a table of reports, a data set) is drawn; nothing else is changed.
"""

import re
import shutil
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image
from programs import change_parquet
from tiny_hospital import HOSPITAL, Stages

from cxr_files.atomic import file_digest
from cxr_hospital.draw import writer
from cxr_hospital.settings import HospitalSettings
from cxrflow.__main__ import main
from cxrflow.commands.ground import ground
from printed_commands import COMMANDS, TOP, of

# Programs whose commands need more than a demonstration leaves, and what runs them.
ELSEWHERE = {
    "adopt": "tests/unit/commands/test_adopt.py",
    "compare": "tests/unit/commands/test_compare.py",
    "cost": "tests/unit/config/test_config_cost.py",
    "draft": "the line before it trains its model",
    "import_weights": "tests/integration/test_imported_weights.py",
    "make_page": "tests/workflow/test_tiny_run.py",
    "plan": "tests/unit/config/test_plan.py",
    "record": "tests/unit/show/test_records.py",
    "rehearse": "tests/workflow/test_rehearsal.py",
}
# Lines that show what a command looks like, or what it says without an extra or of whole results.
SHOWN = ("--help", "--model biovil ", "…", "verify results/")
PAGES = {
    name: (TOP / "docs" / f"{name}.md").read_text("utf-8")
    for name in ("configuration", "extending", "library")
}


def printed(page: str, file: str) -> str:
    """A file that a page shows."""
    block = re.search(rf"^    # {file}\n((?:    .*\n|\n(?=    ))+)", PAGES[page], re.MULTILINE)
    assert block is not None, file
    return textwrap.dedent(block[1])


def runnable() -> list[str]:
    lines = [line for line in of("cxrflow") if COMMANDS[line][1] not in ELSEWHERE]
    return [line for line in lines if not any(part in line for part in SHOWN)]


def test_what_runs_elsewhere_is_printed_and_is_there() -> None:
    assert {COMMANDS[line][1] for line in of("cxrflow")} >= ELSEWHERE.keys()
    for place in ELSEWHERE.values():
        assert not place.startswith("tests/") or (TOP / place).is_file(), place


@pytest.fixture(scope="module")
def drawn(finished: Stages, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What a reader has, by the name that the pages give it."""
    folder = tmp_path_factory.mktemp("data")
    sizes = {**HOSPITAL, "nih_patients": 16, "chexpert_test_patients": 4}
    for name in ("nih", "chexpert"):
        writer(name)(HospitalSettings.model_validate(sizes), folder / name, 1)
    own = folder / "my_hospital"
    for part in ("reports", "images"):
        (own / part).mkdir(parents=True)
    pictures = sorted(finished.data("mimic_cxr").rglob("*.dcm"))[:4]
    rows = [f"{number},{number // 2}" for number in range(len(pictures))]
    (own / "studies.csv").write_text("\n".join(["study_id,patient_id", *rows, ""]), "utf-8")
    for number, picture in enumerate(pictures):
        shutil.copy(picture, own / f"images/{number}_1.dcm")
        text = "FINDINGS: Small left effusion.\nIMPRESSION: No pneumothorax.\n"
        (own / f"reports/{number}.txt").write_text(text, "utf-8")
    published = folder / "mimic-cxr"
    shutil.copytree(finished.data("mimic_cxr"), published)
    lists = sorted(published.glob("cxr-*-list.csv.gz"))
    sums = "".join(f"{file_digest(path)}  {path.name}\n" for path in lists)
    (published / "SHA256SUMS.txt").write_text(sums, "utf-8")
    return {
        "/data/chexpert": folder / "chexpert",
        "/data/own": own,
        "/data/my_hospital": own,
        "/data/ChestX-ray14": folder / "nih",
        "/data/mimic-cxr/2.1.0": published,
        "x.dcm": pictures[0],
    }


@pytest.fixture
def demonstration(
    finished: Stages, drawn: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A checkout's folder with results in the places of `make demo`'s, and a reader's files."""
    shutil.copytree(finished.models / "joint", tmp_path / "results/models/biovil/biovil/seed0")
    # So small a hospital has too few images to calibrate with, and to probe.
    cohorts = tmp_path / "results/cohorts/biovil"
    shutil.copytree(finished.cohort, cohorts / "mimic_cxr")
    shutil.copytree(finished.rsna, cohorts / "rsna")
    change_parquet(cohorts / "mimic_cxr/pairs.parquet", lambda rows: rows.assign(split="validate"))
    change_parquet(
        cohorts / "rsna/samples.parquet",
        lambda rows: rows.assign(labels=[[float(number % 2)] for number in range(len(rows))]),
    )
    places = {
        "cohorts/biovil/ms_cxr": finished.grounding,
        "pixels/biovil/mimic_cxr/shorter128": finished.pixels,
        "pixels/biovil/ms_cxr/shorter128": finished.results / "pixels-grounding",
        "pixels/biovil/rsna/shorter128": finished.results / "pixels-rsna",
        "phantom/mimic_cxr": finished.data("mimic_cxr"),
        "hospital/models/biovil/biovil/seed0": tmp_path / "results/models/biovil/biovil/seed0",
    }
    for name, folder in places.items():
        link = tmp_path / "results" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
    for file in TOP.glob("*.yaml"):
        shutil.copy(file, tmp_path)
    shutil.copy(drawn["x.dcm"], tmp_path / "x.dcm")
    own = printed("configuration", "mine.yaml").replace(
        "/data/my_hospital", str(drawn["/data/own"])
    )
    (tmp_path / "mine.yaml").write_text(own, "utf-8")
    (tmp_path / "my_method.yaml").write_text(printed("extending", "my_method.yaml"), "utf-8")
    reports = [("a", "Small left effusion."), ("b", "No pneumothorax.")]
    pd.DataFrame(reports, columns=["accession", "report"]).to_csv(
        tmp_path / "reports.csv", index=False
    )
    shutil.copytree(drawn["/data/own"] / "reports", tmp_path / "reports")
    images = pd.read_parquet(finished.rsna / "samples.parquet")["image_id"]
    vectors = [[float(number % 3), float(number % 2)] for number in range(len(images))]
    table = pd.DataFrame({"image_id": images, "vector": vectors}).drop_duplicates("image_id")
    table.to_parquet(tmp_path / "rad_dino.parquet")
    for name in ("one", "two"):
        Image.effect_noise((64, 64), 40).save(tmp_path / f"{name}.png")
    (tmp_path / "pictures.csv").write_text("path\none.png\ntwo.png\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CXR_HOSPITAL", str(drawn["/data/own"]))
    return tmp_path


@pytest.mark.parametrize("line", runnable())
def test_it_runs_as_printed(
    line: str,
    demonstration: Path,
    drawn: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = COMMANDS[line]
    for name in sorted(drawn, key=len, reverse=True):
        if name.startswith("/"):
            words = [word.replace(name, str(drawn[name])) for word in words]
    monkeypatch.setattr(sys, "argv", words)
    try:
        main()
    except SystemExit as end:
        assert not end.code, capsys.readouterr().err
    for before, word in zip(words, words[1:], strict=False):
        if before == "--output":
            assert (demonstration / word).exists(), line


def test_the_librarys_model_is_loaded_as_printed(demonstration: Path) -> None:
    block = re.search(r"```python\n(.*?cxrflow\.load.*?)```", PAGES["library"], re.DOTALL)
    assert block is not None
    names: dict[str, object] = {}
    exec(block[1], names)
    assert names["similarities"].shape == (1, 2)  # type: ignore[attr-defined]
    assert ground(names["model"], "x.dcm", ["Edema"]).peak(0)  # type: ignore[arg-type]
