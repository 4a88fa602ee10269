"""The head of the page: of each paper what it claims, what was measured, and the verdict.

A paper is shown by the first of its claims that can be judged here: all of its cells are measured,
and none has a stand-in. Where there is none, by the first that is measured, whole or in part. One
that claims nothing is shown by the number that it leads with.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from cxrflow.papers.claims import Ordering
from cxrflow.papers.table import Address, Column
from cxrflow.show.page.digits import of_few, samples_behind
from cxrflow.show.page.scores import PaperScores, strongest_baseline
from cxrflow.show.page.svg import Interval, interval_chart
from cxrflow.show.tables.cells import Cell
from cxrflow.show.tables.orderings import Compared
from cxrflow.show.tables.text import number, split_title
from cxrflow.show.tables.verdicts import HOLDS, NOT_COMPARABLE, NOT_RUN, OPPOSITE, VERDICTS

NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SHOWN = 4  # cells of one claim


class Measured(NamedTuple):
    """A value of a line of the scoreboard."""

    style: str
    label: str
    value: str
    interval: str


class BoardLine(NamedTuple):
    """A paper's line: its claim, what was measured of it, the verdict and how all claims fare."""

    paper: str
    name: str
    claim: str = ""
    place: str = ""  # table and column
    measured: Sequence[Measured] = ()
    difference: str = ""
    chart: Any = None
    verdict: str = ""
    why: str = ""
    tally: Sequence[tuple[str, int]] = ()


def board_line(
    paper: str, name: str, scores: PaperScores, cards: Sequence[Mapping[str, Any]]
) -> BoardLine:
    """The line of one paper; ``cards``: what it leads with."""
    pairs = [pair for pair in scores.compared if not pair.claim.ours]
    counts = Counter(pair.verdict for pair in pairs)
    tally = [(word, counts[word]) for word in VERDICTS if counts[word] and word != NOT_RUN]
    if not pairs:
        return _led(paper, name, cards)
    of_claims = [list(group) for _, group in groupby(pairs, key=lambda pair: id(pair.claim))]
    comparisons = next((group for group in of_claims if _all(group, NOT_RUN, NOT_COMPARABLE)), None)
    comparisons = comparisons or next((group for group in of_claims if _all(group, NOT_RUN)), None)
    if comparisons is None:
        run = ([pair for pair in group if pair.verdict != NOT_RUN] for group in of_claims)
        comparisons = next(filter(None, run), None)
    if comparisons is None:
        return BoardLine(paper, name, pairs[0].claim.title, verdict=NOT_RUN, tally=tally)
    return _claimed(paper, name, scores, comparisons, tally)


def _all(pairs: Sequence[Compared], *unwanted: str) -> bool:
    return all(pair.verdict not in unwanted for pair in pairs)


def _led(paper: str, name: str, cards: Sequence[Mapping[str, Any]]) -> BoardLine:
    """The line of a paper that claims nothing: its leading number beside what it is judged by."""
    if not cards:
        return BoardLine(paper, name)
    card = cards[0]
    value = card["shown"]
    measured = [Measured("series0", card["row"], value["value"], value["interval"] or "")]
    judged = next((line for line in card["compared"] if line["judged"]), None)
    verdict = ""
    if judged is not None:
        measured.append(Measured("series1", judged["label"], judged["value"], ""))
        verdict = f"{judged['verdict']} {judged['what']}".lower()
    claim = f"{card['label']}: {card['meaning']}" if card["meaning"] else card["label"]
    return BoardLine(paper, name, claim, measured=measured, verdict=verdict)


