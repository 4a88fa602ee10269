"""``run.json`` of a model folder: what its training has recorded."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from cxr_files.atomic import read_object, require_fields, require_whole

#: Types of the fields that are read, where they are there.
FIELDS = {
    **{name: dict | NoneType for name in ("data", "settings", "permuted_pairs", "twins")},
    "pairs_learnt": bool | NoneType,
}

#: The name in ``data`` of published weights, whose training data no record names.
UNNAMED_DATA = "published weights"


def learnt(record: Mapping[str, Any]) -> bool | None:
    """Whether the training has learnt (docs/inference.md); None where that was not assessed.

    Of a record without an answer, from before there were twins, by permuted pairs.
    """
    if "pairs_learnt" in record:
        answer: bool | None = record["pairs_learnt"]
    else:
        answer = (record.get("permuted_pairs") or {}).get("differs")
    return answer


def relates_sentences(record: Mapping[str, Any]) -> bool:
    """True if the projection of the text encoder gives the logits of how two sentences relate."""
    return record.get("program") == "sentence_pairs"


def learnt_in_words(record: Mapping[str, Any]) -> str:
    """A training's answer to whether it has learnt, as its log ends."""
    ranks = ", ".join(
        f"{name}: rank of the true pair {rank:.3f}, of untrained starts {min(untrained):.3f} to "
        f"{max(untrained):.3f}"
        for name, rank, untrained, _ in beside_twins(record)
    )
    answer = {
        True: "it has learnt: it tells its pairs apart better than chance",
        False: "IT HAS NOT LEARNT: it tells its pairs apart no better than untrained starts, or "
        "than permuted pairs; its rows say so, and no ranking is taken from them",
        None: "whether it has learnt is not known: its pairs were not compared",
    }[learnt(record)]
    return f"{answer} ({ranks})" if ranks else answer


def beside_twins(record: Mapping[str, Any]) -> Iterator[tuple[str, float, Sequence[float], float]]:
    """Of each term that was compared with twins: name, rank, those of the twins, and p.

    The p is that of its question, which other terms may answer as well.
    """
    for question in (record.get("twins") or {}).values():
        for name, term in question["terms"].items():
            yield name, term["rank"], term["untrained"], question["p"]


def read_run(folder: Path) -> dict[str, Any]:
    """Read the record of a model folder; of one that has none nothing is known.

    Raises:
        InputError: it is damaged, or missing though the folder's checksums list it.
    """
    path = folder / "run.json"
    require_whole(path)
    if not path.is_file():
        return {}
    record = read_object(path)
    kinds = {name: kind for name, kind in FIELDS.items() if name in record}
    require_fields(record, kinds, str(path))
    return record
