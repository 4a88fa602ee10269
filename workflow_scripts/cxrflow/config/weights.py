"""The places of published weights that stand for a paper's model (``weights:``)."""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from cxrflow.config.problems import Key
from cxrflow.encoders.released.settings import TEXT_WEIGHTS, ImportSettings, publication

TOKENIZERS = ("tokenizer.json", "vocab.txt")
BESIDE = ("tokenizer_config.json",)


class Weights(ImportSettings):
    """Weights of one model: a path, or ``text`` and ``image``, and how they are imported."""

    text: str | None = Field(None, description="folder of a text encoder")
    image: str | None = Field(None, description="file of an image encoder")
    path: str | None = Field(
        None, description="either of them, or BioViL's text folder with the image file in it"
    )
    optional: bool = Field(
        False,
        description="where they are not there, the run goes without them and says so; otherwise "
        "that is an error",
    )

    @model_validator(mode="before")
    @classmethod
    def _a_path_alone(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        halves = self.text is not None or self.image is not None
        if halves == (self.path is not None):
            raise ValueError("expected a path, or 'text' and 'image' as the kind of weights has")
        return self

    @property
    def is_absent(self) -> bool:
        """True if the run goes without them, since they are not there."""
        places = [place for place in (self.path, self.text, self.image) if place is not None]
        return self.optional and not all(Path(place).exists() for place in places)

    def settings(self, kind: str, geometry: str | None) -> ImportSettings:
        """The settings of the import program; ``geometry`` is that of the recipe's pixels."""
        plain = self.model_dump(exclude={"text", "image", "path", "optional"})
        published = publication(kind)
        if "image" in published.encoders:
            plain["geometry"] = self.geometry or published.geometry or geometry
        return ImportSettings.model_validate(plain)

    def places(self, kind: str) -> tuple[str, str | None]:
        """``--weights`` and, for kinds of two encoders, ``--image``.

        Raises:
            ValueError: the kind has other parts than those that are named.
        """
        halves = publication(kind).encoders
        if self.path is not None:
            return self.path, None
        given_halves = tuple(half for half in ("text", "image") if getattr(self, half) is not None)
        if given_halves != halves:
            raise ValueError(
                f"names {' and '.join(given_halves)}; weights of kind {kind} are "
                f"{' and '.join(halves)}"
            )
        return str(getattr(self, halves[0])), self.image if len(halves) == 2 else None


def weights_files(weights: Weights, model: str, kind: str) -> list[tuple[Key, Path, str]]:
    """The files and folders that must exist: key, path, and ``file`` or ``folder``."""
    first, image = weights.places(kind)
    key: Key = ("weights", model)
    text, picture = [key if weights.path else (*key, half) for half in ("text", "image")]
    files: list[tuple[Key, Path, str]] = []
    published = publication(kind)
    vocabulary = published.vocabulary
    if vocabulary is not None:
        files = [(text, Path(first), "folder"), (text, Path(first) / vocabulary, "file")]
    elif "text" in published.encoders:
        folder = Path(first)
        files = [(text, folder, "folder"), (text, folder / "config.json", "file")]
        for names in (TEXT_WEIGHTS, TOKENIZERS):  # if neither is there the second, for the error
            paths = [folder / name for name in names]
            there = next((path for path in paths if path.is_file()), paths[1])
            files.append((text, there, "file"))
        # Of a model in several files, which the index names.
        files += [(text, shard, "file") for shard in sorted(folder.glob("*-of-*"))]
        # Not all have it; where it is, it decides about capital letters.
        files += [(text, folder / name, "file") for name in BESIDE if (folder / name).is_file()]
    if "image" in published.encoders:
        place = Path(image or first)
        if place.is_dir():
            pattern = published.file
            place = next(iter(sorted(place.glob(pattern))), place / pattern)
        files.append((picture, place, "file"))
    return files
