"""Images of a split: resident or read batch by batch, the same batches; and what decides it."""

import logging
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import store_of
from PIL import Image

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.images.free_memory import free_memory, host_memory
from cxrflow.images.store import PixelStore
from cxrflow.pretrain import resident_images
from cxrflow.pretrain.inputs import Pairs
from cxrflow.pretrain.objective import TermsProgram
from cxrflow.pretrain.resident_images import RESIDENT_SHARE, SplitImages
from cxrflow.training.memory import left_by_steps

COUNT, SIDE = 23, 24
CPU = torch.device("cpu")
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=[pytest.mark.gpu]),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> PixelStore:
    """A store of 23 images in three shards."""
    root = tmp_path_factory.mktemp("hospital")
    rng = np.random.default_rng(0)
    names = [f"id{i:02d}" for i in range(COUNT)]
    for name in names:
        pixels = rng.integers(0, 256, (30, 30), dtype=np.uint8)
        Image.fromarray(pixels).save(root / f"{name}.png")
    return PixelStore(store_of(root, names, f"shorter{SIDE}", root=".", images_per_shard=10))


def with_free(monkeypatch: pytest.MonkeyPatch, count: float) -> None:
    """Let there be free memory for ``count`` images to stay in."""

    def free(device: torch.device) -> int:
        return round(count * SIDE**2 / RESIDENT_SHARE)

    monkeypatch.setattr(resident_images, "free_memory", free)


def test_half_of_the_hosts_free_memory_holds_images(store, monkeypatch):
    need = COUNT * SIDE**2
    for free, stay in ((2 * need, True), (2 * need - 1, False)):
        monkeypatch.setattr(resident_images, "free_memory", lambda device, free=free: free)
        assert (SplitImages(store, store.index, CPU).pixels is not None) == stay, free


