"""Which published weights lie at a path, and the encoders that they are.

A CXR-BERT folder may hold BioViL's image weights beside its own, as the authors publish them
(BioViL section 2.2: image and text encoder were trained together).
"""

from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from cxr_files.atomic import read_object
from cxr_files.errors import InputError
from cxrflow.encoders.cxr_bert import CXRBert, read_config
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.encoders.released.checkpoints import INDEX, shards_of
from cxrflow.encoders.released.clip import read_clip
from cxrflow.encoders.released.deit import read_deit, read_exported
from cxrflow.encoders.released.image import read_released_image
from cxrflow.encoders.released.outside import read_outside
from cxrflow.encoders.released.settings import (
    PUBLISHED,
    TEXT_WEIGHTS,
    ImportSettings,
    publication,
)
from cxrflow.encoders.released.text import (
    PROJECTION,
    ReleasedTextConfig,
    read_released_text,
    text_weights_file,
)
from cxrflow.encoders.settings import (
    BiovilHeadSettings,
    ConvolutionalSettings,
    ImageEncoderSettings,
    ProjectionHeadSettings,
)
from cxrflow.kinds import is_outside


class PublishedModel(NamedTuple):
    """A model made of published weights."""

    text: CXRBert | None
    image: ImageEncoder | None
    run: dict[str, Any]  # kind, names that were initialised, data.geometry of an image encoder


class Files(NamedTuple):
    """Where the weights of a kind lie."""

    text: Path | None  # a folder
    image: Path | None  # a file
    vocabulary: Path | None = None  # byte pairs, where the image file holds the text encoder too


def find_files(kind: str, weights: Path, image: Path | None = None) -> Files:
    """The text folder and image file of ``kind`` at ``weights``.

    ``image`` names the image file where it is not in the text folder.

    Raises:
        InputError: one is not there, or ``image`` is given to a kind that has one file or folder.
    """
    encoders, vocabulary = publication(kind).encoders, publication(kind).vocabulary
    if image is not None and len(encoders) == 1:
        raise InputError(f"{image}: weights of kind {kind} are one file or folder, {weights}")
    if "text" in encoders and not weights.is_dir():
        content = vocabulary or "config.json"
        raise InputError(f"{weights}: folder not found; kind {kind} needs one with {content}")
    if vocabulary is not None and not (weights / vocabulary).is_file():
        raise InputError(f"{weights / vocabulary}: file not found; expected its byte pairs")
    picture = _image_file(kind, image or weights) if "image" in encoders else None
    if vocabulary is not None:  # both encoders are in one file
        return Files(None, picture, weights / vocabulary)
    return Files(weights if "text" in encoders else None, picture)


