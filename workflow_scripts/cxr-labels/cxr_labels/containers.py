"""What reports come wrapped in: RTF, HL7, JSON (FHIR), XML, lists of labels; one table.

A container's keys are headings. Each value gets a line of its own behind its path of keys,
``␞impression/text␞ No effusion.``, from which :mod:`.headings` takes the section: the innermost
name that it knows. What stands under names that nobody knows is left out. A container in which
nothing can be read has a ``failure``, which names it.
"""

import ast
import itertools
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from cxr_labels.normal_text import NormalText
from cxr_labels.rules import read_rules
from cxr_labels.scope.mentions import find_mentions
from cxr_labels.scope.phrases import tokenize

MARK = "␞"
KEY = re.compile(f"{MARK}([^{MARK}\n]*){MARK} ?")

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
HL7_ENCAPSULATED = frozenset(("ED", "RP"))  # a picture or a file
STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
JSON_TOKEN = re.compile(rf"\s*+({STRING}|[{{}}\[\]:,]|[^\s{{}}\[\]:,\"']++)", re.S)
JSON_BEGIN = re.compile(r"\s*+(?:[{\[]\s*+)*+[\"'][^\"'\n]{1,60}[\"']\s*+:")
JSON_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.S)
JSON_WORDS = {"true": "yes", "false": "no", "True": "yes", "False": "no", "null": "", "None": ""}
LABEL_LIST = re.compile(rf"\s*+\[\s*+(?:{STRING})(?:\s*+,?+\s*+(?:{STRING}))*+\s*+,?+\s*+\]\s*+")
DEEPEST = 50
XML_TAG = re.compile(
    r"<!\[CDATA\[|\]\]>|<!--.*?-->|<[?!][^<>]*+>"
    r"|<(?P<end>/?)(?P<name>[A-Za-z_][\w.:-]*+)(?P<rest>(?:\s[^<>]*+)?)>",
    re.S,
)
XML_ATTRIBUTE = re.compile(r"([\w:.-]++)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)')")
HTML_TAGS = frozenset(
    (
        "a",
        "b",
        "i",
        "u",
        "p",
        "br",
        "em",
        "li",
        "ul",
        "ol",
        "tr",
        "td",
        "th",
        "hr",
        "h1",
        "h2",
        "h3",
    )
    + ("h4", "h5", "h6", "pre", "sup", "sub", "div", "span", "font", "html", "head", "body", "meta")
    + ("table", "tbody", "thead", "small", "strong", "center", "style", "script", "o:p")
)
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_.\-:]+")
# Names that only wrap others, and names whose value is the name of what stands beside it.
WRAPPING = frozenset(
    ("report", "reports", "text", "value", "values", "content", "contents", "div", "data", "item")
    + ("items", "entry", "entries", "resource", "contained", "body", "document", "section", "list")
    + ("sections", "paragraph", "p", "sentence", "sentences", "string", "value string", "root")
    + ("record", "component", "structured body", "abstract", "abstract text", "title", "li", "span")
    + ("report text", "radiology report", "full report", "diagnostic report", "table", "td", "line")
)
NAMING = ("section", "title", "name", "label", "heading", "key", "code", "display", "type", "id")


class Container(NamedTuple):
    """A kind of wrapping: its name, how it is known, and how it is taken off."""

    name: str
    is_one: Callable[[str], bool]
    unwrap: Callable[[NormalText], None]


def unwrap(normal: NormalText) -> None:
    """Take a text out of its container, if it is in one; ``failure`` says why it cannot be."""
    for container in CONTAINERS:
        if container.is_one(normal.text):
            normal.container = container.name
            container.unwrap(normal)
            return


def without_keys(text: str) -> str:
    """The text without the paths of a container's keys."""
    return KEY.sub("\n", text) if MARK in text else text


def key_name(name: str) -> str:
    """A key as words: "clinicalHistory" and "clinical_history" are the clinical history."""
    return " ".join(CAMEL.sub(" ", name).lower().split())


@cache
def _known() -> tuple[frozenset[str], tuple[str, ...], frozenset[str]]:
    """Names of sections, words that make any name one, and organs; none of a hospital's own."""
    data, published = read_rules("headings"), read_rules("mimic_cxr/headings")
    known = itertools.chain.from_iterable(
        itertools.chain(published["known"].values(), *data["known"].values())
    )
    organs = itertools.chain.from_iterable(data["organs"])
    return frozenset(known), tuple(data["contained"]), frozenset(organs)


def _is_section(name: str) -> bool:
    known, contained, _ = _known()
    name = key_name(name)
    return name in known or any(word in name.split() for word in contained)


