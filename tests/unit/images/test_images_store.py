"""The pixel store: contents, independence of processes, resuming after SIGKILL, damage, disks."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from dicom_files import chest, write_crashing_dicom
from PIL import Image

from command_options import options, run_to_end
from cxr_files.atomic import CHECKSUMS, file_digest, read_json, write_json
from cxr_files.errors import InputError, PassingError
from cxr_files.ids import HIDDEN, IDS
from cxr_files.outputs import held_folder
from cxrflow.images import shards
from cxrflow.images.build import build_store
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.shards import Source, store_image
from cxrflow.images.store import PixelStore
from cxrflow.images.store_pixels import main

GEOMETRY = "shorter24"


def write_hospital(folder: Path, count: int, size: int = 40) -> Path:
    """A folder of ``count`` PNG files and the list of them."""
    rng = np.random.default_rng(4)
    (folder / "files").mkdir(parents=True)
    rows = []
    for i in range(count):
        pixels = rng.integers(0, 256, (size + i % 5, size), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "files" / f"{i:04d}.png")
        rows.append({"image_id": f"id{i:04d}", "image_path": f"files/{i:04d}.png"})
    write_list(folder / "images.parquet", rows)
    return folder


def write_list(path: Path, rows: list[dict[str, str]]) -> Path:
    pd.DataFrame(rows).to_parquet(path)
    return path


def arguments(
    root: Path, *lists: Path, output: str = "store", threads: int = 1, **settings: Any
) -> list[str]:
    return options(
        root=root,
        images=lists or [root / "images.parquet"],
        geometry=GEOMETRY,
        threads=threads,
        settings={"images_per_shard": 10, **settings},
        output=root / output,
    )


def build(root: Path, *lists: Path, output: str = "store", **asked: Any) -> PixelStore:
    main(arguments(root, *lists, output=output, **asked))
    return PixelStore(root / output)


def contents(folder: Path) -> dict[str, str]:
    """The digest of every file of a store."""
    return {path.name: file_digest(path) for path in sorted(folder.iterdir())}


def test_what_is_stored(tmp_path: Path) -> None:
    store = build(write_hospital(tmp_path, 23))
    assert len(store) == 23 and store.size == 24 and str(store.geometry) == GEOMETRY
    shards = sorted(path.name for path in (tmp_path / "store").glob("*.npy"))
    assert shards == [f"shard-0000{number}.npy" for number in range(3)]
    ids = ["id0017", "id0003", "id0022", "id0003"]
    rows = store.rows(ids)
    pixels = store.read(rows)
    assert pixels.shape == (4, 24, 24) and pixels.dtype == np.uint8
    for name, image in zip(ids, pixels, strict=True):
        source = Source(name, f"files/{name[2:]}.png")
        expected, _ = store_image(tmp_path, source, Geometry.parse(GEOMETRY), PixelSettings())
        np.testing.assert_array_equal(image, expected)
    row = store.index.iloc[rows[1]]
    assert (row["original_height"], row["original_width"]) == (43, 40)
    assert (row["photometric"], row["bits"], row["shard"], row["row"]) == ("L", 8, 0, 3)
    assert store.placement(int(rows[1])) == Geometry.parse(GEOMETRY).place(43, 40)
    assert store.holds(["id0003", "id9999"]).tolist() == [True, False]
    with pytest.raises(InputError, match="2 of 3 images are not in the pixel store: x, y"):
        store.rows(["x", "id0001", "y"])
    store.verify()


def test_several_lists_in_any_order_with_overlap(tmp_path: Path) -> None:
    write_hospital(tmp_path, 23)
    rows = pd.read_parquet(tmp_path / "images.parquet").to_dict("records")
    one = write_list(tmp_path / "one.parquet", rows[5:])
    two = write_list(tmp_path / "two.parquet", rows[:12][::-1])
    first = build(tmp_path, one, two, output="first")
    second = build(tmp_path, two, one, output="second")
    assert len(first) == len(second) == 23
    assert contents(first.path) == contents(second.path)


def test_the_number_of_processes_changes_nothing(tmp_path: Path) -> None:
    one = build(write_hospital(tmp_path, 130), output="one", threads=1, images_per_shard=50)
    three = build(tmp_path, output="three", threads=3, images_per_shard=50)
    assert contents(one.path) == contents(three.path)


def test_failures_are_counted_with_reasons_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log names no image where ids may not be named."""
    monkeypatch.setenv(IDS, HIDDEN)
    write_hospital(tmp_path, 20)
    (tmp_path / "files" / "0004.png").write_bytes(b"")
    (tmp_path / "files" / "0007.png").unlink()
    Image.new("L", (1, 1)).save(tmp_path / "files" / "0011.png")
    Image.fromarray(np.eye(8, dtype=np.uint8)).save(tmp_path / "files" / "0012.png")
    store = build(tmp_path, max_failed_share=0.2)
    assert len(store) == 16
    content = store.content
    assert content["images"] == 16
    assert {f["image_id"]: f["reason"] for f in content["failures"]} == {
        "id0004": "empty file",
        "id0007": "file not found",
        "id0011": "blank image: all 1 x 1 pixels are equal",
        "id0012": "image of 8 x 8 pixels is below min_side 16",
    }
    reasons = {drop["reason"]: drop["count"] for drop in content["dropped"]}
    assert reasons == {failure["reason"]: 1 for failure in content["failures"]}
    assert "not stored: empty file" in caplog.text and "0004" not in caplog.text
    assert content["failures"][0]["path"] == "files/0004.png"
    # The rows after a gap are still the right ones.
    last = Source("id0019", "files/0019.png")
    expected, _ = store_image(tmp_path, last, store.geometry, PixelSettings())
    np.testing.assert_array_equal(store.read(store.rows(["id0019"]))[0], expected)


