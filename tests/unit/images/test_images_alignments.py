"""The table of alignments: in parallel, resumed, with what failed counted, and its reader."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import store_of
from PIL import Image

from command_options import options
from cxr_files.atomic import file_digest, read_json
from cxr_files.errors import InputError, PassingError
from cxr_files.outputs import held_folder
from cxrflow.images.alignments import Alignments, RegisteredPriors, build_alignments, read_pairs
from cxrflow.images.register_pairs import main
from cxrflow.images.registration import Alignment, register, warp
from cxrflow.images.settings import RegistrationSettings
from cxrflow.images.store import PixelStore

SIZE = 40
SETTINGS = RegistrationSettings(pairs_per_shard=2, starts=2, iterations=15)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> PixelStore:
    """Five images of blots; the sixth has pixels of one grey value at this size."""
    folder = tmp_path_factory.mktemp("registration")
    rows, columns = np.indices((SIZE, SIZE)) - SIZE / 2
    rng = np.random.default_rng(0)
    spots = rng.uniform(-12, 12, (6, 2))
    for number in range(5):
        shown = sum(
            (i + 2) * np.exp(-((rows - y - number) ** 2 + (columns - x + number) ** 2) / 20)
            for i, (x, y) in enumerate(spots)
        )
        image = np.rint(shown / shown.max() * 255).astype(np.uint8)
        Image.fromarray(image).save(folder / f"i{number}.png")
    blank = np.zeros((SIZE, 8 * SIZE), dtype=np.uint8)
    blank[0, 0] = 1  # what the central square does not show
    Image.fromarray(blank).save(folder / "i5.png")
    return PixelStore(store_of(folder, [f"i{n}" for n in range(6)], f"shorter{SIZE}", root="."))


PAIRS = [("i0", "i1"), ("i1", "i2"), ("i2", "i5"), ("i3", "gone"), ("i4", "i3")]


@pytest.fixture(scope="module")
def built(store: PixelStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    build_alignments(PAIRS, store, SETTINGS, folder, 1)
    return folder


def test_each_row_is_the_registration_of_its_pair(store: PixelStore, built: Path) -> None:
    table = Alignments(built)
    for now, before in (PAIRS[0], PAIRS[4]):
        current, prior = store.read(store.rows([now, before]))
        assert table.find(now, before) == register(current, prior, SETTINGS)
    names = sorted(path.name for path in built.iterdir() if path.name[0] != ".")
    assert names == ["SHA256SUMS", "alignments.parquet", "registration.json"]


def test_what_failed_is_counted_and_its_prior_stays(store: PixelStore, built: Path) -> None:
    content = read_json(built / "registration.json")
    assert content["kept"] == 3
    assert {drop["reason"]: drop["count"] for drop in content["dropped"]} == {
        "the prior image is constant or too narrow": 1,
        "pixels of the prior image are missing": 1,
    }
    table = Alignments(built)
    assert table.find("i2", "i5") is None
    priors = store.read(store.rows(["i5", "i1"]))
    moved = table.warp(priors, ["i2", "i0"], ["i5", "i1"])
    np.testing.assert_array_equal(moved[0], priors[0])
    found = table.find("i0", "i1")
    assert found is not None and found.distance(Alignment(), SIZE) > 0.5
    np.testing.assert_array_equal(moved[1], warp(priors[1], found))
    with pytest.raises(InputError, match="the pair of i0 and its prior i4 is not listed"):
        table.warp(priors[:1], ["i0"], ["i4"])


def test_a_store_whose_priors_are_moved(store: PixelStore, built: Path) -> None:
    table = Alignments(built)
    registered = RegisteredPriors(store, table)
    assert registered.fingerprint != store.fingerprint
    currents, priors = ["i4", "i0", "i4"], ["i3", "i1", "i3"]
    rows = registered.prior_rows(currents, priors)
    assert rows[0] == rows[2] != rows[1] and rows.min() >= len(store)
    plain = store.rows(["i3", "i1"])
    read = registered.read(np.concatenate([rows[:2], plain]))
    np.testing.assert_array_equal(read[2:], store.read(plain))
    np.testing.assert_array_equal(read[:2], table.warp(read[2:], currents[:2], priors[:2]))
    assert (read[:2] != read[2:]).any()
    with pytest.raises(InputError, match="the pair of i0 and its prior i4 is not listed"):
        registered.prior_rows(["i0"], ["i4"])


def test_it_serves_a_store_of_another_size(built: Path) -> None:
    """What is twice as large moves twice as far."""
    table = Alignments(built)
    large = np.zeros((2 * SIZE, 2 * SIZE), dtype=np.uint8)
    large[SIZE - 4 : SIZE + 4, SIZE - 4 : SIZE + 4] = 255
    small = large.reshape(SIZE, 2, SIZE, 2)[:, 0, :, 0]
    moved = [table.warp(image[None], ["i0"], ["i1"])[0] for image in (small, large)]
    centres = [np.array(np.nonzero(image > 127)).mean(1) + 0.5 - len(image) / 2 for image in moved]
    np.testing.assert_allclose(centres[1], 2 * centres[0], atol=1.0)


def test_processes_and_interruptions_change_nothing(store, built, tmp_path, monkeypatch, caplog):
    done = []

    def ends_after_three(*arguments: object, **options: object) -> Alignment:
        done.append(1)
        if len(done) == 4:
            raise KeyboardInterrupt
        return register(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("cxrflow.images.registration.register", ends_after_three)
    with pytest.raises(KeyboardInterrupt):
        build_alignments(PAIRS, store, SETTINGS, tmp_path, 1)
    first, second = sorted(tmp_path.glob("part-*"))
    second.write_bytes(second.read_bytes()[:-20] + bytes(20))
    (tmp_path / ".registration.json.host.17.partial").touch()
    assert not (tmp_path / "registration.json").exists()
    with pytest.raises(InputError, match=r"registration\.json: file not found"):
        Alignments(tmp_path)
    build_alignments(PAIRS, store, SETTINGS, tmp_path, 1)
    assert len(done) == 6  # of the damaged part, and the last pair
    assert f"{second} is damaged; its pairs are registered again" in caplog.text
    assert str(first) not in caplog.text
    for name in ("alignments.parquet", "registration.json"):
        assert file_digest(tmp_path / name) == file_digest(built / name)
    assert not list(tmp_path.glob("*.partial"))


def test_two_registrations_in_one_folder_exclude_each_other(store: PixelStore, tmp_path: Path):
    refused = pytest.raises(PassingError, match="another process writes this registration")
    with held_folder(tmp_path / "registration", "registration"), refused:
        build_alignments(PAIRS, store, SETTINGS, tmp_path / "registration", 1)


def test_a_changed_table_is_refused(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built, tmp_path / "changed")
    path = tmp_path / "changed/alignments.parquet"
    pd.read_parquet(path).assign(scale=1.5).to_parquet(path)
    with pytest.raises(InputError, match=r"alignments\.parquet: damaged, its SHA-256"):
        Alignments(path.parent)


def test_other_settings_keep_no_part(store: PixelStore, tmp_path: Path) -> None:
    build_alignments(PAIRS[:1], store, SETTINGS, tmp_path, 1)
    first = Alignments(tmp_path).find(*PAIRS[0])
    (tmp_path / "part-00000-of-other-settings.parquet").write_bytes(b"")
    other = SETTINGS.model_copy(update={"seed": 5})
    build_alignments(PAIRS[:1], store, other, tmp_path, 1)
    assert Alignments(tmp_path).find(*PAIRS[0]) != first
    assert not list(tmp_path.glob("part-*"))


def test_the_program_in_two_processes(store: PixelStore, built: Path, tmp_path: Path) -> None:
    rows = [("i9", None), *PAIRS[::-1], PAIRS[0]]
    table = pd.DataFrame(rows, columns=["image_id", "prior_image_id"])
    table.to_parquet(tmp_path / "pairs.parquet")
    asked = {"pairs": tmp_path / "pairs.parquet", "pixels": store.path}
    asked |= {"settings": SETTINGS.model_dump(), "output": tmp_path / "out"}
    main(options(**asked, threads=2))
    digests = [file_digest(folder / "alignments.parquet") for folder in (tmp_path / "out", built)]
    assert digests[0] == digests[1]
    with pytest.raises(SystemExit):
        main(options(**asked, threads=0))


def test_a_cohort_without_priors(tmp_path: Path) -> None:
    table = pd.DataFrame({"image_id": ["a"], "prior_image_id": [None]})
    table.to_parquet(tmp_path / "pairs.parquet")
    with pytest.raises(InputError, match="no row has a prior_image_id"):
        read_pairs([tmp_path / "pairs.parquet"])
    table[["image_id"]].to_parquet(tmp_path / "pairs.parquet")
    with pytest.raises(InputError, match="column 'prior_image_id' is missing"):
        read_pairs([tmp_path / "pairs.parquet"])
