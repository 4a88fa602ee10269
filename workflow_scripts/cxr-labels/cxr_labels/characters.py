"""Characters and line breaks of texts, normalised once for labels, sections and vocabulary alike.

What becomes of a text: marks of HTML, RTF and HL7 and written-out escapes (``\\n``) are line breaks
again; characters are in Unicode's form NFKC (ligatures, full-width letters, no-break blanks), and
what that form leaves is settled here: dashes, quotes, boxes, invisible characters, line ends. A
word broken at the end of a line is whole again. Rows of tables and lines with leaders are labels
with answers (:mod:`.tables`). Plain text comes back as it is.
"""

import html
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field

from cxr_labels.tables import CHOICE, LEADER, TABLE, with_labels, with_leader

# Plain text has none of these; they are looked at more closely later.
SUSPECT = ("\\", "<", "&", "~", "^", "|", "...", ". . .", "_____", "---", " / ")
HYPHEN_AT_END = re.compile(r"-[ \t]*\n")

DASHES, SINGLE, DOUBLE = "‐‑‒–—―−﹘", "‘’‚‛′´ʼ", "“”„‟«»″"
TICKED, EMPTY, BULLETS = "☑☒✓✔✗✘🗹", "☐□▢❏❑", "●▪■◦‣∙⁃◆➢"
SETTLED = {
    **dict.fromkeys(DASHES, "-"),
    **dict.fromkeys(SINGLE, "'"),
    **dict.fromkeys(DOUBLE, '"'),
    **dict.fromkeys(TICKED, "[x]"),
    **dict.fromkeys(EMPTY, "[ ]"),
    **dict.fromkeys(BULLETS, "•"),
    **dict.fromkeys("│┃¦║", "|"),
    **dict.fromkeys("─━═", "-"),
    **dict.fromkeys("\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\n"),
}
# A character with the marks that belong to it.
CLUSTER = re.compile(r"[^\W\d_]?[\u0300-\u036f]+|[^\t\n -~]")
LINE_END = re.compile(r"\r\n?")
ESCAPE = re.compile(r"\\(?:r\\n|[nr]|\.br\\|\.sp\\?)|\\t")
BREAK_TAG = re.compile(
    r"<(?:br|/?(?:p|div|li|ul|ol|tr|table|h[1-6]|hr|section))\b[^<>]{0,200}>", re.I
)
CELL_TAG = re.compile(r"</?(?:td|th)\b[^<>]{0,200}>", re.I)
OTHER_TAG = re.compile(
    r"<(style|script|title)\b[^<>]{0,200}>.{0,500}?</\1>|<!--.{0,500}?-->|<(?:!doctype|/?(?:html|head"
    r"|body|meta|b|i|u|em|strong|span|font|small|sup|sub|a|pre|tbody|thead|center|o:p))\b[^<>]{0,200}>",
    re.I | re.S,
)
ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]{2,8});", re.I)
SEPARATOR = re.compile(r"(?<=[.!?])[~^](?=\s*[A-Z])")
BROKEN_WORD = re.compile(r"([A-Za-z]{1,20})(-|\u00ad)[ \t]*\n[ \t]*(?=([a-z]{2,20}|[A-Z]{2,20}))")
# Words that keep their hyphen at the end of a line, and words that keep it before them.
HYPHENATED = re.compile(
    r"air|left|right|well|ill|semi|follow|low|high|large|small|post|pre|non|mid|near|ground|mass"
    r"|plate|end|two|three|single|dual|double|half|year|old|new|self|soft|long|short|[a-z]",
    re.IGNORECASE,
)
AFTER_HYPHEN = re.compile(
    r"(?:sided|like|shaped|sized|based|related|defined|filled|old|up|hand|appearing|containing"
    r"|lying|limits|space|ray|level|term|and|or)\b"
)

RTF_GROUP = re.compile(r"\{\\(?:\*|fonttbl|colortbl|stylesheet|info|pict)(?:[^{}]|\{[^{}]*\})*\}")
RTF_BREAK = re.compile(r"\\(?:par|line|row|sect|page)(?![a-z])[ ]?")
RTF_CHARACTER = re.compile(r"\\'([0-9a-f]{2})|\\u(-?\d{1,6})\??", re.I)
RTF_TAB = re.compile(r"\\(?:tab|cell)(?![a-z])[ ]?")
RTF_WORD = re.compile(r"\\[a-z]+-?\d*[ ]?|\\[{}\\~_-]|[{}]")
RTF_WRAP = re.compile(r"\n")
HL7_LINE = re.compile(r"[^\n]+(?:\n|$)")
HL7_SEGMENT = re.compile(r"[A-Z][A-Z0-9]{2}\|")
HL7_ESCAPES = {"\\T\\": "&", "\\F\\": "|", "\\S\\": "^", "\\R\\": "~", "\\E\\": "\\"}
HL7_ESCAPE = re.compile(r"\\[TFSRE]\\")


