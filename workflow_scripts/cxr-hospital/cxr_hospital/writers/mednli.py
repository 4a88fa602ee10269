"""The MedNLI copy: ``mli_{train,dev,test}_v1.jsonl`` with the keys of SNLI, parses included."""

import functools
import re
import uuid
from pathlib import Path

from cxr_hospital.claims import LABELS
from cxr_hospital.clinical_pairs import clinical_pairs
from cxr_hospital.radiology_pairs import SentencePair
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, dataset_writer, write_json_lines

#: File -> its lines as a share of the training file's: 11,232, 1,395 and 1,422 as published.
FILES = {"mli_train_v1.jsonl": 1.0, "mli_dev_v1.jsonl": 0.124, "mli_test_v1.jsonl": 0.127}
_TOKEN = re.compile(r"\w+(?:[-/']\w+)*|[^\w\s]")
_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-"}


def _tokens(sentence: str) -> list[str]:
    return [_BRACKETS.get(token, token) for token in _TOKEN.findall(sentence)]


def parse(sentence: str) -> str:
    """A flat constituency parse: one fragment of words and punctuation marks."""
    leaves = (
        f"(X {t})" if t[0].isalnum() or t[0] == "-" else f"(. {t})" for t in _tokens(sentence)
    )
    return f"(ROOT (FRAG {' '.join(leaves)}))"


def binary_parse(sentence: str) -> str:
    """A right-branching binary parse without labels."""
    return functools.reduce(lambda tree, leaf: f"( {leaf} {tree} )", _tokens(sentence)[::-1])


def _line(number: int, pair: SentencePair) -> dict[str, str]:
    return {
        "gold_label": pair.label,
        "pairID": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{number}/{pair.premise}")),
        "sentence1": pair.premise,
        "sentence1_binary_parse": binary_parse(pair.premise),
        "sentence1_parse": parse(pair.premise),
        "sentence2": pair.hypothesis,
        "sentence2_binary_parse": binary_parse(pair.hypothesis),
        "sentence2_parse": parse(pair.hypothesis),
    }


@dataset_writer()
def write_mednli(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write the three files.

    No premise repeats one of an earlier file, so one process writes them in order; ``threads`` is
    not used.
    """
    known_premises: set[str] = set()
    counts = {}
    for file, (name, share) in enumerate(FILES.items()):
        premises = max(1, round(settings.mednli_pairs * share / len(LABELS)))
        pairs = clinical_pairs(settings, premises * len(LABELS), file, known_premises)
        lines = [_line(number, pair) for number, pair in enumerate(pairs)]
        write_json_lines(folder / name, lines)
        counts[name.removesuffix("_v1.jsonl")] = len(lines)
    return counts
