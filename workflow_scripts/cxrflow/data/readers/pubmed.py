"""PubMed's annual baseline and update files: ``pubmedYYnNNNN.xml.gz`` → abstracts.

A later file replaces or deletes the records of earlier ones (file order is year and number), so
files are read from the newest to the oldest and the first version of a PMID that is met wins. Which
PMIDs were met is then all that has to be remembered: 37 million records in megabytes.
"""

import gzip
import hashlib
import logging
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from cxr_files.archives import Bounded
from cxr_files.drops import Tally
from cxr_files.errors import InputError
from cxr_files.folders import walk_files
from cxr_files.parallel import ordered_map
from cxr_files.reading import require_regular
from cxrflow.text.documents import DocumentWriter
from cxrflow.text.settings import CorpusSettings

log = logging.getLogger("cxrflow")
LARGEST = 2**27 - 1  # of PMIDs, which are below 2^26 as yet
LONGEST_RECORD = 2**26  # bytes; the longest have thousands of authors and some 500,000
_NAME = re.compile(r"pubmed(\d\d)n(\d{4,})\.xml(\.gz)?$")


@dataclass
class PubMedFile:
    """The records of a file, the last version of each PMID, and the PMIDs it deletes."""

    path: str
    records: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    """PMID → (text, None) or ("", why it has none)."""
    deleted: list[int] = field(default_factory=list)
    replaced: list[int] = field(default_factory=list)
    unnumbered: int = 0  # records whose PMID is not a number
    error: str | None = None


def find_files(root: Path) -> list[Path]:
    """Find all baseline and update files below ``root``, oldest first."""
    numbered = []
    for path in walk_files(root):
        match = _NAME.fullmatch(path.name)
        if match:
            numbered.append((int(match[1]), int(match[2]), str(path)))
    if not numbered:
        raise InputError(f"{root}: no PubMed files; expected pubmedYYnNNNN.xml.gz")
    names = [number[:2] for number in numbered]
    if len(set(names)) < len(names):
        year, number = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{root}: file pubmed{year:02d}n{number:04d} is there more than once")
    return [Path(path) for _, _, path in sorted(numbered)]


def _check_md5(path: Path) -> None:
    twin = path.with_name(path.name + ".md5")
    if not twin.is_file():
        return
    match = re.search(rb"\b[0-9a-fA-F]{32}\b", twin.read_bytes())
    if not match:
        raise InputError(f"{twin}: holds no MD5 sum of 32 hexadecimal digits")
    with open(path, "rb") as handle:
        digest = hashlib.file_digest(handle, "md5").hexdigest()
    if digest != match[0].decode().lower():
        raise InputError(f"{path}: MD5 is {digest}, but {twin.name} says {match[0].decode()}")


def abstract_text(article: ElementTree.Element) -> str:
    """Join the paragraphs of Abstract, each after its printed heading, ``Label``."""
    paragraphs = []
    for paragraph in article.iterfind("Abstract/AbstractText"):
        text = " ".join("".join(paragraph.itertext()).split())  # that of i, sub and formulas, too
        label = paragraph.get("Label", "").strip()
        if text:
            paragraphs.append(f"{label}: {text}" if label else text)
    return " ".join(paragraphs)


def _number(element: ElementTree.Element | None) -> int | None:
    text = (element.text or "").strip() if element is not None else ""
    digits = text.isascii() and text.isdigit() and len(text.lstrip("0")) < 10
    return int(text) if digits and int(text) <= LARGEST else None


def _elements(stream: Bounded) -> Iterator[ElementTree.Element]:
    """Yield the children of the root and remove each, so that memory holds one record."""
    events = ElementTree.iterparse(stream, events=("start", "end"))
    root, depth = None, 0
    for event, element in events:
        depth += 1 if event == "start" else -1
        if root is None:
            root = element
            if root.tag != "PubmedArticleSet":
                raise ValueError(f"root element is {root.tag}, expected PubmedArticleSet")
        elif event == "end" and depth == 1:
            yield element
            root.clear()
            stream.renew()


def read_file(path: Path) -> PubMedFile:
    """Read one file; the reason why it cannot be read is returned in ``error``."""
    content = PubMedFile(str(path))
    versions: dict[int, int] = {}
    try:
        _check_md5(require_regular(path))
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as stream:
            for element in _elements(Bounded(stream, LONGEST_RECORD)):
                if element.tag == "DeleteCitation":
                    numbers = [_number(item) for item in element.iterfind("PMID")]
                    content.unnumbered += numbers.count(None)
                    content.deleted += [number for number in numbers if number is not None]
                elif element.tag == "PubmedArticle":
                    _add_record(content, versions, element)
    except InputError as error:
        content.error = str(error)
    except (OSError, EOFError, zlib.error) as error:
        content.error = f"{path}: not a whole gzip file ({error})"
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # an unknown encoding
        content.error = f"{path}: not PubMed XML ({error})"
    return content


def _add_record(
    content: PubMedFile, versions: dict[int, int], element: ElementTree.Element
) -> None:
    citation = element.find("MedlineCitation")
    identifier = citation.find("PMID") if citation is not None else None
    number = _number(identifier)
    if citation is None or identifier is None or number is None:
        content.unnumbered += 1
        return
    version = identifier.get("Version", "1")
    rank = int(version) if version.isascii() and version.isdigit() and len(version) < 10 else 1
    if number in content.records:
        content.replaced.append(number)
        if rank < versions[number]:
            return
    versions[number] = rank
    article = citation.find("Article")
    text = abstract_text(article) if article is not None else ""
    reason = "no Article element" if article is None else "no abstract"
    content.records[number] = text, None if text else reason


def read_pubmed(
    root: Path, settings: CorpusSettings, writer: DocumentWriter, threads: int = 1
) -> list[Tally]:
    """Write every current abstract below ``root``; newest files first."""
    files, articles = Tally("read files", "files"), Tally("take abstracts", "articles")
    paths = find_files(root)
    # A byte an id; the system gives memory only for pages that are written to.
    read = np.zeros(LARGEST + 1, dtype=bool)
    gone = np.zeros_like(read)  # deleted by a newer file than the one being read
    for content in ordered_map(read_file, reversed(paths), threads):
        if content.error is not None:
            if settings.max_failed_share == 0:
                raise InputError(content.error)
            log.warning("skipped: %s", content.error)
            files.drop("unreadable", [Path(content.path).name], failed=True)
            continue
        files.kept += 1
        _take(content, read, gone, writer, articles)
        log.info("%s: %d records", Path(content.path).name, len(content.records))
    files.require_few(root, settings.max_failed_share)
    return [files, articles]


def _take(
    content: PubMedFile,
    read: NDArray[np.bool_],
    gone: NDArray[np.bool_],
    writer: DocumentWriter,
    articles: Tally,
) -> None:
    name = Path(content.path).name
    articles.drop("PMID is not a number", [name] * content.unnumbered)
    articles.drop("replaced by a newer record", content.replaced)
    gone[np.array(content.deleted, dtype=np.int64)] = True
    numbers = np.fromiter(content.records, dtype=np.int64, count=len(content.records))
    deleted, replaced = gone[numbers], read[numbers]
    articles.drop("deleted (DeleteCitation)", numbers[deleted])
    articles.drop("replaced by a newer record", numbers[replaced & ~deleted])
    for number in numbers[~(deleted | replaced)].tolist():
        text, reason = content.records[number]
        if reason is None:
            writer.add(str(number), text)
            articles.kept += 1
        else:
            articles.drop(reason, [number])
    read[numbers] = True
