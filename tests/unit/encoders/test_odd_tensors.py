"""Files of tensors that hold other than numbers in memory are refused in one line."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.commands.load import main
from cxrflow.encoders.released.checkpoints import read_checkpoint

ODD: dict[str, Callable[[], Tensor]] = {
    "4 bytes expanded to 1000000000000 numbers": lambda: torch.zeros(1).expand(10**12),
    "on the device meta, without numbers": lambda: torch.zeros(3, device="meta"),
    "sparse_coo": lambda: torch.sparse_coo_tensor([[0]], [1.0], [2]),
    "sparse_csr": lambda: torch.eye(2).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "quantised": lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8),
}


@pytest.mark.filterwarnings("ignore")  # torch's, of layouts that are in beta state
@pytest.mark.parametrize("what", ODD)
def test_odd_tensors_are_named(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x.pt"
    torch.save({"fine": torch.ones(2), "odd": ODD[what]()}, path)
    with pytest.raises(InputError) as error:
        read_checkpoint(path)
    assert str(error.value) == f"{path}: 'odd' is {what}; expected a dense tensor"


@pytest.mark.parametrize("name", ["x.pt", "x.safetensors"])
def test_numbers_of_eight_bits_are_refused(tmp_path: Path, name: str) -> None:
    """Torch can hold them and not say whether they are finite."""
    path = tmp_path / name
    weights = {"conv1.weight": torch.ones(64, 3, 7, 7).to(torch.float8_e4m3fn)}
    (save_file if path.suffix == ".safetensors" else torch.save)(weights, path)
    with pytest.raises(InputError, match="x.* conv1.weight is torch.float8_e4m3fn, expected"):
        main([str(path)])


def test_views_of_larger_tensors_are_read(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    torch.save({"rows": whole[1:], "turned": whole.T, "bits": whole > 3}, tmp_path / "x.pt")
    weights = read_checkpoint(tmp_path / "x.pt")
    assert torch.equal(weights["turned"], whole.T) and len(weights["rows"]) == 2
