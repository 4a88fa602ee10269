"""Recompute the tables of a results folder from what it holds, without data, training or GPU.

In the order of a run: files by their ``SHA256SUMS``, scores and their intervals from predictions,
paired tests from predictions, the cells of tables and rankings from scores and tests. The first
product that differs is the error. The root is one digest of all lists and tables.
"""

import logging
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cxr_files.atomic import CHECKSUMS, file_digest, read_checksums, read_sealed
from cxr_files.errors import InputError
from cxr_files.outputs import MARK
from cxr_files.parquet import read_table
from cxr_files.progress import progress
from cxrflow.benchmarks.paired_tests import read_predictions, tested
from cxrflow.benchmarks.registry import BENCHMARKS, imported
from cxrflow.benchmarks.result import estimate
from cxrflow.benchmarks.settings import IntervalSettings, PairedTestSettings
from cxrflow.images.copies import RECORD
from cxrflow.metrics.record import read_metrics
from cxrflow.papers.table import HEADLINE, Result
from cxrflow.show.page.inputs import RunFolder
from cxrflow.show.page.root import PASSING, checksum_lists, root_of
from cxrflow.show.tables.cells import make_cells
from cxrflow.show.tables.orderings import compare, orderings_csv
from cxrflow.show.tables.rendering import table_csv
from cxrflow.show.tables.results import left_out, read_results
from cxrflow.show.tables.tests import Tests, read_tests
from cxrflow.show.tables.text import COMMENTED, summed_text

log = logging.getLogger("cxrflow")

ROUNDING = 1e-6  # relative, between machines
ABSOLUTE = 1e-9
PNG = b"\x89PNG\r\n\x1a\n"  # what such a file begins with
NAMED = 3  # folders in a warning
SUM_LINE = re.compile(r"[0-9a-f]{64}  (?!.*[0-9a-f]{64})\S.*")


def verify_results(root: Path, threads: int) -> Iterator[str]:
    """Yield what was compared, a line a kind of product.

    Raises:
        InputError: the first product that differs from what it was made of.
    """
    yield _files(root, threads)
    yield _texts(root)
    yield _scores(root)
    records = sorted(root.glob("report/**/config.json"))
    if not records:
        raise InputError(f"{root / 'report/config.json'}: file not found; expected a run's record")
    followed: set[Path] = set()
    for record in records:
        yield from _tables(RunFolder.read(record, root), followed)
    if others := sorted({*root.glob("tables/**/*.csv")} - followed):
        named = ", ".join(str(file.relative_to(root)) for file in others[:NAMED])
        yield f"{len(others)} tables are of no paper of this run and were not compared ({named})"
    yield f"root {root_of(root)}"


def _sums(path: Path) -> dict[str, str]:
    """Digests by file of a list in which each line is whole, and each file that is there stands.

    Raises:
        InputError: a line is no SHA-256 and a file, or a file stands under another name.
    """
    lines = path.read_bytes().decode(errors="replace").split("\n")
    for number, line in enumerate(lines[:-1], 1):
        if not SUM_LINE.fullmatch(line):
            raise InputError(f"{path}:{number}: is {line!r:.90}; expected a SHA-256 and a file")
    if lines[-1]:
        raise InputError(f"{path}: its last line has no end")
    sums, folder = read_checksums(path.parent), path.parent
    for name in (name for name in sums if not (folder / name).is_file()):
        for file in folder.rglob("*"):
            other = file.relative_to(folder).as_posix()
            if len(other) == len(name) and file.is_file() and other not in sums:
                raise InputError(f"{path}: lists '{name}', which is not there, and not '{other}'")
    return sums


