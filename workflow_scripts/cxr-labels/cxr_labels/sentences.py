"""Sentences of a section: a rule splitter, and stanza from a local model folder.

Both take raw section text with MIMIC-CXR's wrapped lines and return clean sentences: blanks
collapsed, list numbers removed, nothing without a letter. A line break inside a paragraph does not
end a sentence (as in the CheXpert labeller); a blank line and a list item do. Where each line is a
statement without a stop, ``RuleSplitter(lines=True)`` splits at lines.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from cxr_files.errors import InputError
from cxr_labels.scope.questions import is_answer
from cxr_labels.stanza_models import StanzaPipeline

BLANK_LINE = re.compile(r"\n[ \t\r]*+\n")
INLINE_ITEM = re.compile(r"(?<=\S)\s*•\s*|(?<=\S)\s\*\s(?=[A-Z(\[])")
LIST_MARK = re.compile(r"(?:\(?\d{1,2}[.)]|[-*•–])(?=\s|$)\s*|\d{1,2}[.)](?=[A-Za-z])")
LINE_ITEM = re.compile(
    r"\n(?![ \t]*+-[ \t]++(?i:no|none|nil|absent|negative|yes|present|positive)[.\s]*+(?:\n|$))"
    r"(?=[ \t\"']*+(?:\(?\d{1,2}[.)]|[-*•–])[ \t])"
)

# Stops before a blank, with closing quotes; one or two that stand alone; and stops stuck between
# two words ("effusion.No", "edema..no", ".No"), where the CheXpert labeller puts a blank too.
# Each run is tried once, from its first stop, so long runs cost linear time.
STOP = re.compile(
    r"[.!?](?:(?<=[^\s.!?].)[.!?]*+[\"')\]]*+(?=\s)|(?<=\s\.)\.?+(?=\s|[A-Za-z]{2})"
    r"|(?<=[A-Za-z0-9_]{2}\.)\.*+(?=[A-Za-z]{2}))"
)

TITLES = frozenset(("dr", "drs", "mr", "mrs", "ms", "prof", "st"))
# A stop after these ends no sentence: "vs. pneumonia". ("No. 3" is decided by the digit.)
GOES_ON = TITLES | frozenset(
    ("vs", "e.g", "i.e", "eg", "ie", "cf", "approx", "fig", "incl", "viz", "resp")
)
# After these a sentence goes on unless the next word starts with a capital.
GOES_ON_IN_LOWER_CASE = frozenset(
    ("cm", "mm", "ml", "hr", "hrs", "min", "a.m", "p.m", "am", "pm", "etc", "post", "ant", "sup")
)
LONGEST_WORD = 40
ANSWER_REACH = 80  # characters behind a question mark in which an answer in words is looked for

# A line that ends in one of these marks or words goes on in the next.
OPEN_LINE = re.compile(
    r"(?:[,:/&(\-]|\b(?:an?|the|this|that|these|of|in|on|at|by|for|from|to|into|over|with|without|and"
    r"|or|nor|no|not|than|as|but|is|are|was|were|be|been|has|have|had|may|might|could|can|cannot|will"
    r"|would|should|versus|vs\.?|dr\.?|which|possible|evidence|there|within))$",
    re.IGNORECASE,
)
# Where capitals do not tell, so does one that ends in or stands before one of these.
QUALIFIER = re.compile(
    r"\b(?:definite|acute|focal|new|small|large|mild|moderate|severe|right|left|upper|lower|middle"
    r"|pleural|pulmonary|bilateral|probable|likely)$",
    re.IGNORECASE,
)
GOES_ON_BELOW = re.compile(
    r"(?:and|or|nor|with|without|of|in|on|at|by|for|from|to|than|as|is|are|was|were|has|have|may|might"
    r"|which|that|versus|vs|due|consistent|compatible|suggest\w*|represent\w*|reflect\w*|limits"
    r"|seen|identified|present|noted)\b",
    re.IGNORECASE,
)
# A line that ends in an answer is complete: "Pneumothorax: No", "Effusion (-)", "Edema  no".
ANSWERED_LINE = re.compile(
    r"(?i:(?:[:=?|;\t>]|\s[-–—]|\s\s|\.\.)\s*(?:no|none|nil|n|neg|negative|absent|yes|y|pos|positive"
    r"|present|[-+])[.\s]*$)|[(\[][-+xX ]?[)\]]\s*$|[a-z)]\s(?:No|NO|Yes|YES)[.\s]*$"
    r"|\s[-+],.*\s[-+]\s*$|[:=]\s*0[.\s]*$"
)
# Such a line without a mark, in text of one case; one alone may be a wrapped sentence.
BARE_ANSWER = re.compile(r"[a-z][a-z/ ]{2,40} (?:no|yes)[.\s]*", re.IGNORECASE)
FUNCTION_WORD = re.compile(
    r"\b(?:is|are|was|were|has|have|had|there|the|an?|with|and|or|but|by|shows?|of|in)\b",
    re.IGNORECASE,
)
LABELLED_LINE = re.compile(
    r"[^:=?|\t.]{3,50}(?:[:=?|\t]|\.{3}|\s[(\[][-+xX ]?[)\]](?:[.\s]*$|\s*(?i:yes|no)\b))"
)
BOX_FIRST = re.compile(r"[(\[][ xX]?[)\]] ?[A-Za-z]")
LABEL_MARKS = frozenset(":=?|\t([")
OPEN_LABELS = ("?", ":", "=", "|", "]", "(x)", "( )")
ENDS_OF_ANSWERS = (
    *("no", "none", "nil", "n", "neg", "negative", "absent", "yes", "y", "pos", "positive"),
    *("present", "-", "+", ")", "]", "0"),
)
LIST_GOES_ON = re.compile(r"(?:,|\b(?:and|or|of|with|the|an?|in|from|to|for|by))$", re.IGNORECASE)
# Where the line breaks of a text were lost, a capital begins a statement: "No effusion Left rib
# fracture No pneumothorax".
STATEMENT = re.compile(
    r"(?<=[a-z0-9)]) (?=(?:No(?= )|There|The|Left|Right|Bilateral|Both|Small|Mild|Moderate|Large"
    r"|Minimal|Tiny|Trace|Heart|Cardiac|Cardiomegaly|Lungs?|Stable|Unchanged|Normal|Mediastinum|Mediastinal"
    r"|Pleural|Pulmonary|Bones|Bony|Osseous|Enlarged|New|Increased|Decreased|Patchy|Basal|Bibasilar"
    r"|Bibasal|Atelectasis|Consolidation|Effusion|Pneumothorax|Pneumonia|Edema|Oedema|Opacity"
    r"|Fracture|Nodule|Mass|Clear|Worsening|Improved|Resolved|Calcified|Old|Healed)\b)"
)
# After a question mark, or a label's colon at the end of a line.
ANSWER = re.compile(
    r"\s*(?:[-:]\s*)?(?:[(\[]\s*)?(?:(?:no|n|none|nil|neg|negative|absent|yes|y|pos|positive|present)\b"
    r"|[-+](?=\s|[)\]]|$))\s*(?:[.,;()\[\]|\"']|[-–—]\s|\n|$)",
    re.IGNORECASE,
)
ANSWER_ALONE = re.compile(
    r"(?:no|none|nil|yes|neg|pos|negative|positive|absent|present)[.\s]*", re.I
)
LONGEST_ANSWER_ALONE = 16
# No answer goes on with these.
DENIAL = re.compile(r"(?:without|with no|no)\b", re.IGNORECASE)
QUOTES = " \t\"'"
# Lines are wrapped at this width or a larger one.
NARROWEST = 60


class SentenceSplitter(Protocol):
    """Interface of both splitters."""

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """The sentences of each text, in order."""
        ...


def clean_sentence(text: str) -> str:
    """Collapse blanks and take list numbers off; "" when no letter is left."""
    return _without_marks(" ".join(text.split()))


def _without_marks(text: str) -> str:
    """The sentence without list numbers before it; its blanks are single ones."""
    if text[:1].isalpha():
        return text
    start = 0
    while mark := LIST_MARK.match(text, start):
        start = mark.end()
    text = text[start:]
    return text if any(c.isalpha() for c in text) else ""


def _ends_sentence(piece: str, stop: str, rest: str) -> bool:
    """True if ``stop`` ends the sentence ``piece``; ``rest`` is the beginning of the next text."""
    if not stop.startswith("."):
        return not (stop.startswith("?") and (ANSWER.match(rest) or is_answer(rest, piece)))
    word = piece[piece.rfind(" ") + 1 :].lstrip("([\"'").lower()
    if word in GOES_ON:
        return False
    if word.isdecimal():
        return not LIST_MARK.fullmatch(piece.strip() + ".")
    if word == "no":
        return not rest.lstrip()[:1].isdigit() or piece.strip().lower() == "no"
    if word in GOES_ON_IN_LOWER_CASE:
        following = rest.lstrip()[:1]
        return not (following.islower() or following.isdigit())
    if len(word) == 1 and word.isalpha() and rest.lstrip()[:1].isupper():
        before = piece.split()[-2:-1]
        return not (before and before[0].lower().rstrip(".") in TITLES)
    return True


def _split_paragraph(text: str) -> list[str]:
    text = " ".join(text.split()).lstrip("\"'")
    sentences, start = [], 0
    for stop in STOP.finditer(text):
        at, end = stop.span()
        piece = text[max(start, at - 200) : at]
        if _ends_sentence(piece, text[at:end], text[end : end + ANSWER_REACH]):
            sentences.append(text[start:end].lstrip())
            start = end
    sentences.append(text[start:].lstrip())
    return sentences


def _statements(text: str) -> list[str]:
    """The text in runs of lines that belong together.

    A line begins a statement if it starts as one ("Heart: enlarged") and the line above is
    complete. In text of one case capitals carry no information, nor do they in a list of short
    lines without stops. There the line above must also have had room for the first word; otherwise
    it was wrapped.
    """
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    lines = [statement for line in lines for statement in _parted(line)]
    if len(lines) < 2:
        return lines
    one_case = text.isupper() or text.islower()
    width = max([NARROWEST, *map(len, lines)])
    in_list = width == NARROWEST and _is_list(lines)
    bare = _bare_answers(lines) if one_case else frozenset()
    marked = not LABEL_MARKS.isdisjoint(text) or "..." in text  # else no line is a label's
    runs: list[str] = []
    above = ""
    for quoted in lines:
        line = quoted.strip(QUOTES) or quoted
        if not runs:
            runs.append(quoted)
            above = line
            continue
        first = line.split(None, 1)[0]
        begins = first[0].isupper() and (first[1:2].islower() or first == "A")
        listed = in_list and first[0].islower() and not OPEN_LINE.search(above)
        if one_case or (first.isupper() and not begins) or listed:
            room = len(above) + 1 + len(first) <= width
            begins = room and not QUALIFIER.search(above) and not GOES_ON_BELOW.match(line)
        labelled = marked and LABELLED_LINE.match(line)
        complete = (
            (labelled and LABELLED_LINE.match(above) and not LIST_GOES_ON.search(above))
            or ((labelled or begins or DENIAL.match(line)) and _ends_in_answer(above))
            or above in bare
        )
        # The answer of a label that stands above it, or the label of a box.
        answers = above.endswith(OPEN_LABELS) and bool(ANSWER.match(line))
        answers = answers or (above.endswith("?") and is_answer(line, above[:-1]))
        answers = answers or (
            len(line) <= LONGEST_ANSWER_ALONE
            and above[-1:] != "."
            and bool(ANSWER_ALONE.fullmatch(line))
            and not _ends_in_answer(above)
        )
        boxed = above.startswith("[") and above.endswith("]")
        begins = begins and not OPEN_LINE.search(above)
        if (not complete and not begins) or answers or boxed:
            runs[-1] += "\n" + quoted
        else:
            runs.append(quoted)
        above = line
    return runs


def _ends_in_answer(line: str) -> bool:
    """True for a line that is complete; the first test is the quick one."""
    return line.rstrip(". \t").lower().endswith(ENDS_OF_ANSWERS) and bool(
        ANSWERED_LINE.search(line[-LONGEST_WORD:])
    )


def _is_list(lines: Sequence[str]) -> bool:
    """True for at least three lines without stops that no one has wrapped.

    One of them had room for the first word of the next, or one that is complete goes before a "no".
    """
    if len(lines) < 3 or any(line.endswith((".", ";", ":", "!", "?")) for line in lines[:-1]):
        return False
    width = max((len(line) for line in lines if " " in line), default=0)  # a word is not broken
    return any(
        len(line) + 1 + len(following.split(None, 1)[0]) <= width
        or (DENIAL.match(following) and not OPEN_LINE.search(line))
        for line, following in pairwise(lines)
    )


def _bare_answers(lines: Sequence[str]) -> frozenset[str]:
    """The lines "PNEUMOTHORAX NO" of a column of such lines."""
    bare = (line for line in lines if BARE_ANSWER.fullmatch(line))
    answers = frozenset(line for line in bare if not FUNCTION_WORD.search(line))
    return answers if len(answers) > 1 else frozenset()


def _parted(line: str) -> list[str]:
    """Split a line at capitals that begin statements, if nothing else splits it."""
    begun = ". " in line
    if begun and (mark := LIST_MARK.match(line)):
        begun = ". " in line[mark.end() :]
    parts = [line] if begun or line.istitle() or BOX_FIRST.match(line) else STATEMENT.split(line)
    joined = parts[:1]
    for part in parts[1:]:
        if OPEN_LINE.search(joined[-1]) or QUALIFIER.search(joined[-1]):
            joined[-1] += f" {part}"
        else:
            joined.append(part)
    return joined


class RuleSplitter:
    """Sentences by rules: no model, linear time."""

    def __init__(self, lines: bool = False):
        self._lines = lines

    def split_one(self, text: str) -> list[str]:
        """The sentences of one section's text."""
        sentences = []
        if "•" in text or " * " in text:
            text = INLINE_ITEM.sub("\n• ", text)
        for paragraph in BLANK_LINE.split(text):
            for item in LINE_ITEM.split(paragraph):
                for run in _statements(item) if self._lines else (item,):
                    sentences += [s for s in map(_without_marks, _split_paragraph(run)) if s]
        return sentences

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """The sentences of each text, in order."""
        return [self.split_one(text) for text in texts]


class StanzaSplitter:
    """Sentences by the stanza tokenizer ``en/tokenize/mimic.pt`` of a local folder.

    This is the name of the published biomedical tokenizer;
    ``cxrflow.reports.train_sentence_splitter`` writes a small one under the same name.
    """

    def __init__(self, folder: str | Path):
        self._pipeline = StanzaPipeline(folder, {"tokenize": "mimic"})

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """The sentences of each text, in order; empty texts have none."""
        cleaned = (
            map(clean_sentence, (sentence.text for sentence in document.sentences))
            if document is not None
            else ()
            for document in self._pipeline.read(texts)
        )
        return [[sentence for sentence in sentences if sentence] for sentences in cleaned]


def make_splitter(kind: str | None, folder: str | Path | None = None) -> SentenceSplitter:
    """Make the splitter that the settings name (none: rules); stanza needs a folder."""
    if kind != "stanza":
        return RuleSplitter(lines=kind == "lines")
    if folder is None:
        raise InputError("reports.splitter is 'stanza': --stanza must name a model folder")
    return StanzaSplitter(folder)