@pytest.mark.parametrize(("count", "threads"), [(20, 1), (120, 2)])
def test_a_decoder_that_crashes_costs_one_named_file(tmp_path, count, threads):
    """Few images, which are read in this process if none needs a compiled decoder, and many."""
    write_hospital(tmp_path, count)
    write_crashing_dicom(tmp_path / "files" / "0007.png")
    (tmp_path / "files" / "0009.png").unlink()
    os.mkfifo(tmp_path / "files" / "0009.png")
    store = build(tmp_path, threads=threads, max_failed_share=0.1)
    assert len(store) == count - 2
    assert {failure["path"]: failure["reason"] for failure in store.content["failures"]} == {
        "files/0007.png": "its decoder crashed (SIGABRT)",
        "files/0009.png": "not a regular file",
    }


def test_a_hospitals_pictures_are_stored_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(chest(40, 60, bits=8)).save(tmp_path / "a.jpg", exif=exif)
    for upright, size in ((False, (40, 60)), (True, (60, 40))):
        settings = PixelSettings(upright=upright)
        geometry = Geometry.parse("square16")
        _, row = store_image(tmp_path, Source("a", "a.jpg"), geometry, settings)
        assert (row.original_height, row.original_width) == size
        assert ("turned by EXIF" in row.decoder) == upright
    assert "upright" not in PixelSettings().record()  # older stores stay what they are


def test_too_many_failures_stop_the_build(tmp_path: Path) -> None:
    write_hospital(tmp_path, 20)
    for i in (3, 5, 8):
        (tmp_path / "files" / f"{i:04d}.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"3 of 20 images failed.*max_failed_share 0.1.*empty"):
        build(tmp_path, max_failed_share=0.1)
    assert not (tmp_path / "store" / "store.json").exists()
    with pytest.raises(InputError, match="not a complete pixel store"):
        PixelStore(tmp_path / "store")
    assert len(build(tmp_path, max_failed_share=0.15)) == 17


def test_a_mended_file_is_taken_up(tmp_path: Path) -> None:
    write_hospital(tmp_path, 20)
    good = (tmp_path / "files" / "0003.png").read_bytes()
    (tmp_path / "files" / "0003.png").write_bytes(b"")
    assert len(build(tmp_path, max_failed_share=0.1)) == 19
    (tmp_path / "files" / "0003.png").write_bytes(good)
    assert len(build(tmp_path, max_failed_share=0.1)) == 20


def children(process: int) -> list[int]:
    """The ids of the direct children of a process, whichever thread started them (Linux)."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]


def alive(process: int) -> bool:
    """Whether a process runs; a zombie that nobody has waited for does not count."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's /proc")
