"""Tables and leaders in a text, written as labels with answers: ``Pneumonia : Not seen .``

A row ``| Pneumonia | Not seen |`` and a line ``Heart size ........ enlarged`` say what ``Pneumonia:
Not seen`` says. Bars and leaders become marks of the same length, so a label keeps its place. The
names of columns and the borders of a table become blanks.
"""

import re

# Lines with bars, and the borders between them.
TABLE = re.compile(r"(?:^(?:[^\n|]*\|[^\n]*|[ \t]*[-+=][-+=: \t]{4,})(?:\n|\Z))+", re.M)
BORDER = re.compile(r"[\s|:+=-]*")
LEADER = re.compile(
    r"(?:^|(?<=[.;]))([ \t]*+(?!no\b|without\b|there\b)[a-z][a-z0-9 /()&'-]{1,50}?[ \t]*+)"
    r"(\.{3,}|_{5,}|-{3,}|(?:\. ){3,}\.?)(?=[ \t]*+[^\s.])",
    re.M | re.I,
)
# "Effusion Y / N: Y"
CHOICE = re.compile(r"\b(?:y|yes) / (?:n|no)(?=[ \t]*[:?=])", re.I)
LONGEST_LABEL = 50
# What a row of column names consists of.
NAMES = frozenset(
    ("finding", "findings", "result", "results", "status", "comment", "comments", "parameter")
    + ("item", "present", "absent", "yes", "no", "y", "n", "right", "left", "grade", "side", "area")
    + ("structure", "region", "description", "observation", "observations", "value", "remarks")
    + ("notes", "note", "detail", "details", "assessment", "feature", "answer", "question", "organ")
    + ("normal", "abnormal", "location", "severity", "sign", "anatomy", "appearance", "size", "r")
    + ("l",)
)
OF_SIDES = frozenset(("right", "left"))
TICKS = frozenset(("x", "[x]", "(x)", "*", "v"))
# First words of an answer; a label begins with none of them.
ANSWERS = frozenset(
    ("no", "not", "none", "nil", "absent", "present", "yes", "y", "n", "normal", "clear", "top")
    + ("positive", "neg", "pos", "mild", "mildly", "moderate", "severe", "small", "trace", "tiny")
    + ("minimal", "large", "enlarged", "unremarkable", "seen", "possible", "probable", "suspected")
    + ("excluded", "unlikely", "resolved", "stable", "unchanged", "intact", "without", "there", "-")
    + ("+", "0", "left", "right", "bilateral", "likely", "slight", "slightly", "marked", "negative")
    + ("widened", "borderline", "congested", "upper", "within", "persistent")
)
# A cell that holds one of these is a statement and no label.
STATES = re.compile(r"[:.?]|\b(?:is|are|no|normal|clear|enlarged|unremarkable|absent|present)\b")


def with_leader(match: re.Match[str]) -> str:
    """A label with a colon in place of its leader ("Heart size ...... enlarged")."""
    label, leader = match.groups()
    answer = match.string[match.end() : match.end() + LONGEST_LABEL].lstrip()
    # "Small effusion.... Heart normal": the end of a sentence.
    at_end = leader in ("...", "....") and label[-1:] not in " \t" and not answer[:1].islower()
    if at_end or (leader == "..." and not (_is_label(label) and _is_answer(answer))):
        return match[0]
    return label + ":" + " " * (len(leader) - 1)


def with_labels(match: re.Match[str]) -> str:
    """The rows of a table as labels with answers; other lines with bars stay as they are."""
    lines = match[0].split("\n")
    columns: list[str] = []
    rows: list[str] = []
    for line in lines:
        cells = [cell.strip().lower() for cell in line.strip().strip("|").split("|")]
        if BORDER.fullmatch(line):
            rows.append(" " * len(line))
        elif len(cells) > 1 and NAMES.issuperset(cell.rstrip("?") for cell in _names(cells)):
            columns = cells
            rows.append(" " * len(line))
        else:
            rows.append(_row(line, columns))
    return "\n".join(rows)


def _names(cells: list[str]) -> list[str]:
    """The names in the cells ("Y/N"), empty cells left out."""
    return [name for cell in cells for name in cell.replace("/", " ").split()]


def _row(line: str, columns: list[str]) -> str:
    """One row; its first bar parts the label from the answer."""
    body = line.strip().strip("|")
    cells = body.split("|")
    framed = body != line.strip()
    filled = [cell.strip() for cell in cells]
    if len(cells) == 1:
        return line.replace("|", " ")
    label, answers = filled[0], filled[1:]
    if not _is_label(label):
        return line
    if framed and not any(answers):
        return " " * len(line)
    start = line.index(body)
    before = " " * start + cells[0]
    end = "." if framed and filled[-1][-1:] not in (".", "!", "?") else ""
    if len(columns) == len(cells):
        named = [_named(a, c, label) for a, c in zip(answers, columns[1:], strict=True) if a]
        if named != list(filter(None, answers)):
            return before + ": " + ". ".join(filter(None, named)) + end
    pairs = len(cells) % 2 == 0 and len(cells) > 2
    if pairs and all(map(_is_label, filled[::2])) and all(map(_is_answer, filled[1::2])):
        rest = "".join(":."[i % 2] + cell for i, cell in enumerate(cells[1:]))
    else:
        rest = ":" + cells[1]
        rest += "".join(("," if cell.strip() else " ") + cell for cell in cells[2:])
    return before + rest + end


def _named(answer: str, column: str, label: str) -> str:
    """An answer with what its column's name adds: a tick below "Absent", "small" below "Left"."""
    if answer.lower() in TICKS:
        return column
    if answer in ("[ ]", "( )", "-") and column not in OF_SIDES:
        return ""
    return f"{column} {label}: {answer}" if column in OF_SIDES else answer


def _is_label(cell: str) -> bool:
    words = cell.lower().split()
    return (
        bool(words)
        and len(cell) <= LONGEST_LABEL
        and words[0] not in ANSWERS - OF_SIDES
        and not STATES.search(cell.lower())
    )


def _is_answer(cell: str) -> bool:
    words = cell.lower().split(None, 1)
    return bool(words) and words[0].rstrip(",.;") in ANSWERS
