"""What a training starts from, as its record names it."""

from pathlib import Path

import pytest

from cxrflow.errors import InputError
from cxrflow.files.atomic import file_digest
from cxrflow.pretrain.inputs import model_fingerprint
from cxrflow.pretrain.packed_corpus import require_filled_parts
from cxrflow.training.processes import Processes
from cxrflow.training.settings import TrainingSettings


def test_a_start_is_known_by_both_of_its_halves(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    text, image = tmp_path / "model.safetensors", tmp_path / "image" / "model.safetensors"
    with pytest.raises(InputError, match=r"holds no model\.safetensors"):
        model_fingerprint(tmp_path)
    text.write_bytes(b"text")
    found = [model_fingerprint(tmp_path)]
    for content in (b"image", b"another"):
        image.write_bytes(content)
        found.append(model_fingerprint(tmp_path))
    assert len(set(found)) == 3 and found[0] == file_digest(text)[:16]
    text.unlink()
    assert model_fingerprint(tmp_path) == file_digest(image)[:16]


def test_every_part_of_a_batch_has_a_row_in_every_process() -> None:
    def check(accumulate: int, rows: int = 100, world: int = 1) -> None:
        training = TrainingSettings(batch_size=13, steps=1, accumulate=accumulate)
        require_filled_parts(training, rows, Processes(0, world))

    check(13)
    check(3, world=4)
    check(1, rows=0)  # another message
    for wrong, has in (((14, 100), 13), ((4, 100, 4), 3), ((8, 5), 5)):
        with pytest.raises(InputError, match=f"is {wrong[0]}, but .* have {has} each"):
            check(*wrong)