def _files(root: Path, threads: int) -> str:
    lists = checksum_lists(root)
    listed = [
        (path.parent / name, digest, path) for path in lists for name, digest in _sums(path).items()
    ]
    there = [entry for entry in listed if entry[0].is_file()]
    with ThreadPoolExecutor(threads) as pool:
        digests = ([digest] for digest in pool.map(file_digest, (entry[0] for entry in there)))
        for (file, expected, source), (digest,) in zip(
            there, progress(digests, len(there), "file", title="comparing"), strict=True
        ):
            if digest != expected:
                raise InputError(f"{file}: its SHA-256 is {digest}, in {source} {expected}")
    marked = {path.parent for path in root.rglob(MARK)} - {path.parent for path in lists}
    unlisted = sorted(f for f in marked if f.relative_to(root).parts[0] not in PASSING)
    if unlisted:
        log.warning("no %s in %s", CHECKSUMS, ", ".join(map(str, unlisted[:NAMED])))
    return (
        f"{len(there)} files of {len(lists)} folders are as they were written; "
        f"{len(listed) - len(there)} listed are not there; {len(unlisted)} folders of an earlier "
        "version have no list and were not compared"
    )


def _texts(root: Path) -> str:
    """What no list holds: tables as Markdown and HTML, figures, records; images compared."""
    count = 0
    for place in ("tables", "released", "figures"):
        for file in sorted(path for path in root.glob(f"{place}/**/*") if path.is_file()):
            if file.suffix in COMMENTED:
                summed_text(file)
            elif file.suffix == ".png":
                _require_picture(file)
            elif file.suffix == ".json":
                read_sealed(file)
            else:  # CSV, which is made again from the results
                continue
            count += 1
    for record in sorted(root.glob(f"pixels/*/*/{RECORD}")):
        read_sealed(record)
    return f"{count} texts and pictures of tables and figures are as they were written"


def _require_picture(file: Path) -> None:
    """InputError where a chunk of a PNG is not that of its checksum."""
    content = file.read_bytes()
    place, whole = len(PNG), content.startswith(PNG)
    while whole and place < len(content):
        end = place + 8 + int.from_bytes(content[place : place + 4])
        whole = zlib.crc32(content[place + 4 : end]) == int.from_bytes(content[end : end + 4])
        place = end + 4
    if not whole or place != len(content):
        raise InputError(f"{file}: damaged, a chunk is not that of its checksum; make it again")


def _scores(root: Path) -> str:
    recomputed, taken = 0, Counter[str]()
    results = sorted(root.glob("benchmarks/**/metrics.json"))
    for (path,) in progress(([path] for path in results), len(results), "result", title="scores"):
        record = read_metrics(path)
        names, reason = _recomputed(path, record)
        recomputed += len(names)
        if others := len(record["metrics"].keys() - names):
            taken[reason] += others
    reasons = "".join(f"; {count} {reason}" for reason, count in taken.most_common())
    return f"{recomputed} scores of {len(results)} results follow from predictions{reasons}"


def _recomputed(path: Path, record: Mapping[str, Any]) -> tuple[set[str], str]:
    """The names of metrics that predictions give again, and why the others are not compared."""
    try:
        benchmark = BENCHMARKS.named(record["benchmark"], recorded=True)
    except ValueError as error:
        return set(), f"not recomputed: benchmark {error}"
    file = path.with_name("predictions.parquet")
    if benchmark.statistic_module is None:
        return set(), "counted from the data themselves"
    if not file.is_file():
        return set(), "whose predictions are not there"
    ((run,),) = read_predictions([file]).values()
    samples = read_table(file)  # in the order in which they were drawn
    statistic = replace(run, samples=samples).statistic()
    if "interval_over" in record["protocol"]:  # over runs, too, which predictions do not draw
        values = statistic(np.ones((1, len(samples))))
        entries = {name: {"value": float(value[0])} for name, value in values.items()}
    else:
        intervals = IntervalSettings.model_validate(record["protocol"]["intervals"])
        clusters = imported(benchmark.clusters)(samples, intervals.unit)
        estimates = estimate(statistic, clusters, intervals)
        entries = {name: metric.as_json() for name, metric in estimates.items()}
    for name, entry in entries.items():
        recorded = record["metrics"].get(name, {})
        recorded = {field: recorded.get(field) for field in entry}
        _require_equal(path, f"metrics.{name}", recorded, entry)
    return set(entries), "controls and spreads over runs, not recomputed"