@dataclass
class NormalText:
    """A text in its normal form; ``origins`` holds the place of each character in the original."""

    text: str
    origins: list[int] | None = field(default=None, repr=False)  # None: of a text left as it is
    original_length: int = 0

    def origin(self, place: int) -> int:
        """The place in the original of the character at ``place`` (its end, for the text's end)."""
        if self.origins is None:
            return place
        return self.origins[place] if place < len(self.origins) else self.original_length

    def replace(self, pattern: re.Pattern[str], by: Callable[[re.Match[str]], str] | str) -> None:
        """Replace all matches; characters of a replacement stand where the match began."""
        pieces: list[str] = []
        origins: list[int] = []
        places = self.origins if self.origins is not None else list(range(len(self.text)))
        end = 0
        for match in pattern.finditer(self.text):
            new = by if isinstance(by, str) else by(match)
            if new == match[0] or match.start() == match.end():
                continue
            pieces += [self.text[end : match.start()], new]
            origins += places[end : match.start()]
            # One for one where it can be, so that a span of the original stays exact.
            at = places[match.start() : match.end()]
            origins += [at[min(i, len(at) - 1)] for i in range(len(new))]
            end = match.end()
        if pieces:
            self.text = "".join([*pieces, self.text[end:]])
            self.origins = origins + places[end:]


def normalised(text: str) -> str:
    """The text in its normal form."""
    return normal_text(text).text


def normal_text(text: str) -> NormalText:
    """The text in its normal form, and the place in the original of each character."""
    normal = NormalText(text, None, len(text))
    if _is_plain(text):
        return normal
    normal.replace(LINE_END, "\n")
    if text.lstrip().startswith("{\\rtf"):
        _rtf(normal)
    elif "OBX|" in text:
        _hl7(normal)
    normal.replace(ESCAPE, lambda match: "\t" if match[0] == "\\t" else "\n")
    for _ in range(2):  # tags may themselves be written as entities
        if "<" in normal.text:
            normal.replace(BREAK_TAG, "\n")
            normal.replace(CELL_TAG, "\t")
            normal.replace(OTHER_TAG, "")
        if "&" in normal.text:
            normal.replace(ENTITY, lambda match: html.unescape(match[0]))
            normal.replace(LINE_END, "\n")
    normal.replace(SEPARATOR, "\n")
    normal.replace(BROKEN_WORD, _joined)
    normal.replace(CLUSTER, _character)
    normal.replace(BROKEN_WORD, _joined)  # at dashes that were no hyphens before
    if "|" in normal.text:
        normal.replace(TABLE, with_labels)
    normal.replace(LEADER, with_leader)
    normal.replace(CHOICE, "")
    return normal


def _is_plain(text: str) -> bool:
    """True if nothing is to be changed; most reports are plain, so this must be fast."""
    printable = text.isascii() and text.replace("\n", " ").replace("\t", " ").isprintable()
    return (
        printable and not any(mark in text for mark in SUSPECT) and not HYPHEN_AT_END.search(text)
    )


def _character(match: re.Match[str]) -> str:
    """The normal form of one character with its marks; "" if it is invisible."""
    character = match[0]
    if character in SETTLED:
        return SETTLED[character]
    if len(character) == 1 and unicodedata.category(character) == "Cf":
        return ""
    normal = unicodedata.normalize("NFKC", character)
    return "".join(
        SETTLED.get(c, " " if unicodedata.category(c) in ("Zs", "Cc") else c) for c in normal
    )


def _joined(match: re.Match[str]) -> str:
    """Join the first half of a word with the second; a hyphen that belongs to the word stays."""
    first, hyphen, second = match.groups()
    if second.isupper() and not first.isupper():
        return match[0]
    after = AFTER_HYPHEN.match(second.lower())
    keeps = hyphen == "-" and (HYPHENATED.fullmatch(first) or after)
    return f"{first}-" if keeps else first


def _rtf(normal: NormalText) -> None:
    """Rich text without its control words."""
    for _ in range(3):  # groups within groups
        normal.replace(RTF_GROUP, "")
    normal.replace(RTF_WRAP, "")
    normal.replace(RTF_CHARACTER, _rtf_character)
    normal.replace(RTF_BREAK, "\n")
    normal.replace(RTF_TAB, "\t")
    normal.replace(RTF_WORD, "")


def _rtf_character(match: re.Match[str]) -> str:
    if match[1]:
        return bytes.fromhex(match[1]).decode("cp1252", "replace")
    return chr(int(match[2]) % 65536)


def _hl7(normal: NormalText) -> None:
    """The observation values (field 5) of the OBX segments, a line each."""

    def value(line: re.Match[str]) -> str:
        fields = line[0].split("|")
        if fields[0] == "OBX":
            return fields[5].rstrip("\n").replace("~", "\n") + "\n" if len(fields) > 5 else ""
        return "" if HL7_SEGMENT.match(line[0]) else line[0]

    normal.replace(HL7_LINE, value)
    normal.replace(HL7_ESCAPE, lambda match: HL7_ESCAPES[match[0]])