@pytest.mark.parametrize("threads", [1, 2])
def test_killed_and_continued(tmp_path: Path, threads: int) -> None:
    """SIGKILL after the second shard: the rest is built, what was there is not built again."""
    write_hospital(tmp_path, 600, size=200)
    whole = build(tmp_path, output="whole", images_per_shard=40)
    output = tmp_path / "store"
    command = [sys.executable, "-m", "cxrflow.images.store_pixels"]
    command += arguments(tmp_path, threads=threads, images_per_shard=40)
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (output / "shard-00001.json").exists():
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    workers = children(child.pid)
    assert len(workers) >= threads
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    # The decoding processes notice that they are orphans and end.
    while any(alive(worker) for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not (output / "store.json").exists()
    finished = {p: p.stat().st_mtime_ns for p in output.glob("shard-0000[01].npy")}
    assert len(finished) == 2
    store = build(tmp_path, threads=threads, images_per_shard=40)
    assert {p: p.stat().st_mtime_ns for p in finished} == finished
    assert contents(store.path) == contents(whole.path)
    assert not list(output.glob(".*partial"))


def test_half_written_and_damaged_shards_are_built_again(tmp_path: Path) -> None:
    store = build(write_hospital(tmp_path, 40))
    before = contents(store.path)
    shard = [store.path / f"shard-{i:05d}.npy" for i in range(4)]
    times = [path.stat().st_mtime_ns for path in shard]
    with open(shard[0], "r+b") as handle:  # cut off
        handle.truncate(3000)
    with open(shard[1], "r+b") as handle:  # one byte changed, same length
        handle.seek(2000)
        byte = handle.read(1)
        handle.seek(2000)
        handle.write(bytes([byte[0] ^ 1]))
    (store.path / "shard-00002.json").write_text('{"plan": "')  # record cut off
    with pytest.raises(InputError, match=r"shard-00000.npy: 3000 bytes long, expected"):
        PixelStore(store.path)
    assert contents(build(tmp_path).path) == before
    rebuilt = [path.stat().st_mtime_ns != old for path, old in zip(shard, times, strict=True)]
    assert rebuilt == [True, True, True, False]


def test_a_store_without_its_counts_is_not_complete(tmp_path: Path) -> None:
    Image.linear_gradient("L").save(tmp_path / "a.png")
    folder, sources = tmp_path / "store", [Source("a", "a.png")]
    made = tmp_path, sources, Geometry.parse("square16"), PixelSettings(), folder, 1

    def cut_off(fields: dict[str, Any]) -> dict[str, Any]:
        assert len(PixelStore(folder, fields=fields)) == 1  # all else is there
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_store(*made, cut_off)
    with pytest.raises(InputError, match="store.json is missing"):
        PixelStore(folder)
    build_store(*made, lambda fields: {"counts": fields["images"]})
    assert PixelStore(folder).content["counts"] == 1


def test_verify_finds_a_changed_byte(tmp_path: Path) -> None:
    store = build(write_hospital(tmp_path, 12))
    with open(store.path / "shard-00001.npy", "r+b") as handle:
        handle.seek(-1, os.SEEK_END)
        last = handle.read(1)
        handle.seek(-1, os.SEEK_END)
        handle.write(bytes([last[0] ^ 1]))
    unread = PixelStore(store.path, check=False)
    with pytest.raises(InputError, match=r"shard-00001.npy: damaged"):
        unread.verify()


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("damage", ["second half", "header", "index"])
def test_a_damaged_store_is_not_opened(tmp_path, monkeypatch, whole, damage):
    """A large one is sampled: of each shard its ends, and some images between them."""
    store = build(write_hospital(tmp_path, 25))
    monkeypatch.setattr("cxrflow.images.store.WHOLE", 1 << 28 if whole else 0)
    PixelStore(store.path)
    path = store.path / ("index.parquet" if damage == "index" else "shard-00001.npy")
    content = bytearray(path.read_bytes())
    if damage == "header":
        content[8:40] = b"?" * 32
    else:
        content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
        if damage == "index":  # as Parquet it is sound
            content[:] = store.index.assign(row=0).to_parquet(index=False)
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path.name}: damaged"):
        PixelStore(store.path)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("geometry", None, "field 'geometry' is None; expected text"),
        ("geometry", "longer24", "damaged, or index.parquet is"),  # of one size: boxes would move
        ("shards", "x", "field 'shards' is 'x'; expected list"),
        ("shards", [{}], "shards: field 'file' is missing"),
        ("shards", [7], "shards: field 'file' is missing"),
        ("file", "../../secret.npy", "store.json: damaged"),
        ("rows", True, "field 'rows' is True; expected whole number"),
        ("bytes", "9", "field 'bytes' is '9'; expected whole number"),
    ],
)
def test_a_damaged_account_of_a_store_is_one_line(tmp_path, field, value, said):
    store = build(write_hospital(tmp_path, 3))
    content = read_json(store.path / "store.json")
    assert content["geometry"].endswith("24")
    (content if field in content else content["shards"][0])[field] = value
    (store.path / CHECKSUMS).unlink()
    write_json(store.path / "store.json", content)
    with pytest.raises(InputError, match=said):
        PixelStore(store.path)


