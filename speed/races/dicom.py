"""DICOM files to stored 8-bit squares against pydicom, float64 min-max and Pillow."""

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


def plain(path: Path) -> np.ndarray:
    """One file as the authors' public reader and torchvision's transforms treat it."""
    values = pydicom.dcmread(path).pixel_array.astype(np.float64)
    values -= values.min()
    values /= values.max()
    values *= 255
    image = Image.fromarray(values.astype(np.uint8)).convert("L")
    shorter = min(image.size)
    width, height = (SIDE * length // shorter for length in image.size)
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - SIDE) / 2), round((height - SIDE) / 2)
    return np.asarray(image.crop((left, top, left + SIDE, top + SIDE)))


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

    def peer() -> np.ndarray:
        return np.stack([plain(root / source.path) for source in sources])

    def within_one_level(found: np.ndarray, wanted: np.ndarray) -> None:
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        furthest = int(np.abs(found.astype(np.int16) - wanted).max())
        assert furthest <= 1, f"{furthest} grey levels apart"

    return [
        Race(
            name="dicom",
            what=f"{FILES} uncompressed DICOM files of {HEIGHT} x {WIDTH} pixels, 12 bits in 16, "
            f"to {SIDE} x {SIDE} pixels of 8 bits, from the page cache",
            ours=ours,
            peers={"pydicom, NumPy and Pillow": peer},
            check=within_one_level,
            gates={"pydicom, NumPy and Pillow": 4.0},
            amount=FILES,
            unit="image",
            notes=[
                "compared: every pixel, to one grey level; the peer cuts to 8 bits before it "
                "resamples, the store rounds once after",
                "the peer is the algorithm of the authors' public reader: float64 min-max, then "
                "Pillow's antialiased bilinear on 8 bits and the central crop",
                "both sides work in one thread; a store is built by --threads processes",
            ],
        )
    ]
