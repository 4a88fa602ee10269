"""The RadNLI copy: ``radnli_dev_v1.jsonl`` and ``radnli_test_v1.jsonl``, no training file."""

import hashlib
from pathlib import Path

import numpy as np

from cxr_hospital.radiology_pairs import SentencePair, radiology_pairs
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, dataset_writer, write_json_lines

FILES = ("radnli_dev_v1.jsonl", "radnli_test_v1.jsonl")


def _line(name: str, number: int, pair: SentencePair) -> dict[str, str]:
    """One object; the id reveals neither the pair nor its other direction."""
    key = hashlib.sha256(f"{name}/{number}".encode()).hexdigest()[:12]
    return {
        "pair_id": key,
        "sentence1": pair.premise,
        "sentence2": pair.hypothesis,
        "gold_label": pair.label,
    }


@dataset_writer()
def write_radnli(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write both files.

    No pair repeats one of an earlier file, so one process writes them in order; ``threads`` is not
    used.
    """
    previous: set[frozenset[str]] = set()
    counts = {}
    for file, name in enumerate(FILES):
        pairs = list(radiology_pairs(settings, settings.radnli_pairs, file, previous))
        order = np.random.default_rng([settings.seed, file]).permutation(len(pairs))
        lines = [_line(name, number, pairs[i]) for number, i in enumerate(order)]
        write_json_lines(folder / name, lines)
        counts[name.removesuffix("_v1.jsonl")] = len(lines)
    return counts