def test_one_zeroed_image_is_found_in_a_sample_sooner_or_later(tmp_path, monkeypatch):
    store = build(write_hospital(tmp_path, 10))
    with open(store.path / "shard-00000.npy", "r+b") as file:
        file.seek(128 + 4 * 24 * 24)
        file.write(bytes(24 * 24))
    monkeypatch.setattr("cxrflow.images.store.WHOLE", 0)
    with pytest.raises(InputError, match=r"shard-00000.npy: damaged"):
        for _ in range(200):  # one in five each time
            PixelStore(store.path)


def test_other_settings_or_geometry_make_other_shards(tmp_path, monkeypatch):
    store = build(write_hospital(tmp_path, 12))
    plain = store.read(np.arange(12))
    monkeypatch.setattr(sys.modules[__name__], "GEOMETRY", "square24")
    other = build(tmp_path)
    assert (other.read(np.arange(12)) != plain).mean() > 0.1
    assert other.fingerprint != store.fingerprint
    shorter = build(tmp_path, images_per_shard=12)
    names = [path.name for path in sorted(shorter.path.glob("shard-*"))]
    assert names == ["shard-00000.json", "shard-00000.npy"]


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, monkeypatch):
    write_hospital(tmp_path, 40)
    real = shards.atomic_path

    def full(path: Path):
        if Path(path).name == "shard-00002.npy":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path)

    monkeypatch.setattr(shards, "atomic_path", full)
    with pytest.raises(OSError, match="No space left on device"):
        build(tmp_path)
    kept = (tmp_path / "store" / "shard-00001.npy").stat().st_mtime_ns
    monkeypatch.undo()
    assert len(build(tmp_path)) == 40
    assert (tmp_path / "store" / "shard-00001.npy").stat().st_mtime_ns == kept


def test_a_real_write_limit_ends_in_one_line(tmp_path: Path) -> None:
    """A file size limit of the shell makes write() itself fail, as a quota does."""
    command = arguments(write_hospital(tmp_path, 100), images_per_shard=100)
    quoted = " ".join(f"'{part}'" for part in command)
    done = run_to_end(
        ["bash", "-c", f"ulimit -f 30; {sys.executable} -m cxrflow.images.store_pixels {quoted}"]
    )
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and "shard-00000.npy: File too large" in errors[0]
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "store").glob("*.npy"))
    assert not list((tmp_path / "store").glob(".*partial"))


def test_two_builds_of_one_store_exclude_each_other(tmp_path: Path) -> None:
    write_hospital(tmp_path, 3)
    refused = pytest.raises(PassingError, match="another process writes this pixel store")
    with held_folder(tmp_path / "store", "pixel store"), refused:
        build(tmp_path)
    assert len(build(tmp_path)) == 3


def test_wrong_lists(tmp_path: Path) -> None:
    rows = [{"image_id": "a", "image_path": "x.png"}]
    cases = {
        "column 'image_path' is missing": [{"image_id": "a", "path": "x.png"}],
        "image_id 'a' has more than one image_path": [*rows, {"image_id": "a", "image_path": "y"}],
        "has 1 gaps": [{"image_id": "a", "image_path": None}],
    }
    for message, content in cases.items():
        with pytest.raises(InputError, match=message):
            build(tmp_path, write_list(tmp_path / "list.parquet", content))
    empty = tmp_path / "empty.parquet"
    pd.DataFrame({"image_id": [], "image_path": []}).to_parquet(empty)
    with pytest.raises(InputError, match="no images"):
        build(tmp_path, empty)
    with pytest.raises(InputError, match="file not found"):
        build(tmp_path, tmp_path / "absent.parquet")
    with pytest.raises(InputError, match="data root is not a folder"):
        build(tmp_path / "absent", empty)


def test_a_store_can_be_sent_to_another_process(tmp_path: Path) -> None:
    import pickle

    store = build(write_hospital(tmp_path, 12))
    pixels = store.read(np.arange(12))
    copy = pickle.loads(pickle.dumps(store))
    np.testing.assert_array_equal(copy.read(np.arange(12)), pixels)