def _is_topic(name: str) -> bool:
    """True for an organ or a finding: a key that is a part of what is said."""
    words = [token.word for token in tokenize(name)]
    return name in _known()[2] or bool(find_mentions(words))


def _line(path: tuple[str, ...]) -> str:
    """The line that a value with this path of keys begins with."""
    names = [key_name(name) for name in path]
    last = next((name for name in reversed(names) if name not in WRAPPING), "")
    topic = f"{last}: " if last and not _is_section(last) and _is_topic(last) else ""
    keys = "/".join(["findings"] * bool(topic) + names).replace(MARK, " ")
    return f"\n{MARK}{keys}{MARK} {topic}"


# JSON, and a Python dictionary or list


class _Node(NamedTuple):
    """A value of JSON: a string or word at ``start`` to ``end``, or the pairs of an object."""

    start: int
    end: int
    pairs: "list[tuple[str, _Node]] | None" = None


def _is_json(text: str) -> bool:
    first = text.lstrip()[:1]
    return first in ("{", "[", '"', "'") and bool(JSON_BEGIN.match(text) or _parsed(text))


def _parsed(text: str) -> bool:
    """True if the text is an object or a list of objects."""
    for read in (lambda text: json.loads(text, strict=False), ast.literal_eval):
        try:
            value = read(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        return isinstance(value, dict) or (
            isinstance(value, list) and any(isinstance(item, dict) for item in value)
        )
    return False


def _json(normal: NormalText) -> None:
    text = normal.text
    if not _parsed(text) and not _parsed("{" + text.strip().rstrip(",") + "}"):
        normal.failure = "JSON that is damaged or cut off"
        return
    if '"resourceType"' in text:
        normal.container = "FHIR resource"
    tokens = iter([*JSON_TOKEN.finditer(text)])
    node = (
        _object(tokens, 0) if text.lstrip()[:1] in ('"', "'") else _value(tokens, next(tokens), 0)
    )
    pieces: list[tuple[str, int, int]] = []
    for path, value in _leaves(text, node, ()):
        word = text[value.start : value.end]
        quoted = word[:1] in ("'", '"')
        content = [(JSON_WORDS.get(word, word), value.start, value.end)]
        if quoted:
            content = _unescaped(text, value.start + 1, value.end - 1)
        if any(piece.strip() for piece, _, _ in content):
            pieces += [(_line(path), value.start, value.start), *content]
    end = pieces[-1][2] if pieces else len(text)
    normal.assemble([*pieces, ("\n", end, end)])


def _value(tokens: "Iterator[re.Match[str]]", token: re.Match[str], depth: int) -> _Node:
    if depth > DEEPEST or token[1] not in ("{", "["):
        return _Node(token.start(1), token.end(1))
    if token[1] == "{":
        return _object(tokens, depth)
    pairs = []
    for token in tokens:
        if token[1] == "]":
            break
        if token[1] != ",":
            pairs.append(("", _value(tokens, token, depth + 1)))
    return _Node(0, 0, pairs)


def _object(tokens: "Iterator[re.Match[str]]", depth: int) -> _Node:
    pairs = []
    for token in tokens:
        if token[1] == "}":
            break
        if token[1] != ",":
            name = token[1].strip("\"'")
            next(tokens)  # the colon
            pairs.append((name, _value(tokens, next(tokens), depth + 1)))
    return _Node(token.start(1), token.end(1), pairs)


def _leaves(
    text: str, node: _Node, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], _Node]]:
    """The values with their paths of keys; ``{"section": "Findings", "text": …}`` is one key."""
    if node.pairs is None:
        yield path, node
        return
    naming = {
        name: text[value.start + 1 : value.end - 1]
        for name, value in node.pairs
        if key_name(name) in NAMING and value.pairs is None
    }
    named = next((name for name in naming if _is_section(naming[name])), None)
    inside = (*path, naming[named]) if named else path
    for name, value in node.pairs:
        if named is None or name != named:
            yield from _leaves(text, value, (*inside, name) if name else inside)


def _unescaped(text: str, start: int, end: int) -> list[tuple[str, int, int]]:
    """The pieces of a string, its escapes read."""
    pieces = []
    for match in JSON_ESCAPE.finditer(text, start, end):
        pieces.append((text[start : match.start()], start, match.start()))
        escape = match[0] if match[0] != "\\'" else "'"
        try:
            new = json.loads(f'"{escape}"')
        except ValueError:
            new = match[0]
        pieces.append((new, match.start(), match.end()))
        start = match.end()
    return [*pieces, (text[start:end], start, end)]


