"""The labeller's page: built, equal to the labeller, and used in a headless Chromium.

Needs npm, which fetches Pyodide. What reads texts outside a browser needs Node, what opens the page
Debian's packages ``chromium`` and ``chromium-driver``.
"""

import base64
import functools
import gzip
import hashlib
import http.server
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest
from test_page import CONTRAST, DESKTOP, OVERFLOW, PHONE, browser, pytestmark, requested

from cxr_hospital.patient import make_patient
from cxr_hospital.report import report_of
from cxr_hospital.settings import HospitalSettings
from cxr_labels import label_rows
from cxr_labels.labelling import REASONS
from cxr_labels.observations import OBSERVATIONS
from cxrflow.programs.source_code import PACKAGES

in_browser, without_chromium = pytestmark
pytestmark = []
__all__ = ["browser"]  # a fixture

TOP = Path(__file__).parents[2]
SOURCES = PACKAGES["cxr_labels"].parent / "browser"
LABELLED_TEXTS = PACKAGES["cxr_labels"].parent / "tests/label_sentences"
FETCHED = TOP / "build/pyodide"  # where `make docs` fetches it to
TEXTS = 5_000
MEGABYTES = 15
# What a hospital's reports do not hold.
ODD = (
    *("", " \n", "No edema.\r\nSmall effusion.\r", "\ud800 No edema.", "\N{LUNGS} Small effusion."),
    *("Kein Erguss, kein Pneumothorax, Herz nicht vergrößert.", "Report pending", "x" * 200_001),
    *('{"findings": "Small left effusion.", "impression": "Effusion."}', "Œdème: no edema\x00."),
    "<p>FINDINGS: No edema.</p><p>IMPRESSION: Effusion &amp; fracture</p>",
    "FINDINGS: No effusion.\n\nADDENDUM: There is a large effusion.",
    "INDICATION: " + 40 * "Fever and cough. " + "\n\nFINDINGS: Clear lungs.",
    "OBX|1|TX|||FINDINGS: Small effusion.\nOBX|2|TX|||IMPRESSION: No edema.",
)


def build(output: Path, pyodide: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SOURCES / "build.py", output, "--pyodide", pyodide]
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "label/index.html"
    built = build(path, FETCHED)
    assert built.returncode == 0, built.stderr
    if not path.exists():
        pytest.skip(built.stderr.strip().splitlines()[-1])
    return path


