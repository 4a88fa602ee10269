"""Published weights that stand for a model of a paper: where they are (``weights:``)."""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from cxrflow.config.problems import Key
from cxrflow.encoders.released.settings import (
    GEOMETRIES,
    IMAGE_FILES,
    PARTS,
    TEXT_WEIGHTS,
    ImportSettings,
    Kind,
)

TOKENIZERS = ("tokenizer.json", "vocab.txt")
BESIDE = ("tokenizer_config.json",)


class Weights(ImportSettings):
    """Weights of one model: a path, or ``text`` and ``image``, and how they are imported."""

    text: str | None = Field(None, description="folder of a text encoder")
    image: str | None = Field(None, description="file of an image encoder")
    path: str | None = Field(
        None, description="either of them, or BioViL's text folder with the image file in it"
    )

    @model_validator(mode="before")
    @classmethod
    def _a_path_alone(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        named = self.text is not None or self.image is not None
        if named == (self.path is not None):
            raise ValueError("expected a path, or 'text' and 'image' as the kind of weights has")
        return self

    def settings(self, kind: Kind, geometry: str | None) -> ImportSettings:
        """What the import program receives; ``geometry`` is that of the recipe's pixels."""
        plain = self.model_dump(exclude={"text", "image", "path"})
        if "image" in PARTS[kind]:
            plain["geometry"] = self.geometry or GEOMETRIES.get(kind, geometry)
        return ImportSettings.model_validate(plain)

    def places(self, kind: Kind) -> tuple[str, str | None]:
        """``--weights`` and, for kinds of two halves, ``--image``.

        Raises:
            ValueError: the kind has other parts than those that are named.
        """
        wanted = PARTS[kind]
        if self.path is not None:
            return self.path, None
        named = tuple(part for part in ("text", "image") if getattr(self, part) is not None)
        if named != wanted:
            raise ValueError(
                f"names {' and '.join(named)}; weights of kind {kind} are {' and '.join(wanted)}"
            )
        return str(getattr(self, wanted[0])), self.image if len(wanted) == 2 else None


def weights_files(weights: Weights, model: str, kind: Kind) -> list[tuple[Key, Path, str]]:
    """What must be there: its key, its path, whether it is a file or a folder."""
    first, image = weights.places(kind)
    whole: Key = ("weights", model)
    text, picture = [whole if weights.path else (*whole, part) for part in ("text", "image")]
    files: list[tuple[Key, Path, str]] = []
    if "text" in PARTS[kind]:
        folder = Path(first)
        files = [(text, folder, "folder"), (text, folder / "config.json", "file")]
        files += [
            (text, _first_there(folder, names), "file") for names in (TEXT_WEIGHTS, TOKENIZERS)
        ]
        # Not all have it; where it is, it decides about capital letters.
        files += [(text, folder / name, "file") for name in BESIDE if (folder / name).is_file()]
    if "image" in PARTS[kind]:
        place = Path(image or first)
        if place.is_dir():
            pattern = IMAGE_FILES[kind]
            place = next(iter(sorted(place.glob(pattern))), place / pattern)
        files.append((picture, place, "file"))
    return files


def _first_there(folder: Path, names: tuple[str, ...]) -> Path:
    """The first of these files that exists, or the last, to be missed by name."""
    paths = [folder / name for name in names]
    return next((path for path in paths if path.is_file()), paths[-1])
