"""The pages in a real headless Chromium, opened from disk: whole, readable, and quiet.

Needs Debian's packages ``chromium`` and ``chromium-driver``. What the page shows and hides is
tested without a browser in ``tests/unit/test_page_contents.py``.
"""

import contextlib
import csv
import json
import re
import shutil
import sys
import zlib
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_options import options

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from page_fixtures import REAL, load, write_results  # noqa: E402

from cxr_files.atomic import read_json, write_json  # noqa: E402
from cxrflow.show.page.make_page import main  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="no chromium and chromedriver here (Debian: apt-get install chromium "
        "chromium-driver)",
    ),
]
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PHONE, DESKTOP = 390, 1400
A4 = 718  # the width of the sheet in CSS pixels, less the margins
PAGES = {
    "synthetic": ({}, False),
    "three seeds and a control": ({"seeds": [0, 1, 2]}, True),
    "real": (REAL, False),
}
# Elements whose text is darker or paler than 4.5 times (3 times if large) their background's
# luminance, WCAG 2.1 AA. Backgrounds with a picture are left to the eye, except the ribbon's.
CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const rgba = (colour) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255);
};
const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
const luminance = (c) => c.slice(0, 3)
  .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const background = (element) => {
  const chain = [];
  for (let one = element; one; one = one.parentElement) chain.push(one);
  return chain.reverse().reduce(
    (below, one) => over(rgba(getComputedStyle(one).backgroundColor), below), [1, 1, 1]);
};
const bad = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const style = getComputedStyle(element);
  if (!own || !element.getClientRects().length) continue;
  if (element.closest("script, style, title, .ribbon, .hidden, .skip")) continue;
  const behind = background(element);
  const colour = element instanceof SVGElement ? style.fill : style.color;
  const [a, b] = [luminance(over(rgba(colour), behind)), luminance(behind)].sort((x, y) => y - x);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < (large ? 3 : 4.5))
    bad.push(`${element.tagName}.${element.className.baseVal ?? element.className} ` +
             `${ratio.toFixed(2)} ${element.textContent.trim().slice(0, 30)}`);
}
return [...new Set(bad)];
"""
# What sticks out of the window and is not inside something that scrolls by itself.
OVERFLOW = """
const wide = document.documentElement.clientWidth, bad = [];
for (const element of document.querySelectorAll("body *")) {
  const box = element.getBoundingClientRect();
  if (!box.width || box.right <= wide + 1) continue;
  let inside = false;
  for (let one = element.parentElement; one; one = one.parentElement)
    if (["auto", "scroll", "hidden"].includes(getComputedStyle(one).overflowX)) inside = true;
  if (!inside && !element.closest("svg")) bad.push(element.tagName + "." + element.className);
}
return [document.documentElement.scrollWidth, wide, bad];
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Chromium of its own, with the log of what it loads."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def add_speeds(root: Path) -> None:
    """How fast each training was."""
    facts = {"flops_per_second": 4.19e14, "mfu": 0.4237, "data_wait_share": 0.021}
    for path in root.glob("models/biovil/*/seed*/run.json"):
        write_json(path, {**read_json(path), **facts})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages, each from results of its own."""
    found = {}
    for name, (changes, controls) in PAGES.items():
        root = tmp_path_factory.mktemp("results")
        config = write_results(root, load(**changes), controls)
        if controls:
            add_speeds(root)
        found[name] = root / "report/index.html"
        main(options(config=config, results=root, output=found[name]))
    return found


def of_paper(front: Path) -> Path:
    """The page of BioViL beside the first one."""
    return front.with_name("index_files") / "biovil.html"


def all_of(front: Path) -> list[Path]:
    """The first page and those beside it."""
    return [front, *sorted(front.with_name("index_files").iterdir())]


def show(browser: Any, path: Path, width: int, scheme: str = "light", anchor: str = "") -> None:
    """Open the page afresh at a width and in a colour scheme."""
    from selenium.webdriver.support.wait import WebDriverWait

    metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    media = {"media": "print" if width == A4 else "", "features": features}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(path.as_uri() + anchor)
    # On a busy machine the driver may come back while the page is still being read.
    loaded = "return document.readyState === 'complete' && location.protocol === 'file:'"
    WebDriverWait(browser, 60).until(lambda seen: seen.execute_script(loaded))


def requested(browser: Any) -> list[str]:
    """Addresses the page asked for."""
    entries = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [entry for entry in entries if entry["method"] == "Network.requestWillBeSent"]
    return [entry["params"]["request"]["url"] for entry in requests]


@pytest.mark.parametrize("name", PAGES)
def test_it_loads_nothing_but_itself_and_complains_of_nothing(browser, built, name):
    for page in all_of(built[name]):
        show(browser, page, DESKTOP)
        asked = [url for url in requested(browser) if not url.startswith("data:image/webp;base64,")]
        assert asked == [page.as_uri()]
        assert browser.get_log("browser") == []


def test_nothing_outside_can_be_loaded_even_if_asked_for(browser, built, tmp_path):
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"")
    show(browser, built["synthetic"], DESKTOP)
    image = "const image = new Image(); image.src = arguments[0]; document.body.append(image);"
    browser.execute_script(image, picture.as_uri())
    said = " ".join(entry["message"] for entry in browser.get_log("browser"))
    assert "Content Security Policy" in said


def test_all_pictures_are_whole(browser, built):
    show(browser, of_paper(built["synthetic"]), DESKTOP)
    images = "[...document.images].map((i) => [i.complete, i.naturalWidth, i.alt.length])"
    sizes = browser.execute_script(f"return {images}")
    assert len(sizes) == 9
    assert all(complete and width > 100 and words > 20 for complete, width, words in sizes)


@pytest.mark.parametrize("width", [PHONE, 700, DESKTOP])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_sticks_out_sideways(browser, built, name, width):
    for page in all_of(built[name]):
        show(browser, page, width)
        browser.execute_script("document.querySelectorAll('details').forEach((d) => d.open = true)")
        scroll, wide, bad = browser.execute_script(OVERFLOW)
        assert width - 20 <= wide <= width  # a scroll bar may take some
        assert scroll <= wide, page
        assert bad == [], page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(browser, built, scheme):
    for page in all_of(built["three seeds and a control"]):
        show(browser, page, DESKTOP, scheme)
        browser.execute_script("document.querySelectorAll('details').forEach((d) => d.open = true)")
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(18, 17, 16)") == (scheme == "dark")
        assert browser.execute_script(CONTRAST) == []


def test_the_checks_of_this_file_find_what_they_look_for(browser, built):
    show(browser, built["synthetic"], PHONE)
    browser.execute_script(
        "document.querySelector('main').insertAdjacentHTML('beforeend',"
        "'<p id=bad style=\"color:#bbb;background:#fff;width:900px\">pale and wide</p>')"
    )
    assert [one for one in browser.execute_script(CONTRAST) if "pale and wide" in one]
    assert browser.execute_script(OVERFLOW)[2] == ["P."]


def test_text_on_a_phone_is_large_enough_to_read(browser, built):
    show(browser, built["synthetic"], PHONE)
    smallest = browser.execute_script(
        """
        return Math.min(...[...document.querySelectorAll(".chart text, p, td, li")]
          .filter((e) => e.getClientRects().length)
          .map((e) => parseFloat(getComputedStyle(e).fontSize) *
            (e.ownerSVGElement ? e.ownerSVGElement.getScreenCTM().a : 1)))
        """
    )
    assert smallest >= 8.5


def test_contents_are_folded_on_a_phone_and_beside_the_page_on_a_desktop(browser, built):
    opened = "return document.getElementById('contents').open"
    page = of_paper(built["synthetic"])
    show(browser, page, DESKTOP)
    assert browser.execute_script(opened) is True
    boxes = "['nav', 'main'].map((t) => document.querySelector(t).getBoundingClientRect().x)"
    nav, main = browser.execute_script(f"return {boxes}")
    assert nav < main
    show(browser, page, PHONE)
    assert browser.execute_script(opened) is False
    browser.find_element("css selector", "#contents summary").click()
    assert browser.execute_script(opened) is True
    browser.find_element("css selector", "#contents a[href='#biovil-training']").click()
    assert browser.execute_script(opened) is False


def test_folded_parts_open_by_click_and_by_link(browser, built):
    show(browser, of_paper(built["synthetic"]), DESKTOP)
    opened = "return document.getElementById('settings-biovil-biovil').open"
    assert browser.execute_script(opened) is False
    for folded in ("#biovil-training > details", "#model-biovil-biovil", "#settings-biovil-biovil"):
        summary = browser.find_element("css selector", f"{folded} > summary")
        browser.execute_script("arguments[0].click()", summary)
    assert browser.execute_script(opened) is True
    assert browser.find_element("css selector", "#settings-biovil-biovil pre").is_displayed()
    # A table without values of ours is folded, and a link to it unfolds it.
    show(browser, of_paper(built["real"]), DESKTOP)  # no images with boxes there
    folded = "return document.getElementById('fold-biovil-table7').open"
    assert browser.execute_script(folded) is False
    show(browser, of_paper(built["real"]), DESKTOP, anchor="#biovil-table7")
    assert browser.execute_script(folded) is True


# Cells of a paper's table that are not wholly to be seen where the table stands.
CUT = """
return [...document.querySelectorAll(".paper-table")].flatMap((table) => {
  const place = table.getBoundingClientRect();
  return [...table.querySelectorAll("td, tbody th")].filter((cell) => {
    const box = cell.getBoundingClientRect();
    return cell.textContent.trim() && (!box.width || box.left < place.left - 1 ||
      box.right > place.right + 1 || cell.scrollWidth > cell.clientWidth + 1);
  }).map((cell) => table.id + ": " + cell.textContent.trim());
});
"""
# Whether some of them are stacked there; on paper the type is smaller.
STACKED = {PHONE: True, 768: True, DESKTOP: False, A4: False}


def test_on_paper_nothing_is_cut(browser, built):
    wide = "return [...document.querySelectorAll('main *')].filter((one) => one.clientWidth && "
    wide += f"one.getBoundingClientRect().right > {A4} && !one.closest('svg'))"
    for page in all_of(built["three seeds and a control"]):
        show(browser, page, A4)
        browser.execute_script("document.querySelectorAll('details').forEach((d) => d.open = true)")
        found = browser.execute_script(f"{wide}.map((one) => one.outerHTML.slice(0, 80))")
        assert found == [], page


@pytest.mark.parametrize(("width", "stacked"), STACKED.items())
def test_no_table_hides_a_column(browser, built, width, stacked):
    """On a phone, on a tablet, on a desktop, on paper; the verdicts on rankings, too."""
    show(browser, of_paper(built["three seeds and a control"]), width)
    browser.execute_script("document.querySelectorAll('details').forEach((d) => d.open = true)")
    cut = browser.execute_script(CUT)
    assert cut == [], cut[:20]
    count = "return [...document.querySelectorAll('.paper-table thead')].filter((head) => "
    count += "getComputedStyle(head).display === 'none').length"
    assert (browser.execute_script(count) > 0) == stacked
    cells = "[...document.querySelectorAll('td.found')].map((one) => one.textContent)"
    verdicts = browser.execute_script(f"return {cells}")
    assert [one for one in verdicts if "does not hold" in one or "holds" in one]


def test_the_check_for_cut_columns_finds_them(browser, built):
    show(browser, of_paper(built["synthetic"]), PHONE)
    browser.execute_script(
        "document.querySelector('#biovil-table5 tbody').style.display = 'table-row-group';"
        "for (const one of document.querySelectorAll('#biovil-table5 tr'))"
        "  one.style.display = 'table-row';"
    )
    assert any(one.startswith("biovil-table5") for one in browser.execute_script(CUT))


def test_nothing_is_said_to_a_pointer_alone(browser, built):
    for page in reversed(all_of(built["three seeds and a control"])[:2]):
        show(browser, page, PHONE)
        assert browser.execute_script("return document.querySelectorAll('[title]').length") == 0
    show(browser, of_paper(built["three seeds and a control"]), PHONE)
    shown = "return document.querySelector('#biovil-table6 details li').checkVisibility()"
    assert browser.execute_script(shown) is False
    summary = browser.find_element("css selector", "#biovil-table6 details > summary")
    summary.send_keys("\n")  # by the keyboard; a touch is a click
    assert browser.execute_script(shown) is True


WORDS = """
const body = document.body.cloneNode(true);
for (const one of body.querySelectorAll("script, style, noscript")) one.remove();
return [document.documentElement.scrollHeight, body.textContent.trim().split(/\\s+/).length];
"""


def test_five_papers_open_within_a_second_and_are_short(browser, tmp_path):
    """Four more papers, each with every table of the first and pictures of its own."""
    config = load()
    papers: list[Any] = ["biovil"]
    headline = [{"table": part.table} for part in config.library.chosen["biovil"].headline]
    for number in range(4):
        tables = {
            name: {"extends": f"biovil/{name}"} for name in config.library.chosen["biovil"].tables
        }
        papers.append(str(tmp_path / f"copy{number}.yaml"))
        said = {"title": f"Copy {number}: of BioViL", "tables": tables, "headline": headline}
        write_json(Path(papers[-1]), said)
    root = tmp_path / "results"
    written = write_results(root, load(papers=papers))
    page = root / "report/index.html"
    main(options(config=written, results=root, output=page))
    assert all(50_000 < each.stat().st_size < 3_000_000 for each in all_of(page))
    # Time of the thread that reads, lays out and draws: the machine may be busy with other things.
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    show(browser, page, DESKTOP)
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    browser.execute_cdp_cmd("Performance.disable", {})
    (took,) = (one["value"] for one in metrics if one["name"] == "TaskDuration")
    assert 0.01 < took < 1
    height, count = browser.execute_script(WORDS)
    assert 1000 < height <= 8000 and 1000 < count <= 9000


def test_every_table_and_scrolling_part_can_be_reached_and_named(browser, built):
    for page in all_of(built["synthetic"]):
        show(browser, page, DESKTOP)
        assert browser.execute_script(UNNAMED) == []


UNNAMED = """
        const bad = [];
        for (const th of document.querySelectorAll("th"))
          if (!th.scope) bad.push("th without scope: " + th.textContent);
        for (const part of document.querySelectorAll(".scroll"))
          if (part.tabIndex !== 0 || !(part.getAttribute("aria-label") ||
              document.getElementById(part.getAttribute("aria-labelledby"))))
            bad.push("scrolling part without name or focus");
        for (const chart of document.querySelectorAll("svg"))
          if (!chart.getAttribute("aria-label")) bad.push("chart without words");
        return bad;
