"""DICOM files to stored 8-bit squares against pydicom with Pillow, and with OpenCV.

OpenCV runs where it is installed: ``pip install --no-deps opencv-python-headless``.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pydicom
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.shards import Source, store_image
from speed.race import Race

FILES, HEIGHT, WIDTH, SIDE = 8, 3056, 2544, 512


def write_radiograph(path: Path, number: int) -> None:
    """Invented grey values of 12 bits in 16, smooth with noise, uncompressed: MIMIC-CXR's kind."""
    rng = np.random.default_rng(number)
    y, x = np.ogrid[:HEIGHT, :WIDTH]
    wave = 0.5 + 0.3 * np.sin((y + 40 * number) / 300) * np.cos(x / 250)
    noisy = wave + rng.normal(0, 0.03, (HEIGHT, WIDTH)).astype(np.float32)
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.1.1"
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[str(number)])
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    made = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    made.SOPClassUID = meta.MediaStorageSOPClassUID
    made.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    made.Rows, made.Columns, made.SamplesPerPixel = HEIGHT, WIDTH, 1
    made.PhotometricInterpretation, made.PixelRepresentation = "MONOCHROME2", 0
    made.BitsAllocated, made.BitsStored, made.HighBit = 16, 12, 11
    made.PixelData = (noisy.clip(0, 1) * 4095).astype(np.uint16).tobytes()
    made["PixelData"].VR = "OW"
    made.save_as(path, enforce_file_format=True)


def with_pillow(path: Path) -> np.ndarray:
    """One file as the authors' public reader and torchvision's transforms treat it."""
    values = pydicom.dcmread(path).pixel_array.astype(np.float64)
    values -= values.min()
    values /= values.max()
    values *= 255
    image = Image.fromarray(values.astype(np.uint8)).convert("L")
    return central(np.asarray(image.resize(resized(image.size), Image.Resampling.BILINEAR)))


def with_opencv(path: Path) -> np.ndarray:
    """One file by OpenCV's fastest way down, the mean of the area that a pixel covers."""
    import cv2

    values = pydicom.dcmread(path).pixel_array
    small = cv2.resize(values, resized(values.shape[::-1]), interpolation=cv2.INTER_AREA)
    least, most = int(values.min()), int(values.max())
    return central(
        cv2.convertScaleAbs(small, None, 255 / (most - least), -255 * least / (most - least))
    )


def resized(size: tuple[int, ...]) -> tuple[int, int]:
    """Width and height with ``SIDE`` pixels on the shorter side."""
    width, height = (SIDE * length // min(size) for length in size)
    return width, height


def central(image: np.ndarray) -> np.ndarray:
    """The central square [SIDE, SIDE]."""
    top, left = (round((length - SIDE) / 2) for length in image.shape)
    return image[top : top + SIDE, left : left + SIDE]


def races() -> list[Race]:
    folder = TemporaryDirectory(prefix="cxrflow-race-")
    root = Path(folder.name)
    sources = [Source(str(number), f"{number}.dcm") for number in range(FILES)]
    for number, source in enumerate(sources):
        write_radiograph(root / source.path, number)
    geometry, settings = Geometry.parse(f"shorter{SIDE}"), PixelSettings()

    def ours() -> np.ndarray:
        # Bound to `folder`, which would be removed with its last reference.
        root = Path(folder.name)
        return np.stack([store_image(root, one, geometry, settings)[0] for one in sources])

    def whole(read: Callable[[Path], np.ndarray]) -> np.ndarray:
        return np.stack([read(Path(folder.name) / source.path) for source in sources])

    def within_one_level(found: np.ndarray, wanted: np.ndarray) -> None:
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        furthest = int(np.abs(found.astype(np.int16) - wanted).max())
        assert furthest <= 1, f"{furthest} grey levels apart"

    def alike(found: np.ndarray, wanted: np.ndarray) -> None:
        apart = float(np.abs(found.astype(np.int16) - wanted).mean())
        assert apart < 2, f"{apart:.1f} grey levels apart on average"

    what = (
        f"{FILES} uncompressed DICOM files of {HEIGHT} x {WIDTH} pixels, 12 bits in 16, to {SIDE} "
        f"x {SIDE} pixels of 8 bits, from the page cache"
    )
    threads = "both sides work in one thread; a store is built by --threads processes"
    raced = [
        Race(
            name="dicom",
            what=what,
            ours=ours,
            peers={"pydicom, NumPy and Pillow": lambda: whole(with_pillow)},
            check=within_one_level,
            gates={"pydicom, NumPy and Pillow": 4.0},
            amount=FILES,
            unit="image",
            notes=[
                "compared: every pixel, to one grey level; the peer cuts to 8 bits before it "
                "resamples, the store rounds once after",
                "the peer is the algorithm of the authors' public reader: float64 min-max, then "
                "Pillow's antialiased bilinear on 8 bits and the central crop",
                threads,
            ],
        )
    ]
    if importlib.util.find_spec("cv2") is None:
        print("dicom: OpenCV is not installed, no race against it")
        return raced
    import cv2

    cv2.setNumThreads(1)
    return [
        *raced,
        Race(
            name="dicom_opencv",
            what=what,
            ours=ours,
            peers={"pydicom and OpenCV": lambda: whole(with_opencv)},
            check=alike,
            gates={"pydicom and OpenCV": 1.0},
            amount=FILES,
            unit="image",
            notes=["the peer's filter is another, of areas; compared on average alone", threads],
        ),
    ]
