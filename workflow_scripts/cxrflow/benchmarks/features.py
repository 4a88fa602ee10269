"""Image features of a cohort, computed once for each model; frozen-feature benchmarks read them.

Images are seen as in validation (BioViL Appendix E.2: at inference nothing is drawn), so that an
image has the same features wherever it is used: zero-shot scores, every seed and share of a linear
probe. Written into the output folder: ``features.safetensors`` with ``pooled`` [N, F],
the trunk's features averaged over the grid, and ``projected`` [N, P], the L2-normalised embedding
in the joint space (only where the model has a projection); ``patches`` [N, h, w, P] as projected,
where the model's similarity reads them; ``index.parquet`` with what was encoded
in each row, an image or, by a model that compares, an image with its prior; ``features.json`` with
what they were computed from.
"""

import logging
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from cxr_files.atomic import atomic_folder, file_digest, read_object, write_json
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxrflow.benchmarks.inputs import PRIOR, Pixels, image_batches, lost_priors
from cxrflow.benchmarks.model_pixels import model_pixels
from cxrflow.benchmarks.settings import FeatureSettings
from cxrflow.encoders.image_encoder import ImageEncoder, load_image_encoder
from cxrflow.encoders.weights import read_weights
from cxrflow.images.augment import StoredPixels
from cxrflow.similarity.folder import load_similarity
from cxrflow.similarity.similarity import EncodedImages, Similarity
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")

FIELDS = {"weights": str, "geometry": str, "pixels": str}


@dataclass(frozen=True)
class Features:
    """The features of N images, and what they were computed from."""

    encoded: pd.DataFrame  # image_id and, where a model compared them, prior_image_id
    by_kind: dict[str, Tensor]  # pooled [N, F]; projected [N, P]; patches [N, h, w, P]
    geometry: str
    pixels: str  # fingerprint of the pixel store

    def rows(self, samples: pd.DataFrame) -> NDArray[Any]:
        """The row of each sample's image, int64; -1 for one that was not in the store."""
        keys, sample_keys = (
            pd.MultiIndex.from_frame(table[self.encoded.columns].fillna(""))
            for table in (self.encoded, samples)
        )
        return keys.get_indexer(sample_keys).astype("int64")

    def of(self, samples: pd.DataFrame, kind: str) -> Tensor:
        """The features [N, F] of the samples' images; InputError when there are none of a kind."""
        if kind not in self.by_kind:
            raise InputError(
                f"features.safetensors: '{kind}' is missing; found {', '.join(self.by_kind)}"
            )
        return self.by_kind[kind][self.rows(samples)]

    def images(self, samples: pd.DataFrame, similarity: Similarity) -> EncodedImages:
        """The samples' images as a similarity compares them with texts."""
        patches = self.of(samples, "patches") if similarity.reads_patches else None
        return EncodedImages(self.of(samples, "projected"), patches)


def weights_file(model: Path) -> Path:
    """The weights of a model's image encoder."""
    return model / "image" / "model.safetensors"


def computed_from(model: Path, pixels: Pixels) -> dict[str, str]:
    """Return the digests of weights and pixels that features are of (:data:`FIELDS`)."""
    weights = file_digest(weights_file(model))[:16]
    return {"weights": weights, "geometry": str(pixels.geometry), "pixels": pixels.fingerprint}


def images_to_encode(samples: pd.DataFrame, takes_prior: bool) -> pd.DataFrame:
    """Each image of the samples once, or each with each of its priors."""
    columns = ["image_id", PRIOR] if takes_prior and PRIOR in samples else ["image_id"]
    return samples[columns].drop_duplicates(ignore_index=True)