def _require_equal(path: Path, place: str, recorded: Any, again: Any) -> None:
    """InputError with the first field whose recorded value is not what was computed again."""
    if isinstance(again, Mapping) and isinstance(recorded, Mapping):
        for name in sorted({*again, *recorded}):
            _require_equal(path, f"{place}.{name}", recorded.get(name), again.get(name))
    elif isinstance(again, list) and isinstance(recorded, list) and len(again) == len(recorded):
        for number, pair in enumerate(zip(recorded, again, strict=True)):
            _require_equal(path, f"{place}[{number}]", *pair)
    elif recorded != again and not _close(recorded, again):
        raise InputError(f"{path}: field '{place}' is {recorded}; from predictions it is {again}")


def _close(recorded: Any, again: Any) -> bool:
    if isinstance(again, float) and math.isnan(again):
        return recorded is None
    numbers = isinstance(recorded, int | float) and isinstance(again, int | float)
    return numbers and math.isclose(recorded, again, rel_tol=ROUNDING, abs_tol=ABSOLUTE)


def _tables(folder: RunFolder, followed: set[Path]) -> Iterator[str]:
    """A line a paper; ``followed`` gets the files that follow from the results."""
    for paper, chosen in folder.config.results.items():
        place, counts = folder.root / "tables" / paper, Counter[str]()
        for name in dict.fromkeys([*chosen.tables("headline"), *chosen.tables("all")]):
            tests = _tests(folder, paper, [name], counts)
            file = place / f"{name}.csv"
            if not file.is_file():
                continue
            absent = left_out(chosen.paper) if name.startswith(HEADLINE) else {}
            results = read_results(_metrics(folder, chosen.cells(name)), absent)
            cells = make_cells(chosen.table(name), results, tests)
            _require_text(file, table_csv(cells))
            followed.add(file)
            counts["tables"] += 1
            counts["cells"] += len(cells)
        file = place / "orderings.csv"
        if file.is_file():
            claims = chosen.paper.orderings
            names = list(dict.fromkeys(a.table for claim in claims for a in claim.addresses()))
            results = read_results(
                _metrics(folder, [cell for name in names for cell in chosen.cells(name)])
            )
            compared = compare(chosen.paper, results, _tests(folder, paper, names, Counter()))
            _require_text(file, orderings_csv(compared))
            followed.add(file)
            counts["rankings"] = len(compared)
        yield (
            f"{paper}: {counts['cells']} cells of {counts['tables']} tables, "
            f"{counts['comparisons']} paired tests and {counts['rankings']} rankings follow from "
            "the results"
        )


def _metrics(
    folder: RunFolder, results: Iterable[Result], name: str = "metrics.json"
) -> list[Path]:
    """The files of results that are there, one a seed."""
    paths = [
        folder.score_folder(task, model, seed) / name
        for task, model in results
        for seed in ([0] if model is None else folder.config.models.seeds_of(model))
    ]
    return list(dict.fromkeys(path for path in paths if path.is_file()))


def _tests(folder: RunFolder, paper: str, names: Sequence[str], counts: Counter[str]) -> Tests:
    """The tests of tables, which are compared with what predictions give."""
    chosen, files = folder.config.results[paper], []
    protocol = folder.config.values.paired_tests.model_dump()
    for name in names:
        file = folder.root / "tables" / paper / f"{name}.tests.json"
        if not file.is_file():
            continue
        settings = PairedTestSettings(**protocol, comparisons=chosen.comparisons(name))
        predictions = _metrics(folder, chosen.compared(name), "predictions.parquet")
        _require_equal(file, "tests", read_sealed(file), tested(predictions, settings))
        counts["comparisons"] += len(settings.comparisons)
        files.append(file)
    return read_tests(files)


def _require_text(file: Path, again: str) -> None:
    # Not splitlines, for which a flipped bit of a line's end may be another line's end.
    written = file.read_bytes().decode(errors="replace").split("\n")
    lines = again.split("\n")
    if len(written) != len(lines):
        raise InputError(f"{file}: {len(written)} lines; from the results there are {len(lines)}")
    for number, (line, expected) in enumerate(zip(written, lines, strict=True), 1):
        if line != expected:
            raise InputError(f"{file}:{number}: is {line!r}; from the results it is {expected!r}")
