"""What a training starts from, as its record names it."""

from pathlib import Path

import pytest

from cxrflow.errors import InputError
from cxrflow.files import file_digest
from cxrflow.pretrain.inputs import model_fingerprint


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
