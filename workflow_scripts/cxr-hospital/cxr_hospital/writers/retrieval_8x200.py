"""The 8x200 copy: the candidates among the CheXpert copy's images, and the queries.

Lists alone, as published: the candidates with CheXpert's columns, twice the same; the image queries
with line ends of Windows.
"""

from pathlib import Path

from cxr_hospital.settings import HospitalSettings
from cxr_hospital.wording.retrieval import QUERIES
from cxr_hospital.writers.chexpert import COLUMNS, image_row, make_chexpert_patient, records
from cxr_hospital.writers.folder import Counts, Row, dataset_writer, write_table

IMAGES, TEXTS = "image-retrieval", "text-retrieval"


@dataset_writer()
def write_retrieval_8x200(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write the four lists."""
    rows: dict[str, list[Row]] = {"candidate": [], "query": []}
    for record in records(settings):
        if not record.orders:
            continue
        patient = make_chexpert_patient(settings, record)
        for number, order in enumerate(record.orders):
            image = patient.studies[number].images[0]
            row = image_row(settings, record, patient, number, image)
            rows[order.role].append((order.category, row[0]) if order.role == "query" else row)
    texts = [(category, text) for category, queries in QUERIES.items() for text in queries]
    for name in (IMAGES, TEXTS):
        (folder / name).mkdir()
        write_table(folder / name / "candidate.csv", COLUMNS, rows["candidate"])
    query = folder / IMAGES / "query.csv"
    write_table(query, ("Variable", "Path"), rows["query"])
    query.write_bytes(query.read_bytes().replace(b"\n", b"\r\n"))
    write_table(folder / TEXTS / "query.csv", ("Variable", "Text"), texts)
    return {
        "candidates": len(rows["candidate"]),
        "image_queries": len(rows["query"]),
        "text_queries": len(texts),
    }