def _label_list(normal: NormalText) -> None:
    """The labels of a list, ``['a' 'b']``, a sentence each."""
    pieces: list[tuple[str, int, int]] = []
    for match in re.finditer(STRING, normal.text, re.S):
        content = _unescaped(normal.text, match.start() + 1, match.end() - 1)
        if any(piece.strip() for piece, _, _ in content):
            pieces += [*content, (".\n", match.end() - 1, match.end())]
    normal.assemble(pieces)


# XML


def _is_xml(text: str) -> bool:
    if "<" not in text or "</" not in text and "/>" not in text:
        return False
    if text.lstrip().startswith("<?xml"):
        return True
    tags = [tag for tag in XML_TAG.finditer(text) if tag["name"] and not tag["end"]]
    names = [tag["name"].lower() for tag in tags if tag["name"].lower() not in HTML_TAGS]
    closed = {name for name in names if f"</{name}" in text.lower() or f"<{name} " in text.lower()}
    if "html" in (tag["name"].lower() for tag in tags):
        return False
    whole = text.lstrip().startswith("<") and text.rstrip().endswith(">")
    return bool(closed) and (
        any(_is_section(name) for name in closed)
        or (whole and text.lstrip()[1:].lower().startswith(tuple(closed)))
    )


def _xml(normal: NormalText) -> None:
    text = normal.text
    pieces: list[tuple[str, int, int]] = []
    path: list[tuple[str, str]] = []  # tag, and what it is called
    end, begins = 0, True
    for tag in [*XML_TAG.finditer(text), None]:
        start = tag.start() if tag else len(text)
        content = text[end:start]
        title = bool(path) and path[-1][0].lower() == "title" and _is_section(content)
        if title and len(path) > 1:
            path[-2] = path[-2][0], content
        elif content.strip():
            if begins:
                pieces.append((_line(tuple(name for _, name in path)), end, end))
            pieces.append((content, end, start))
            begins = False
        if tag is None:
            break
        end = tag.end()
        name = tag["name"]
        if not name or name.lower() in HTML_TAGS - {"p", "div", "td", "li", "body"}:
            if name:
                pieces.append((tag[0], tag.start(), tag.end()))
            continue
        begins = True
        if tag["end"]:
            while path and path.pop()[0] != name:
                pass
            continue
        attributes = {
            a[1].lower(): (a[2] or a[3] or "", a) for a in XML_ATTRIBUTE.finditer(tag["rest"])
        }
        named = (attributes[key][0] for key in NAMING if key in attributes)
        path.append((name, next(filter(_is_section, named), name.rpartition(":")[2])))
        if "value" in attributes and attributes["value"][0].strip():
            value, match = attributes["value"]
            at = tag.start("rest") + match.start(2 if match[2] else 3)
            pieces.append((_line(tuple(name for _, name in path)), at, at))
            pieces.append((value, at, at + len(value)))
        if tag["rest"].rstrip().endswith("/"):
            path.pop()
    normal.assemble([*pieces, ("\n", len(text), len(text))])


# HL7 and RTF


def _is_hl7(text: str) -> bool:
    return "OBX|" in text or text.lstrip().startswith("MSH|")


def _hl7(normal: NormalText) -> None:
    """The observation values (field 5) of the OBX segments, a line each, under their section."""
    section = ""

    def value(line: re.Match[str]) -> str:
        nonlocal section
        fields = line[0].split("|")
        if fields[0] != "OBX":
            return "" if HL7_SEGMENT.match(line[0]) else line[0]
        if len(fields) < 6 or fields[2] in HL7_ENCAPSULATED:
            return ""
        names = [name for name in re.split(r"[\^&]", fields[3]) if _is_section(name)]
        begins = names[:1] != [section] and names
        section = names[0] if names else ""
        key = _line((section,)) if begins else ""
        return key + fields[5].rstrip("\n").replace("~", "\n") + "\n"

    normal.replace(HL7_LINE, value)
    normal.replace(HL7_ESCAPE, lambda match: HL7_ESCAPES[match[0]])
    if not without_keys(normal.text).strip():
        normal.failure = "HL7 message without a text in an OBX segment"


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


CONTAINERS = (
    Container("RTF", lambda text: text.lstrip().startswith("{\\rtf"), _rtf),
    Container("HL7 message", _is_hl7, _hl7),
    Container("list of labels", lambda text: bool(LABEL_LIST.fullmatch(text)), _label_list),
    Container("JSON", _is_json, _json),
    Container("XML", _is_xml, _xml),
)
