"""RadEval's expert set: radiologists' errors in candidate reports, as pairs of texts with a count.

A row of ``reader_study_final_with_annotationsv3.csv`` has one section of a report, three candidates
and what one reader says of each. An annotation is a text: below the headings "significant" and
"insignificant" seven numbered kinds of error, each with a count. ``significant`` and ``all`` are
their sums; ``label`` is the first, in words. An annotation without a count of each kind is counted
and left out, as what is not said is not none.

The patient, of MIMIC-CXR or CheXpert, stands in the path of the image and joins a patient's pairs.
"""

import re
from pathlib import Path

import pandas as pd

from cxr_files.csv_table import Kind, read_csv, require_file
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables, without

LISTS = layout("radeval").lists["tables"]
CANDIDATES = ("1", "2", "3")
KINDS = 7
HEADING = re.compile(r"\W*(?:clinically )?(in)?significant(?: errors)?\W*", re.IGNORECASE)
COUNT = re.compile(rf"\W*([1-{KINDS}])[.)].*\D[:=]\s*(\d+)\W*")
PATIENT = re.compile(r"(?:^|[/\\])(p\d{6,}|patient\d+)(?=[/\\]|$)")


def read(root: Path, request: Request) -> Tables:
    """Read the list."""
    columns: dict[str, Kind] = {"type": "id", "ground_truth": "id", "images_path": "id"}
    for name in ("prediction", "annotation"):
        columns |= {f"{name}{number}": "text" for number in CANDIDATES}
    path = require_file(root, *LISTS["errors"])
    reports, damage = read_csv(path, columns)
    patient = reports["images_path"].str.extract(PATIENT)[0].fillna(reports["images_path"])
    pairs = pd.concat(
        [
            pd.DataFrame(
                {
                    "sample_id": reports.index.astype("str") + f"|{number}",
                    "pair_id": patient,
                    "premise": reports["ground_truth"],
                    "hypothesis": reports[f"prediction{number}"],
                    "split": "test",
                    "subset": reports["type"].str.lower(),
                    "annotation": reports[f"annotation{number}"].fillna(""),
                }
            )
            for number in CANDIDATES
        ],
        ignore_index=True,
    )
    counts = pd.DataFrame(
        pairs["annotation"].map(error_counts).tolist(), columns=["significant", "insignificant"]
    )
    tests = {
        f"{path.name}: a candidate is blank": pairs["hypothesis"].fillna("").str.strip() == "",
        f"{path.name}: no count of each kind of error": counts.isna().any(axis=1),
    }
    pairs, lost = without(pairs, pairs["sample_id"], tests)
    counts = counts.loc[pairs.index].astype("float64")
    rows = pairs.drop(columns="annotation").assign(
        label=counts["significant"].map("{:g} significant errors".format).astype("str"),
        significant=counts["significant"],
        all=counts.sum(axis=1),
    )
    return Tables(
        source=root,
        sentence_pairs=rows.reset_index(drop=True),
        dropped={"sentence_pairs": [*damage, *lost]},
    )


def error_counts(annotation: str) -> tuple[int | None, int | None]:
    """Significant and insignificant errors of an annotation; None where a kind has no count.

    >>> kinds = "\\n".join(f"{n}. Some kind of error: {n % 2}" for n in range(1, 8))
    >>> error_counts(f"Significant:\\n{kinds}\\nInsignificant:\\n{kinds}")
    (4, 4)
    """
    by_kind: tuple[dict[str, int], dict[str, int]] = {}, {}
    said = None
    for line in filter(str.strip, annotation.splitlines()):
        if heading := HEADING.fullmatch(line):
            said = by_kind[heading[1] is not None]
            if said:  # twice: which of them counts is not known
                return None, None
        elif said is not None and (count := COUNT.fullmatch(line)):
            kind, errors = count[1], int(count[2])
            if said.setdefault(kind, errors) != errors:
                return None, None
    significant, insignificant = (
        sum(counts.values()) if len(counts) == KINDS else None for counts in by_kind
    )
    return significant, insignificant