def encode(
    image: ImageEncoder,
    pixels: Pixels,
    images: pd.DataFrame,
    batch_size: int,
    device: torch.device,
    view: Callable[[StoredPixels], Tensor] | None = None,
    patches: bool = False,
) -> dict[str, Tensor]:
    """``pooled`` [N, F] and, with a projection, ``projected`` [N, P]: float32 on the CPU.

    ``patches``: those too, [N, h, w, P].

    The projected ones are those of ``Model.encode_image`` up to rounding, from one pass through the
    trunk. ``view``: of augmented images, see :func:`image_batches`.
    """
    # Weights that are copied to a GPU in inference mode could not be trained afterwards.
    image = image.to(device).eval()
    outputs: dict[str, list[Tensor]] = {}
    with torch.inference_mode():
        for _, frames in image_batches(pixels, images, batch_size, image.takes_prior, view):
            frames = frames.each(lambda images: images.to(device))
            output = image.encoder(frames) if image.projector is None else image(frames)
            outputs.setdefault("pooled", []).append(output.pooled.float().cpu())
            if image.projector is not None:
                outputs.setdefault("projected", []).append(output.projected_global.cpu())
                if patches:
                    outputs.setdefault("patches", []).append(output.unnormalised_patches.cpu())
        return {kind: torch.cat(blocks) for kind, blocks in outputs.items()}


def write_features(
    folder: Path, encoded: pd.DataFrame, by_kind: dict[str, Tensor], record: dict[str, Any]
) -> None:
    """Write the feature folder in one piece; ``said`` is what ``features.json`` says."""
    with atomic_folder(folder, "image features") as unfinished:
        save_file(by_kind, unfinished / "features.safetensors")
        encoded.to_parquet(unfinished / "index.parquet", index=False)
        write_json(unfinished / "features.json", record)


def read_features(folder: Path, model: Path) -> Features:
    """Read a feature folder.

    Raises:
        InputError: a file is missing or damaged, its rows are not those of the index, or the
            features are of other weights than those of ``model``.
    """
    record = read_object(folder / "features.json", FIELDS)
    weights = file_digest(require(weights_file(model)))[:16]
    if record["weights"] != weights:
        raise InputError(
            f"{folder / 'features.json'}: field 'weights' is {record['weights']}, but "
            f"{weights_file(model)} has {weights}; expected the features of this model"
        )
    index = read_table(folder / "index.parquet", ("image_id",))
    path = folder / "features.safetensors"
    by_kind = read_weights(path)
    for kind, values in by_kind.items():
        if len(values) != len(index):
            raise InputError(
                f"{path}: '{kind}' has {len(values)} rows, but index.parquet has {len(index)}; "
                "expected as many"
            )
    return Features(index, by_kind, record["geometry"], record["pixels"])


def require(path: Path) -> Path:
    """The path of a file that must be there."""
    if not path.is_file():
        raise InputError(f"{path}: file not found")
    return path


def extract(options: Namespace, settings: FeatureSettings) -> None:
    device = choose_device(settings.device)
    table = read_table(options.cohort / "samples.parquet", ("image_id",))
    image = load_image_encoder(options.model, trunk_alone=True)
    pixels = model_pixels(options.pixels, options.model)
    images = images_to_encode(table, image.takes_prior)
    stored = images[pixels.holds(images["image_id"])]
    if stored.empty:
        raise InputError(
            f"{options.cohort / 'samples.parquet'}: no sample is left: image is not in the pixel "
            f"store {options.pixels}"
        )
    reads_patches = load_similarity(options.model).reads_patches
    by_kind = encode(image, pixels, stored, settings.batch_size, device, patches=reads_patches)
    record = {
        **computed_from(options.model, pixels),
        "cohort": file_digest(options.cohort / "samples.parquet")[:16],
        "images": len(stored),
        "not_stored": len(images) - len(stored),
        "priors_not_stored": lost_priors(pixels, stored),
        "widths": {kind: values.shape[-1] for kind, values in by_kind.items()},
    }
    write_features(options.output, stored, by_kind, record)
    log.info("%s: %d images, %s", options.output, len(stored), record["widths"])
