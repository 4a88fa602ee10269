"""Batches of stored images on the device against a DataLoader that decodes PNG files."""

import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from cxrflow.images.build import build_store
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.shards import Source
from cxrflow.images.store import PixelStore
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.training.precision import choose_device
from speed.race import Race

IMAGES, SIDE, BATCH, WORKERS = 192, 512, 32, 2


class PngFiles(Dataset[Tensor]):
    """What a training script has where ours has a store: a list of files, decoded when asked."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> Tensor:
        with Image.open(self.paths[row]) as image:
            return torch.from_numpy(np.array(image))


def invent_store(root: Path) -> tuple[PixelStore, list[Path]]:
    """A store of smooth images with noise, and PNG files of what it holds, in the same order."""
    rng = np.random.default_rng(0)
    y, x = np.ogrid[:SIDE, :SIDE]
    sources = [Source(f"{number:04d}", f"{number:04d}.png") for number in range(IMAGES)]
    for number, source in enumerate(sources):
        wave = 128 + 80 * np.sin((y + 9 * number) / 50) * np.cos(x / 40)
        pixels = (wave + rng.normal(0, 4, (SIDE, SIDE))).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(root / source.path)
    folder = root / "store"
    build_store(root, sources, Geometry.parse(f"shorter{SIDE}"), PixelSettings(), folder, 1)
    store = PixelStore(folder)
    for number, source in enumerate(sources):
        Image.fromarray(store.read([number])[0]).save(root / source.path)
    return store, [root / source.path for source in sources]


def races() -> list[Race]:
    """One race with the images on the device, one with them read from the store."""
    folder = TemporaryDirectory(prefix="cxrflow-race-")
    store, paths = invent_store(Path(folder.name))
    device = choose_device("auto")
    order = np.random.default_rng(1).permutation(IMAGES)
    batches = [order[start : start + BATCH] for start in range(0, IMAGES, BATCH)]
    pinned = device.type == "cuda"
    loader: Iterable[Tensor] = DataLoader(
        PngFiles(paths),
        batch_sampler=[batch.tolist() for batch in batches],
        num_workers=WORKERS,
        pin_memory=pinned,
        persistent_workers=True,
    )
    resident, read = (SplitImages(store, store.index, device) for _ in range(2))
    if resident.pixels is None:  # a GPU's wait for its first step
        resident.settle(sys.maxsize)
    read.pixels = None  # as if they had not fitted

    def files() -> list[Tensor]:
        return [batch.to(device, non_blocking=pinned) for batch in loader]

    def ours(images: SplitImages) -> list[Tensor]:
        assert folder.name  # keeps the folder, which goes with its last reference
        return [images.take(batch).current.pixels for batch in batches]

    def same(found: list[Tensor], wanted: list[Tensor]) -> None:
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert torch.equal(one, other) and one.device == other.device

    return [
        Race(
            name=f"input_feed_{name}",
            what=f"{IMAGES} images of {SIDE} x {SIDE} pixels in batches of {BATCH} on {device}, "
            f"uint8, in random order: {how}",
            ours=lambda images=images: ours(images),
            peers={f"DataLoader over PNG files, {WORKERS} workers": files},
            check=same,
            amount=IMAGES,
            unit="image",
            notes=[
                "compared: every byte; the files hold what the store holds, already resized",
                "the workers stay alive between turns and work ahead; files and store are in the "
                "page cache",
            ],
        )
        for name, images, how in (
            ("resident", resident, "held on the device"),
            ("read", read, "copied from the store's memory-mapped files"),
        )
    ]
