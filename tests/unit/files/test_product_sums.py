"""Whoever reads a product compares it with its checksum: no flipped bit becomes a value."""

from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest

from cxr_files.arrays import read_array
from cxr_files.atomic import (
    atomic_folder,
    read_json,
    read_object,
    read_sealed,
    write_checksums,
    write_json,
    write_sealed,
)
from cxr_files.errors import InputError
from cxr_files.parquet import read_table, table_rows
from cxrflow.text.documents import training_texts

READERS = {
    "table.parquet": read_table,
    "chunks.parquet": lambda path: list(table_rows(path, ["text"])),
    "documents.parquet": lambda path: list(training_texts(path, 2)),
    "counts.json": read_json,
    "below/record.json": lambda path: read_object(path, ["a"]),
    "grid.npy": lambda path: read_array(path, 1),
}


@pytest.fixture
def product(tmp_path: Path) -> Path:
    table = pd.DataFrame({"document_id": ["d1", "d2"], "text": ["No effusion.", "Effusion."]})
    with atomic_folder(tmp_path / "product", "model") as made:
        (made / "below").mkdir()
        for name in READERS:
            if name.endswith("parquet"):
                table.to_parquet(made / name)
        for name in ("counts.json", "below/record.json"):
            write_json(made / name, {"a": 12, "b": [0.5, 0.25]})
        np.save(made / "grid.npy", np.arange(40.0))
    return tmp_path / "product"


@pytest.mark.parametrize("name", READERS)
def test_no_reader_takes_a_flipped_bit(product: Path, name: str) -> None:
    path, random = product / name, Random(0)
    content = path.read_bytes()
    READERS[name](path)
    for place in random.sample(range(8 * len(content)), 40):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(InputError, match=f"{path}: damaged, its SHA-256 is not the one in"):
            READERS[name](path)
    path.write_bytes(content)
    READERS[name](path)


def test_a_file_of_the_user_s_has_no_sum(product: Path, tmp_path: Path) -> None:
    for place in (product / "mine.json", tmp_path / "mine.json"):
        write_json(place, {"a": 1})
        assert read_json(place) == {"a": 1}
    write_checksums(product)
    write_json(product / "mine.json", {"a": 2})
    with pytest.raises(InputError, match="mine.json: damaged"):
        read_json(product / "mine.json")


def test_an_object_that_stands_alone_is_sealed(tmp_path: Path) -> None:
    path = tmp_path / "tests.json"
    write_sealed(path, {"cells": [0.1, None], "level": 0.95})
    assert read_sealed(path, ["level"]) == {"cells": [0.1, None], "level": 0.95}
    write_json(path, read_json(path) | {"level": 0.5})
    with pytest.raises(InputError, match=f"{path}: damaged, field 'digest'"):
        read_sealed(path)
