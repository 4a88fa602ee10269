"""Characters and line breaks of texts, normalised once for labels, sections and vocabulary alike.

What becomes of a text: it is taken out of what it came in (:mod:`.containers`); marks of HTML and
written-out escapes (``\\n``) are line breaks again; characters are in Unicode's form NFKC
(ligatures, full-width letters, no-break blanks), and what that form leaves is settled here: dashes,
quotes, boxes, invisible characters, line ends. A word broken at the end of a line is whole again,
and digits that a scanner read for letters are letters. Rows of tables and lines with leaders are
labels with answers (:mod:`.tables`). Plain text comes back as it is.
"""

import html
import re
import unicodedata

from cxr_labels.containers import unwrap, without_keys
from cxr_labels.normal_text import NormalText
from cxr_labels.scope.misread import WORD, has_misread, mended
from cxr_labels.tables import CHOICE, LEADER, TABLE, with_labels, with_leader

# Plain text has none of these; they are looked at more closely later.
SUSPECT = ("{", "[", '":', "\\", "<", "&", "~", "^", "|", "...", ". . .", "_____", "---", " / ")
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


def normalised(text: str) -> str:
    """The text in its normal form, without the keys of what it came in."""
    return without_keys(normal_text(text).text)


def normal_text(text: str) -> NormalText:
    """The text in its normal form, and the place in the original of each character."""
    normal = NormalText(text, None, len(text))
    if _is_plain(text):
        if has_misread(text):
            normal.replace(WORD, mended)
        return normal
    normal.replace(LINE_END, "\n")
    unwrap(normal)
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
    if has_misread(normal.text):
        normal.replace(WORD, mended)
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