def texts() -> list[str]:
    """Different texts: odd ones, those with known labels, and the synthetic hospital's reports."""
    found = dict.fromkeys(ODD)
    for path in sorted(LABELLED_TEXTS.glob("*.tsv")):
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        column = header.split("\t").index("sentence")
        found |= dict.fromkeys(line.split("\t")[column] for line in lines)
    for path in sorted(LABELLED_TEXTS.glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        found |= dict.fromkeys(json.loads(line)["text"] for line in lines)
    settings, index = HospitalSettings(), 0
    while len(found) < TEXTS:
        patient = make_patient(settings, index)
        index += 1
        reports = (report_of(settings, patient, study) for study in patient.studies)
        found |= dict.fromkeys(report.text for report in reports)
    return list(found)


def unpacked(page: Path, folder: Path) -> Path:
    """The files that the page holds, as it holds them."""
    text = page.read_text(encoding="utf-8")
    for name, content in re.findall(r'<script type="text/plain" id="([\w.]+)">([^<]+)<', text):
        (folder / name).write_bytes(gzip.decompress(base64.b64decode(content)))
    (lock,) = re.findall(r'<script type="application/json" id="lock">([^<]+)<', text)
    (folder / "lock").write_text(lock, encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
def test_it_says_what_the_labeller_says(page: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """Outcome, labels, reasons and places of 5,000 texts, to the letter."""
    monkeypatch.syspath_prepend(str(SOURCES))
    read = importlib.import_module("pasted_report").report_reader()
    given = texts()
    folder = unpacked(page, tmp_path)
    (folder / "texts.json").write_text(json.dumps(given), encoding="ascii")
    node = [shutil.which("node") or "", Path(__file__).with_name("label_page_in_node.mjs"), folder]
    ran = subprocess.run(node, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    seen = json.loads((folder / "read.json").read_text(encoding="utf-8"))
    assert len(seen) == len(given) >= TEXTS
    differing = [text for text, one in zip(given, seen, strict=True) if one != read(text)]
    assert differing == []
    labelled = [json.loads(one)["labels"] for one in seen if json.loads(one)["labels"]]
    stated = {(name, value) for labels in labelled for name, value in labels.items()}
    assert len(labelled) > 0.9 * TEXTS and {name for name, value in stated if value == 1} == {
        *OBSERVATIONS
    }


def test_its_reader_gives_the_labels_of_the_library(monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(SOURCES))
    read = importlib.import_module("pasted_report").report_reader()
    given = [*ODD, "Small left effusion. No pneumothorax.", "CHF. Florid things."]
    for text, row in zip(given, label_rows(given), strict=True):
        seen = json.loads(read(text))
        assert seen["outcome"] == row["outcome"]
        labels = seen["labels"] or dict.fromkeys(OBSERVATIONS)
        assert labels == {name: row[name] for name in OBSERVATIONS}
        assert all(reason.keys() == {*REASONS} for reason in seen["reasons"])


def test_it_is_small_and_each_build_gives_the_same(page: Path, tmp_path: Path) -> None:
    assert page.stat().st_size < MEGABYTES * 1_000_000
    assert build(tmp_path / "again.html", FETCHED).returncode == 0
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_without_npm_one_line_says_so_and_no_older_page_stays(tmp_path: Path) -> None:
    output = tmp_path / "index.html"
    output.write_text("older")
    built = build(output, tmp_path / "pyodide", PATH=str(tmp_path))
    assert built.returncode == 0 and not output.exists()
    assert built.stderr == f"{output}: the labeller's page was not built: npm is not installed\n"


def npm_with(folder: Path, script: str) -> str:
    """A PATH whose npm is a shell script."""
    folder.mkdir()
    npm = folder / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    npm.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def test_without_the_registry_npm_s_own_words_say_why(tmp_path: Path) -> None:
    path = npm_with(tmp_path / "bin", "echo 'npm error network unreachable' >&2; exit 1")
    built = build(tmp_path / "index.html", tmp_path / "pyodide", PATH=path)
    assert built.returncode == 0 and not (tmp_path / "index.html").exists()
    assert built.stderr.endswith(
        "npm could not fetch pyodide@314.0.7: npm error network unreachable\n"
    )


def test_another_file_than_the_expected_one_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "pyodide.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("package/pyodide.mjs")
        member.size = 5
        tar.addfile(member, io.BytesIO(b"other"))
    path = npm_with(tmp_path / "bin", f'cp {archive} "$5"')
    built = build(tmp_path / "index.html", tmp_path / "pyodide", PATH=path)
    assert built.returncode == 2 and not (tmp_path / "index.html").exists()
    assert not list((tmp_path / "pyodide").iterdir())
    digest = hashlib.sha256(b"other").hexdigest()
    assert f"pyodide.mjs has the SHA-256 {digest}; expected " in built.stderr


def started(browser: Any, address: str) -> None:
    """Open the page and wait for the example's labels."""
    from selenium.webdriver.support.wait import WebDriverWait

    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(address)
    ended = ("Labelled in", "The labeller did not start")
    WebDriverWait(browser, 600).until(lambda seen: status(seen).startswith(ended))


@pytest.fixture
def opened(browser: Any, page: Path) -> Any:
    """The browser with the page, from disk; it is opened once."""
    if browser.current_url != page.as_uri():
        started(browser, page.as_uri())
    return browser


ROWS = """
return [...document.querySelectorAll("#labels tbody tr")].map((row) => [
  row.cells[0].textContent, row.cells[1].textContent,
  [...row.querySelectorAll("mark")].map((one) => one.textContent),
  [...row.querySelectorAll("u")].map((one) => one.textContent)])
"""


def typed(browser: Any, text: str) -> dict[str, tuple[str, list[str], list[str]]]:
    """Put a text into the page as a person pastes it; by observation label, findings and cues."""
    from selenium.webdriver.support.wait import WebDriverWait

    browser.find_element("id", "clear").click()  # it moves the focus to the text
    WebDriverWait(browser, 60).until(lambda seen: "no text" in status(seen))
    # Keys cannot give characters beyond the basic plane.
    browser.execute_cdp_cmd("Input.insertText", {"text": text})
    WebDriverWait(browser, 60).until(lambda seen: "no text" not in status(seen))
    return {
        name: (label, findings, cues)
        for name, label, findings, cues in browser.execute_script(ROWS)
    }


def status(browser: Any) -> str:
    return str(browser.find_element("id", "status").text)


@in_browser
@without_chromium
class TestInBrowser:
    def test_it_starts_from_disk_with_an_example_and_without_complaint(self, opened, page):
        asked = [url for url in requested(opened) if not url.startswith("blob:null/")]
        assert asked == [page.as_uri()]
        assert opened.get_log("browser") == []
        rows = {row[0]: row[1] for row in opened.execute_script(ROWS)}
        assert list(rows) == list(OBSERVATIONS)
        assert (rows["Pneumonia"], rows["Edema"]) == ("−1 uncertain", "0 absent")
        assert status(opened).startswith("Labelled in ")

    def test_a_typed_report_shows_its_labels_and_the_words_behind_them(self, opened):
        opened.get_log("performance")
        rows = typed(
            opened, "INDICATION: Edema?\n\nFINDINGS: \N{LUNGS} No pneumothorax. Small effusion."
        )
        assert rows["Pneumothorax"] == ("0 absent", ["pneumothorax"], ["No"])
        assert rows["Pleural Effusion"] == ("1 present", ["effusion"], [])
        assert rows["Edema"] == ("not mentioned", [], [])
        parts = opened.find_elements("css selector", "#sections .part")
        assert [part.text.splitlines() for part in parts] == [
            ["Indication left out", "Edema?"],
            ["Findings labelled", "\N{LUNGS} No pneumothorax. Small effusion."],
        ]
        marks = opened.find_elements("css selector", "#sections mark")
        assert [mark.text for mark in marks] == ["pneumothorax", "effusion"]
        assert requested(opened) == []

    def test_no_finding_says_why_it_is_given_or_withheld(self, opened):
        assert typed(opened, "No edema.")["No Finding"][0] == "1 present"
        rows = typed(opened, "No edema. Florid things.")
        assert rows["No Finding"][:2] == ("not given", ["Florid"])

    def test_a_text_that_cannot_be_labelled_says_so(self, opened):
        typed(opened, "Kein Erguss, kein Pneumothorax, Herz nicht vergrößert.")
        assert "too few words are known to be English" in status(opened)
        assert not opened.find_element("id", "labels").is_displayed()
        opened.find_element("id", "example").click()
        typed(opened, "See separate CT report.")
        assert "no statement on the chest" in status(opened)

    @pytest.mark.parametrize("width", [PHONE, DESKTOP])
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_it_can_be_read_on_a_phone_and_in_the_dark(self, opened, width, scheme):
        typed(opened, "FINDINGS: Possible edema, no effusion. Wide heart. Florid things.")
        metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width == PHONE}
        opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        paper = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(18, 17, 16)") == (scheme == "dark")
        assert opened.execute_script(CONTRAST) == []
        scroll, wide, bad = opened.execute_script(OVERFLOW)
        assert scroll <= wide and bad == []

    def test_the_keyboard_alone_is_enough(self, opened):
        from selenium.webdriver.common.keys import Keys

        order = []
        opened.execute_script(
            "document.activeElement.blur(); window.getSelection().removeAllRanges()"
        )
        opened.find_element("id", "clear").send_keys(Keys.ENTER)
        assert opened.switch_to.active_element.get_attribute("id") == "report"
        for _ in range(2):
            opened.switch_to.active_element.send_keys(Keys.SHIFT, Keys.TAB)
            order.append(opened.switch_to.active_element.get_attribute("id"))
        assert order == ["example", "clear"]
        assert opened.find_element("id", "report").accessible_name == "Report"

    def test_nothing_reaches_a_server_but_the_first_request(self, browser, page):
        asked: list[str] = []

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *words: Any) -> None:
                asked.append(self.command + " " + self.path)

        handler = functools.partial(Handler, directory=str(page.parents[1]))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                address = f"http://127.0.0.1:{server.server_port}/label/"
                started(browser, address)
                assert typed(browser, "Small effusion.")["Pleural Effusion"][0] == "1 present"
                # Even a script that is let in could not send: the page's policy forbids it.
                tried = browser.execute_async_script(
                    "const done = arguments[arguments.length - 1];"
                    "const image = new Image(); image.src = 'secret'; document.body.append(image);"
                    "navigator.sendBeacon('secret', 'text');"
                    "fetch('secret').then(() => done('sent'), () => done('refused'))"
                )
                assert tried == "refused"
                said = " ".join(entry["message"] for entry in browser.get_log("browser"))
                assert "Content Security Policy" in said
            finally:
                server.shutdown()
        assert asked == ["GET /label/"]

    def test_an_old_browser_is_told_so(self, browser, page):
        from selenium.webdriver.support.wait import WebDriverWait

        source = {"source": "delete globalThis.DecompressionStream"}
        added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)
        try:
            browser.get(page.as_uri())
            WebDriverWait(browser, 60).until(lambda seen: "too old" in status(seen))
        finally:
            browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