def _claimed(
    paper: str,
    name: str,
    scores: PaperScores,
    comparisons: Sequence[Compared],
    tally: list[tuple[str, int]],
) -> BoardLine:
    claim = comparisons[0].claim
    cells = _cells(scores, claim, comparisons)
    spots = [scores.paper.spot(place) for place in cells]
    count = min(samples_behind(spot, scores.results) for spot in spots)
    column = of_few(comparisons[0].better.column, count)
    entries = [(f"series{n}", cell.row, cell) for n, cell in enumerate([*cells.values()][:SHOWN])]
    floor = _floor(scores, next(iter(cells)))
    if floor is not None and floor.row not in {cell.row for cell in cells.values()}:
        budget = f"{spots[0].row.share} % of labels" if spots[0].row.share else ""
        label = floor.row if budget in floor.row else f"{floor.row}, {budget}"
        entries.append(("floor", label, floor))
    measured, intervals = [], []
    for style, label, cell in entries:
        value = float(cell.ours or 0.0)
        ends = (cell.low, cell.high) if cell.low is not None and cell.high is not None else None
        interval = "" if ends is None else " to ".join(number(end, column) for end in ends)
        measured.append(Measured(style, label, number(value, column), interval))
        intervals.append(Interval(style, value, *(ends or (value, value))))
    words = "; ".join(f"{m.label} {m.value}" for m in measured)
    verdicts = Counter(pair.verdict for pair in comparisons)
    # Of several neighbours the claim holds if each pair does.
    verdict = HOLDS if set(verdicts) == {HOLDS} else next(w for w in VERDICTS[1:] if verdicts[w])
    why = next(pair.record.judged[1] for pair in comparisons if pair.verdict == verdict)
    title, _ = split_title(scores.paper.tables[claim.table].title)
    return BoardLine(
        paper,
        name,
        claim.title,
        f"{title}, {comparisons[0].better.column.label}",
        measured,
        _difference(comparisons, column),
        interval_chart(intervals, f"{words}."),
        verdict,
        why,
        tally,
    )


def _cells(
    scores: PaperScores, claim: Ordering, comparisons: Sequence[Compared]
) -> dict[Address, Cell]:
    """The measured cells of a claim, best first, by their places."""
    of_claim = [pair for pair in scores.compared if pair.claim is claim]
    cells: dict[Address, Cell] = {}
    for neighbours, pair in zip(pairwise(claim.places()), of_claim, strict=True):
        if pair in comparisons:
            for place, side in zip(neighbours, (pair.better, pair.worse), strict=True):
                if isinstance(place, Address):
                    cells[place] = side.cell
    return cells


def _floor(scores: PaperScores, place: Address) -> Cell | None:
    """The strongest baseline beside a cell, at its budget of labels."""
    if place.table not in scores.cells:
        return None
    cells = {(cell.row, cell.column): cell for cell in scores.cells[place.table]}
    return strongest_baseline(scores.paper.spot(place), cells)


def _difference(comparisons: Sequence[Compared], column: Column) -> str:
    """The tested difference of two cells in words; empty where none was tested."""
    tested = comparisons[0].tested if len(comparisons) == 1 else None
    if tested is None or tested.value is None or tested.low is None or tested.high is None:
        return ""
    value, low, high = (
        number(end, column, sign=True) for end in (tested.value, tested.low, tested.high)
    )
    return f"{value} ({low} to {high})"


def headline(lines: Sequence[BoardLine]) -> str:
    """What was found, in one sentence."""
    claimed = [line for line in lines if line.tally or line.verdict == NOT_RUN]
    if len(lines) == 1:
        (line,) = lines
        sentence = f"{line.name}: {line.claim}" if line.claim else line.name
        return f"{sentence}: {line.verdict}" if line.verdict else sentence
    if not claimed:
        return ", ".join(
            f"{line.name} {line.verdict}" if line.verdict else line.name for line in lines
        )
    counts = Counter(line.verdict for line in claimed)
    if counts[NOT_RUN] == len(claimed):
        return f"None of {_in_words(len(claimed))} leading claims has been measured yet"
    few = counts[HOLDS] < 2
    holding = f"{_in_words(counts[HOLDS])} {'holds' if few else 'hold'}"
    counted = [
        f"{_in_words(counts[word])} {'is' if counts[word] == 1 else 'are'} "
        f"{'reversed' if word == OPPOSITE else word}"
        for word in VERDICTS[1:]
        if counts[word]
    ]
    sentence = ", ".join([holding, *counted])
    return f"Of {_in_words(len(claimed))} leading claims {sentence}"


def _in_words(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else str(count)
