"""Bad tables and JSON files of an earlier stage: one line names the file, and nothing is written.

What a stage wrote can be cut off, edited or taken from another run; every program that reads it
must say so.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import End, absent, change_parquet, program
from tiny_hospital import Stages, no_state

from cxr_files.atomic import read_json

Run = Callable[[Stages, Path], End]

# Every program that reads a Parquet table, the table, and a column that it needs.
READERS: dict[str, tuple[str, str, Run]] = {
    "cohort, sections": ("corpus/sections", "impression", lambda s, o: s.make_cohort(o)),
    "cohort, sentences": ("corpus/sentences", "sentence", lambda s, o: s.make_cohort(o)),
    "cohort, documents": ("corpus/documents", "text", lambda s, o: s.make_cohort(o)),
    "store, images": ("cohort/images", "image_path", lambda s, o: s.make_pixels(o)),
    "vocabulary": ("cohort/documents", "text", lambda s, o: s.make_vocabulary(o)),
    "tokens": ("cohort/documents", "text", lambda s, o: s.make_tokens(o)),
    "phase II": ("cohort/pairs", "study_id", lambda s, o: s.train_words(o)),
    "phase III": ("cohort/pairs", "split", lambda s, o: s.train_sections(o)),
    "SimCLR": ("cohort/pairs", "image_id", lambda s, o: s.train_images(o)),
    "SimCLR, store": ("pixels/index", "image_id", lambda s, o: s.train_images(o)),
    "joint": ("cohort/pairs", "image_id", lambda s, o: s.train_joint(o)),
    "grounding": ("grounding/samples", "boxes", lambda s, o: s.ground(o)),
    "grounding, store": ("pixels-grounding/index", "original_width", lambda s, o: s.ground(o)),
    "features": ("rsna/samples", "image_id", lambda s, o: s.extract(o)),
    "zero-shot": ("rsna/samples", "labels", lambda s, o: s.classify(o)),
    "mask prediction": ("cohort/pairs", "subject_id", lambda s, o: s.predict_masks(o)),
    "vocabulary comparison": (
        "cohort/pairs", "findings", lambda s, o: s.compare_vocabularies(o)
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", ["cut", "empty", "no Parquet", "gone", "missing column"])
@pytest.mark.parametrize("reader", READERS)
def test_bad_parquet_is_one_line(stages: Stages, tmp_path: Path, reader: str, damage: str) -> None:
    table, column, run = READERS[reader]
    path = stages.results / f"{table}.parquet"
    content = path.read_bytes()
    if damage == "missing column":
        change_parquet(path, lambda frame: frame.drop(columns=column))
    elif damage == "gone":
        path.unlink()
    else:
        path.write_bytes(
            {"cut": content[: len(content) // 2], "empty": b"", "no Parquet": b"a,b\n1,2\n" * 99}[
                damage
            ]
        )
    end = run(stages, tmp_path / "result")
    end.refuses(path, *([f"column '{column}' is missing"] if damage == "missing column" else []))
    assert absent(tmp_path / "result") and no_state(tmp_path / "result")


@pytest.mark.parametrize(
    ("file", "run"),
    [
        ("cohort/flow.json", lambda s, o: s.train_joint(o)),
        ("grounding/flow.json", lambda s, o: s.ground(o)),
        ("pixels/store.json", lambda s, o: s.train_images(o)),
        ("tokens/tokens.json", lambda s, o: s.train_words(o)),
        ("vocabulary/tokenizer.json", lambda s, o: s.make_tokens(o)),
        ("models/joint/run.json", lambda s, o: s.ground(o)),
        ("models/joint/config.json", lambda s, o: s.ground(o)),
        ("models/joint/image/config.json", lambda s, o: s.ground(o)),
        ("models/images/image/config.json", lambda s, o: s.train_joint(o)),
    ],
)
@pytest.mark.parametrize("content", ["", "{", "{}", "[]", "\xff"])
def test_bad_json_is_one_line(stages, tmp_path, file, run, content):
    path = stages.results / file
    path.write_bytes(content.encode("latin-1"))
    end = run(stages, tmp_path / "result")
    end.refuses(path)
    assert absent(tmp_path / "result") and no_state(tmp_path / "result")


def test_results_that_do_not_belong_in_one_table(stages: Stages, tmp_path: Path) -> None:
    stages.classify(tmp_path / "ours").succeeds()
    ours = tmp_path / "ours" / "metrics.json"
    content = read_json(ours)

    def table(*files: Path) -> End:
        names = {"paper": "biovil", "table": "table6"}
        return program(
            "show.tables.make_table", **names, metrics=[*files], output=tmp_path / "table"
        )

    other = tmp_path / "other.json"
    for change, words in (
        (lambda c: c.pop("protocol"), ["field 'protocol' is missing"]),
        (lambda c: c["data"].update(synthetic=False), ["synthetic data", "real data"]),
        (lambda c: None, ["is given twice"]),
    ):
        changed = json.loads(json.dumps(content))
        change(changed)
        other.write_text(json.dumps(changed))
        table(ours, other).refuses(other, *words)
    other.write_text("{")
    table(ours, other).refuses(other, "not valid JSON")
    table(ours, tmp_path / "nowhere.json").refuses(tmp_path / "nowhere.json", "not found")
    assert not list(tmp_path.glob("table*"))
