"""The copy of RadEval's expert set: reports, three candidates each, and a reader's errors as text.

Candidates and errors are those of the ReXVal copy, of other patients. Two annotations lack a count.
"""

from pathlib import Path

import numpy as np

from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, Row, dataset_writer, write_table
from cxr_hospital.writers.rexval import STUDIES, candidate_of, errors_of, report_of

FILE = "reader_study_final_with_annotationsv3.csv"
CANDIDATES = 3
KINDS = (
    *("False prediction of finding", "Omission of finding"),
    *("Incorrect location/position of finding", "Incorrect severity of finding"),
    "Mention of comparison that is not in the reference",
    "Omission of a change from the previous study",
    "Inarticulate report (grammar, readability)",
)
WITHOUT_COUNT = {(0, 1), (7, 2)}  # report and candidate
_FIRST = 2 * STUDIES  # patient; those before are the ReXVal copy's
_STREAM = 157


def _annotation(errors: list[tuple[int, bool]], broken: bool) -> str:
    """What a reader says: below two headings the count of each kind."""
    lines = []
    for significant in (True, False):
        lines.append("Significant:" if significant else "Insignificant:")
        for number, kind in enumerate(KINDS, 1):
            count = errors.count((number, significant))
            lines.append(f"{number}. {kind}: {count if not broken or number != 3 else ''}")
    return "\n".join(lines)


@dataset_writer()
def write_radeval(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write the list, in one process."""
    rng = np.random.default_rng([settings.seed, _STREAM])
    reports = [report_of(settings, _FIRST + number) for number in range(2 * STUDIES)]
    rows: list[Row] = []
    for number, report in enumerate(reports[:STUDIES]):
        texts, annotations = [], []
        for place in range(1, CANDIDATES + 1):
            candidate = candidate_of(report, reports, rng)
            texts.append(" ".join(candidate))
            broken = (number, place) in WITHOUT_COUNT
            annotations.append(_annotation(errors_of(report, candidate), broken))
        image = f"files/p{18_000_000 + number // 2}/s{58_000_000 + number}/image.jpg"
        section = ("findings", "impression")[number % 2]
        rows.append((f"reader{number % 2}", section, " ".join(report), image, *texts, *annotations))
    columns = ("annotator", "type", "ground_truth", "images_path")
    numbered = [
        f"{name}{n + 1}" for name in ("prediction", "annotation") for n in range(CANDIDATES)
    ]
    write_table(folder / FILE, (*columns, *numbered), rows)
    return {"reports": len(rows), "candidates": len(rows) * CANDIDATES}