def _image_file(kind: str, path: Path) -> Path:
    """The image weights at ``path``, a file or its folder."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise InputError(f"{path}: file not found")
    pattern = publication(kind).file
    files = sorted(path.glob(pattern))
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise InputError(f"{path}: expected one file {pattern}, found {names}")
    return files[0]


def read_published(kind: str, files: Files, settings: ImportSettings, seed: int) -> PublishedModel:
    """Load the weights of ``kind``; what they lack is drawn from ``seed`` and listed.

    Raises:
        InputError: they are not what the kind says, or an image encoder is left without a geometry.
    """
    text, image, new, published = None, None, [], publication(kind)
    run: dict[str, Any] = {"kind": kind}
    exported = _export_record(files)
    if exported.get("data"):
        run["data"] = exported["data"]
    if files.text is not None:
        joint = "image" in published.encoders
        text, names = read_released_text(
            files.text, joint or kind == "cxr_bert", joint, settings, seed
        )
        new += names
    if files.image is not None:
        names = []
        if kind == "deit":
            image, names = read_deit(files.image, settings.projection, seed)
        elif kind == "vit":
            image = read_exported(files.image)
        elif kind == "clip":
            text, image = read_clip(files.image)
        elif is_outside(kind):
            text, image, names = read_outside(kind, files.image, settings.projection, seed)
        else:
            imagenet = kind == "imagenet_resnet"
            image, names = read_released_image(files.image, imagenet, settings.projection, seed)
        if image.settings.kind != published.trunk:
            raise InputError(
                f"{files.image}: its trunk is of kind {image.settings.kind}; expected "
                f"{published.trunk} in weights of kind {kind}"
            )
        new += names
        geometry = settings.geometry or exported.get("geometry") or published.geometry
        if geometry is None:
            raise InputError(
                f"settings: key 'geometry' is missing; weights of kind {kind} do not come with one"
            )
        run["data"] = {**(exported.get("data") or {}), "geometry": geometry}
    if text and image and text.config.projection_size != image.settings.projection:
        raise InputError(
            f"{files.image}: projects to {image.settings.projection}, but {files.text} to "
            f"{text.config.projection_size}; expected one joint space"
        )
    return PublishedModel(text, image, run | {"initialised": new})


def _export_record(files: Files) -> dict[str, Any]:
    """What our export wrote beside the files: geometry of the pixels, data trained on."""
    place = files.text if files.image is None else files.image.parent
    record = None if place is None else place / "export.json"
    if record is None or not record.is_file():
        return {}
    values = read_object(record)
    for field, kind in (("geometry", str), ("data", dict)):
        value = values.get(field)
        if not isinstance(value, kind | None):
            raise InputError(
                f"{record}: field '{field}' is a {type(value).__name__}; expected a {kind.__name__}"
            )
    return values


def require_released_head(head: ProjectionHeadSettings, folder: Path) -> None:
    """The released layout of a ResNet has names for BioViL's projections alone."""
    if not isinstance(head, BiovilHeadSettings):
        raise InputError(
            f"{folder}: has a projection of kind {head.kind}; beside a ResNet only biovil's is "
            "exported"
        )


def released_trunk(settings: ImageEncoderSettings, folder: Path) -> ConvolutionalSettings:
    """The sizes of an image encoder whose trunk has released names: a ResNet's."""
    if not isinstance(settings, ConvolutionalSettings):
        raise InputError(
            f"{folder}: has a trunk of kind {settings.kind}; expected a ResNet or a vit to export"
        )
    require_released_head(settings.projection_head, folder)
    return settings


def is_released(path: Path) -> bool:
    """True if ``path`` holds published weights, False if it is a model folder of ours."""
    if path.is_file():
        return True
    if (path / "run.json").is_file() or (path / "image" / "config.json").is_file():
        return False
    if _beside(path):
        return True
    if not (path / "config.json").is_file():
        return False
    ours, *other_files = TEXT_WEIGHTS
    if not (path / ours).is_file() and any((path / name).is_file() for name in other_files):
        return True
    config = read_config(path, ReleasedTextConfig)
    return config.model_type == "cxr-bert" or config.projection_size is None


def _beside(folder: Path) -> str | None:
    """The kind of the two encoders of which that of images lies in ``folder``."""
    kinds = ("biovil", "biovil_t", "vit")
    return next((kind for kind in kinds if any(folder.glob(PUBLISHED[kind].file))), None)


def kind_of(path: Path, image: Path | None) -> str:
    """Return the kind of published weights; a single file is BioViL's image encoder."""
    if path.is_file() or not (path / "config.json").is_file():
        return "biovil_image"
    if image is not None and image.is_file():
        compares = fnmatch(image.name, PUBLISHED["biovil_t"].file)
        return "biovil_t" if compares else "biovil"
    if both_halves := _beside(image or path):
        return both_halves
    return "cxr_bert" if read_config(path, ReleasedTextConfig).projects else "bert"


def projection_is_new(run: dict[str, Any]) -> bool:
    """True if the text projection of a model that was not trained further is random."""
    return any(name.startswith(PROJECTION) for name in run.get("initialised", ()))


def source_files(files: Files) -> list[Path]:
    """The files whose contents decide what an imported model is."""
    sources = [path for path in (files.image, files.vocabulary) if path is not None]
    if files.image is not None and files.image.with_suffix(".json").is_file():
        sources.append(files.image.with_suffix(".json"))
    if files.text is not None:
        weights = text_weights_file(files.text)
        sources += [files.text / "config.json", weights]
        sources += shards_of(weights) if weights.name.endswith(INDEX) else []
        names = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")
        sources += [files.text / name for name in names if (files.text / name).is_file()]
    return sources