"""


def test_what_scrolls_sideways_can_be_reached_by_the_keyboard(browser, tmp_path):
    config = write_results(tmp_path, load(extent="headline"), False)
    page = tmp_path / "report/index.html"
    main(options(config=config, results=tmp_path, output=page))
    show(browser, of_paper(page), 320)
    browser.execute_script("document.querySelectorAll('details').forEach((d) => d.open = true)")
    scrolling = """
    return [...document.querySelectorAll("main *")].filter((one) =>
      ["auto", "scroll"].includes(getComputedStyle(one).overflowX) &&
      one.scrollWidth > one.clientWidth + 1
    ).map((one) => [one.tabIndex, one.tagName, one.textContent.slice(0, 60)])"""
    found = browser.execute_script(scrolling)
    assert any(tag == "PRE" for _, tag, _ in found)
    assert [one for one in found if one[0] < 0] == []


def test_the_word_synthetic_stays_in_sight(browser, built):
    show(browser, built["synthetic"], PHONE)
    browser.execute_script("window.scrollTo(0, document.body.scrollHeight / 2)")
    top, text = browser.execute_script(
        "const r = document.querySelector('.ribbon');"
        "return [r.getBoundingClientRect().top, r.textContent]"
    )
    assert top == 0 and "Synthetic data" in text


def test_it_prints_what_is_unfolded_and_all_of_it_on_request(browser, built):
    show(browser, of_paper(built["synthetic"]), DESKTOP)
    folded = "return document.querySelectorAll('main details:not([open]):not(:has(> pre))').length"
    assert browser.execute_script(folded) > 0
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    browser.find_element("id", "unfold").click()
    assert browser.execute_script(folded) == 0
    whole = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert 50_000 < len(printed) < len(whole)


def test_paper_is_white_whatever_the_screen_is(browser, built):
    for page in all_of(built["three seeds and a control"]):
        show(browser, page, A4, "dark")
        browser.execute_script("document.querySelectorAll('details').forEach((d) => d.open = true)")
        assert browser.execute_script(CONTRAST) == []
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)"


def lines_on_first_sheet(browser: Any) -> int:
    """How many pieces of text stand on the first sheet of paper."""
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"pageRanges": "1"})["data"]
    count = 0
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", b64decode(printed), re.DOTALL):
        with contextlib.suppress(zlib.error):  # a font or a picture
            count += len(re.findall(rb"\bT[jJ]\b", zlib.decompressobj().decompress(stream)))
    return count


def test_the_first_sheet_of_paper_has_what_was_found(browser, built):
    """A table longer than a sheet, which as one block would leave it to the ribbon."""
    show(browser, built["three seeds and a control"], DESKTOP)
    browser.execute_script(
        "const body = document.querySelector('.board tbody');"
        "for (let n = 0; n < 3; n++) body.append(...[...body.rows].map((r) => r.cloneNode(true)));"
    )
    found = lines_on_first_sheet(browser)
    browser.execute_script("document.querySelector('h1').style.breakBefore = 'page'")
    assert found > 5 * lines_on_first_sheet(browser) > 0


def test_a_command_is_whole_on_a_phone_and_can_be_copied(browser, built):
    show(browser, built["synthetic"], PHONE)
    browser.execute_script("document.querySelectorAll('details').forEach((d) => d.open = true)")
    cut = """
    return [...document.querySelectorAll("pre, pre > code, .word")].filter((one) =>
      one.clientWidth && one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"""
    assert browser.execute_script(cut) == []
    browser.execute_script("navigator.clipboard.writeText = async (text) => { window.got = text; }")
    button = browser.find_element("css selector", "#next .copy")
    browser.execute_script("arguments[0].click()", button)
    copied = browser.execute_script("return window.got")
    assert copied == "snakemake --cores all controls\nsnakemake --cores all --forcerun make_page"


def texts(browser, column: int) -> list[str]:
    """A column of the table of all scores."""
    cells = f"document.querySelectorAll('.living tbody td:nth-child({column})')"
    return browser.execute_script(f"return [...{cells}].map((cell) => cell.textContent)")


def test_all_scores_are_filtered_sorted_and_written(browser, built):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select
    from selenium.webdriver.support.wait import WebDriverWait

    show(browser, built["synthetic"], DESKTOP)
    said = browser.find_element("css selector", "#living [aria-live]")
    assert said.text.startswith("20 of ") and len(texts(browser, 1)) == 20
    more = browser.find_element("css selector", "#living .more")
    browser.execute_script("arguments[0].click()", more)
    assert len(texts(browser, 1)) == 120
    head = browser.find_element("css selector", ".living th:nth-child(6) button")
    for down in (True, False):
        browser.execute_script("arguments[0].click()", head)
        values = [float(text) for text in texts(browser, 6)]
        assert len({*values}) > 1 and values == sorted(values, reverse=down)
    browser.find_element("css selector", "#living [type=search]").send_keys("biovil 1 %")
    assert " in all" in said.text
    Select(browser.find_elements("css selector", "#living select")[1]).select_by_value("Table 6")
    assert {*texts(browser, 2)} == {"Table 6"}
    browser.execute_script(
        "URL.createObjectURL = (blob) => { blob.text().then((text) => { window.got = text; });"
        " return '#'; }"
    )
    browser.find_element("css selector", "#living form button").send_keys(Keys.ENTER)
    written = WebDriverWait(browser, 30).until(lambda b: b.execute_script("return window.got"))
    head, *lines = csv.reader(written.splitlines())
    assert head[:5] == ["paper", "table", "row", "score", "labels"] and head[-1] == "value"
    shown = texts(browser, 3)  # the file has the lines that are not shown yet, too
    assert len(lines) >= len(shown) > 0 and {line[1] for line in lines} == {"Table 6"}
    assert [line[2] for line in lines[: len(shown)]] == shown
    values = [f"{float(line[-1]):.3f}" for line in lines[: len(shown)]]
    assert values == texts(browser, 6)