class FakeGpu:
    """The memory figures of a GPU of 140 GiB, 2 of which another program has."""

    def __init__(self, peak: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
        figures = {"mem_get_info": (140 - 2 - kept, 140), "memory_reserved": kept}
        for name, value in {**figures, "max_memory_allocated": peak}.items():
            gib = tuple(x << 30 for x in value) if isinstance(value, tuple) else value << 30
            monkeypatch.setattr(torch.cuda, name, lambda device, gib=gib: gib)


@pytest.mark.parametrize(
    ("training", "peak", "kept", "room"),
    [
        ("BioViL", 60, 66, 64),
        ("BioViL-T", 95, 95, 29),
        ("SimCLR", 112, 130, 12),
        ("x", 130, 137, 0),
    ],
)
def test_what_steps_leave_of_a_gpu(training, peak, kept, room, monkeypatch):
    """All of it but their peak, a tenth, and what other programs have (docs/performance.md)."""
    FakeGpu(peak, kept, monkeypatch)
    assert left_by_steps(torch.device("cuda")) == room << 30, training


def test_images_move_to_a_gpu_when_a_step_has_shown_the_room(store, monkeypatch):
    """Training's first; those of validation get what is left, if it holds them."""
    taken = []
    monkeypatch.setattr(SplitImages, "_resident", lambda self, rows: taken.append(rows) or rows)
    program = TermsProgram.__new__(TermsProgram)
    sizes = {"train": 12, "validate": 5}
    for room, stay in ((17, [12, 5]), (16, [12]), (11, [5]), (4, [])):
        program.images = {
            split: SplitImages(store, store.index[:size], torch.device("cuda"))
            for split, size in sizes.items()
        }
        assert all(images.pixels is None for images in program.images.values())
        taken.clear()
        program.settle(room * SIDE**2)
        assert [len(rows) for rows in taken] == stay
        staying = [images for images in program.images.values() if images.pixels is not None]
        assert [len(images) for images in staying] == stay


def test_images_that_a_gpu_has_no_room_in_one_piece_for_are_read(store, monkeypatch):
    def exhausted(*shape: object, **options: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    images = SplitImages(store, store.index, torch.device("cuda"))
    monkeypatch.setattr(torch, "empty", exhausted)
    assert images.settle(2**30) == 0 and images.pixels is None


@pytest.mark.parametrize("name", DEVICES)
def test_batches_are_the_same_wherever_images_are(store, monkeypatch, name):
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    ids = [f"id{i:02d}" for i in np.random.default_rng(1).permutation(COUNT)[:17]]
    device = torch.device(name)
    with_free(monkeypatch, 0)
    samples = pd.DataFrame({"image_id": ids})
    resident, read = (SplitImages(store, samples, device) for _ in range(2))
    need = len(ids) * SIDE**2
    assert (resident.settle(need), read.settle(need - 1)) == (need, 0)
    assert resident.pixels is not None and read.pixels is None
    assert len(resident) == len(read) == len(ids)
    for batch in (np.array([16, 0, 7, 7, 3]), np.arange(17), np.array([4])):
        pixels, keys, _ = resident.take(batch).current
        expected = store.read(store.rows([ids[i] for i in batch]))
        assert pixels.dtype == torch.uint8 and pixels.device.type == name
        np.testing.assert_array_equal(pixels.cpu().numpy(), expected)
        assert keys.tolist() == store.rows([ids[i] for i in batch]).tolist()
        for ours, theirs in zip(read.take(batch).current[:2], (pixels, keys), strict=True):
            assert torch.equal(ours, theirs) and ours.device == theirs.device


def test_unpadded_images_come_with_their_place(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 20), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    for geometry, inside in (("longer24unpadded", [[6.0, 0.0, 12.0, 24.0]]), ("longer24", None)):
        padded = PixelStore(store_of(tmp_path, ["a"], geometry, root="."))
        stored = SplitImages(padded, padded.index, CPU).take(np.array([0])).current
        assert (None if stored.inside is None else stored.inside.tolist()) == inside
        assert stored.pixels[0, :, 6:18].any() and not stored.pixels[0, :, :6].any()


def test_one_line_says_where_the_images_are(store, monkeypatch, caplog):
    for free, words in ((COUNT, "stay on cpu"), (COUNT - 1, "are read batch by batch")):
        caplog.clear()
        with_free(monkeypatch, free)
        with caplog.at_level(logging.INFO, logger="cxrflow"):
            SplitImages(store, store.index, CPU)
        (line,) = caplog.messages
        assert f"{COUNT} images" in line and words in line


def test_a_batch_that_is_read_is_free_to_be_changed(store, monkeypatch):
    """Neither kind hands out the memory that later batches are taken from."""
    for free in (1, 0):
        with_free(monkeypatch, free)
        images = SplitImages(store, store.index[3:4], CPU)
        before = images.take(np.array([0])).current.pixels.clone()
        images.take(np.array([0])).current.pixels.zero_()
        assert torch.equal(images.take(np.array([0])).current.pixels, before)


def test_priors_come_with_the_keys_of_their_current_images(store, monkeypatch):
    """A prior may be another sample's current image; one that is missing or not stored is none."""
    current, prior = ["id05", "id02", "id07", "id02"], ["id02", "absent", "id09", None]
    samples = pd.DataFrame({"image_id": current, "prior_image_id": prior})
    for free in (4, 3):
        with_free(monkeypatch, free)
        images = SplitImages(store, samples, CPU, priors=True)
        assert (images.pixels is None) == (free == 3)
        frames = images.take(np.array([2, 1, 0]))
        assert frames.prior is not None and frames.rows is not None
        assert frames.rows.tolist() == [0, 2] and frames.prior.keys.tolist() == [7, 5]
        for part, names in (
            (frames.current, ["id07", "id02", "id05"]),
            (frames.prior, ["id09", "id02"]),
        ):
            np.testing.assert_array_equal(part.pixels.numpy(), store.read(store.rows(names)))
        assert images.take(np.array([3, 1])).prior is None
        assert SplitImages(store, samples, CPU).take(np.arange(4)).prior is None


def write_pairs(folder: Path, **columns: object) -> Path:
    """Three studies of three patients, all to train on, beside their flow.json."""
    ids = {"subject_id": ["a", "b", "c"], "study_id": ["1", "2", "3"]}
    table = pd.DataFrame({**ids, "findings": "x", "impression": "y", "split": "train", **columns})
    table.to_parquet(folder / "pairs.parquet")
    write_json(folder / "flow.json", {"dataset": "toy", "cohort": "toy", "synthetic": True})
    return folder / "pairs.parquet"


def test_a_study_whose_prior_is_not_stored_stays_without_it(store, tmp_path):
    ids = {"image_id": ["id01", "id02", "id03"], "prior_image_id": ["id04", "absent", None]}
    path = write_pairs(tmp_path, **ids)
    reason = "prior is not in the pixel store, its study stays"
    for priors, counts in ((True, [(reason, 1)]), (False, [])):
        pairs = Pairs(path)
        split = pairs.split("train", (), store, priors=priors)
        assert len(split) == 3
        assert [(drop.reason, drop.count) for drop in pairs.dropped] == counts
    assert SplitImages(store, split, CPU, priors=True).take(np.arange(3)).rows.tolist() == [0]


def test_a_split_that_is_left_with_nothing_says_what_was_missing(store, tmp_path):
    path = write_pairs(tmp_path, image_id=[None, None, "absent"], impression=["y", "z", ""])
    absent = "image is not in the pixel store (1)"
    for sections, left_out in (
        (("impression",), r"no text in impression \(1\), no image \(2\)"),
        ((), re.escape(f"no image (2), {absent}")),
    ):
        with pytest.raises(InputError, match=f"'train' is left; left out: {left_out}$"):
            Pairs(path).split("train", sections, store, 1.0)
    with pytest.raises(InputError, match="no row of split 'validate'$"):
        Pairs(path).split("validate", ("impression",), store)


def machine(root: Path, available_kb: int, groups: str, files: dict[str, str]) -> Path:
    """What Linux shows of memory and control groups, below ``root``."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(
        f"MemTotal: 999999 kB\nMemAvailable: {available_kb} kB\nHugePages_Total: 0\n"
    )
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def limited(folder: str, most: str, used: int, files: int) -> dict[str, str]:
    """A control group of version 2."""
    return {
        f"{folder}/memory.max": most,
        f"{folder}/memory.current": str(used),
        f"{folder}/memory.stat": f"anon 5\ninactive_file {files}",
    }


MACHINES = {
    "no limit": (1000 * 1024, "0::/", {}),
    "limit of the machine": (1000 * 1024, "0::/job", limited("job", "9000000", 0, 0)),
    "limit of the job": (60_000 - 45_000 + 7_000, "0::/job", limited("job", "60000", 45_000, 7000)),
    "limit further out": (
        500,
        "0::/job/step/task",
        limited("job", "700", 200, 0) | limited("job/step", "max", 200, 0),
    ),
    "limits of version 1": (
        800,
        "9:name=systemd:/\n4:memory:/job\n0::/",
        {
            "memory/job/memory.limit_in_bytes": "1000",
            "memory/job/memory.usage_in_bytes": "300",
            "memory/job/memory.stat": "total_inactive_file 100",
        },
    ),
    "a container that shows its own group as the top": (
        750,
        "0::/somewhere/outside",
        {"memory.max": "800", "memory.current": "50", "memory.stat": "inactive_file 0"},
    ),
    "used beyond the limit": (0, "0::/job", limited("job", "100", 200, 0)),
}


@pytest.mark.parametrize("name", MACHINES)
def test_memory_of_the_host(tmp_path: Path, name: str) -> None:
    expected, groups, files = MACHINES[name]
    assert host_memory(machine(tmp_path, 1000, groups, files)) == expected


def test_processes_share_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    alone = free_memory(CPU)
    assert 2**20 < alone < 2**50
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert free_memory(CPU) == pytest.approx(alone / 4, rel=0.3)
