"""The PubMed copy: baseline files ``pubmed26nNNNN.xml.gz`` with ``.md5`` twins, one update file.

The last file revises some records (same PMID, next version) and deletes others: a reader must
follow the files in order, or it keeps outdated text.
"""

import hashlib
from pathlib import Path
from xml.sax.saxutils import escape

from cxr_hospital.literature import Abstract, abstract
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, dataset_writer, each, write_gzip

_HEAD = (
    '<?xml version="1.0" encoding="utf-8"?>\n'
    '<!DOCTYPE PubmedArticleSet SYSTEM "http://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">\n'
    "<PubmedArticleSet>\n"
)
_TAIL = "</PubmedArticleSet>\n"
_RECORDS_PER_FILE = 1000
_FIRST_PMID = 99_000_000
#: Every so many-th record is revised, or deleted, by the update file.
_REVISED, _DELETED = 50, 120


def _marked(text: str, markup: bool) -> str:
    """Escaped text; with ``markup`` some inline elements as in real records."""
    xml = escape(text)
    if markup:
        xml = xml.replace("P = ", "<i>P</i> = ").replace("P &lt; ", "<i>P</i> &lt; ")
        xml = xml.replace("95% CI", "95% CI<sub>adj</sub>").replace("mg/kg", "mg kg<sup>-1</sup>")
    return xml


def _abstract_element(record: Abstract) -> str:
    if not record.sections:
        return ""
    texts = []
    for label, text in record.sections:
        attributes = f' Label="{label}" NlmCategory="{label}"' if label else ""
        texts.append(f"<AbstractText{attributes}>{_marked(text, record.markup)}</AbstractText>")
    return (
        f"<Abstract>{''.join(texts)}"
        "<CopyrightInformation>Invented text.</CopyrightInformation></Abstract>\n"
    )


def article(seed: int, version: int, number: int) -> str:
    """One PubmedArticle element."""
    record = abstract(seed, number, version)
    pmid = _FIRST_PMID + number
    title = _marked(record.title, record.markup)
    vernacular = (
        "<VernacularTitle>Titre inventé.</VernacularTitle>" if record.language == "fre" else ""
    )
    return (
        f'<PubmedArticle><MedlineCitation Status="MEDLINE" Owner="NLM">\n'
        f'<PMID Version="{version}">{pmid}</PMID>\n'
        f"<DateRevised><Year>{record.year}</Year><Month>03</Month><Day>14</Day></DateRevised>\n"
        f'<Article PubModel="Print"><Journal><JournalIssue CitedMedium="Internet"><PubDate>'
        f"<Year>{record.year}</Year></PubDate></JournalIssue><Title>{record.journal}</Title>"
        f"</Journal>\n<ArticleTitle>{title}</ArticleTitle>\n"
        f'<ELocationID EIdType="doi" ValidYN="Y">10.99999/invented.{pmid}</ELocationID>\n'
        f"{_abstract_element(record)}<Language>{record.language}</Language>{vernacular}</Article>\n"
        f"</MedlineCitation><PubmedData><PublicationStatus>ppublish</PublicationStatus>"
        f'<ArticleIdList><ArticleId IdType="pubmed">{pmid}</ArticleId></ArticleIdList></PubmedData>'
        f"</PubmedArticle>\n"
    )


@dataset_writer()
def write_pubmed(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write the files."""
    total = settings.abstracts
    elements = list(each(range(total), threads, "pubmed", article, settings.seed, 1))
    starts = range(0, total, _RECORDS_PER_FILE)
    chunks = [elements[start : start + _RECORDS_PER_FILE] for start in starts]
    revised = range(0, total, _REVISED)
    deleted = range(1, total, _DELETED)
    pmids = "".join(f'<PMID Version="1">{_FIRST_PMID + n}</PMID>' for n in deleted)
    update = [article(settings.seed, 2, number) for number in revised]
    gone = [f"<DeleteCitation>{pmids}</DeleteCitation>\n"] if pmids else []
    for number, chunk in enumerate([*chunks, update + gone], 1):
        path = folder / f"pubmed26n{number:04d}.xml.gz"
        write_gzip(path, (_HEAD + "".join(chunk) + _TAIL).encode())
        digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        Path(f"{path}.md5").write_text(f"MD5({path.name})= {digest}\n")
    counts = {"records": total, "revised": len(revised), "deleted": len(deleted)}
    return {"files": len(chunks) + 1} | counts
