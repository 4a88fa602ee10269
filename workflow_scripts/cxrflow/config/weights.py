"""Published weights that stand for a model of a paper: where they are (``weights:``)."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from cxrflow.encoders.released.settings import (
    GEOMETRIES,
    IMAGE_FILES,
    PROGRAMS,
    TEXT_WEIGHTS,
    ImportSettings,
    Kind,
)

if TYPE_CHECKING:
    from cxrflow.config.schema import Config

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
        if PROGRAMS[kind] != "text":
            plain["geometry"] = self.geometry or GEOMETRIES.get(kind, geometry)
        return ImportSettings.model_validate(plain)

    def places(self, kind: Kind) -> tuple[str, str | None]:
        """``--weights`` and, for BioViL's two, ``--image``.

        Raises:
            ValueError: the kind has other parts than those that are named.
        """
        parts = {"text": ("text",), "image": ("image",), "joint": ("text", "image")}
        wanted = parts[PROGRAMS[kind]]
        if self.path is not None:
            return self.path, None
        named = tuple(part for part in ("text", "image") if getattr(self, part) is not None)
        if named != wanted:
            raise ValueError(
                f"names {' and '.join(named)}; weights of kind {kind} are {' and '.join(wanted)}"
            )
        return str(getattr(self, wanted[0])), self.image if len(wanted) == 2 else None


def weights_kind(config: "Config", model: str) -> Kind:
    """What an imported model's weights are."""
    kind = config.recipes[model].weights
    assert kind is not None  # checked when the configuration was read
    return kind


def import_settings(config: "Config", model: str, geometry: str | None) -> ImportSettings:
    """What the import program receives for a model whose recipe sees pixels of ``geometry``."""
    return config.weights[model].settings(weights_kind(config, model), geometry)


def vocabulary_model(config: "Config", model: str) -> str | None:
    """The imported model whose vocabulary a text model has, if it goes back to one."""
    if config.imported(model):
        return model
    start = config.recipes[model].start
    return None if start is None else vocabulary_model(config, start)


def weights_files(config: "Config", model: str) -> list[tuple[tuple[str, ...], Path, str]]:
    """What must be there: its key, its path, whether it is a file or a folder."""
    kind, given = weights_kind(config, model), config.weights[model]
    first, image = given.places(kind)
    key = ("weights", model) if given.path is not None else ("weights", model, "text")
    found: list[tuple[tuple[str, ...], Path, str]] = []
    if PROGRAMS[kind] != "image":
        folder = Path(first)
        found = [(key, folder, "folder"), (key, folder / "config.json", "file")]
        found += [
            (key, _first_there(folder, names), "file") for names in (TEXT_WEIGHTS, TOKENIZERS)
        ]
        # Not all have it; where it is, it decides about capital letters.
        found += [(key, folder / name, "file") for name in BESIDE if (folder / name).is_file()]
        if PROGRAMS[kind] == "text":
            return found
    image_key = ("weights", model) if given.path is not None else ("weights", model, "image")
    place = Path(image or first)
    if place.is_dir():
        place = next(iter(sorted(place.glob(IMAGE_FILES))), place / IMAGE_FILES)
    return [*found, (image_key, place, "file")]


def _first_there(folder: Path, names: tuple[str, ...]) -> Path:
    """The first of these files that exists, or the last, to be missed by name."""
    paths = [folder / name for name in names]
    return next((path for path in paths if path.is_file()), paths[-1])


def check_weights(config: "Config") -> None:
    """Weights stand for models that can be imported.

    Raises:
        ValueError: its text begins with the key and a colon.
    """
    for name, given in config.weights.items():
        if name not in config.recipes:
            known = ", ".join(sorted(config.recipes))
            raise ValueError(f"weights: '{name}' is not known; there are {known}")
        kind = config.recipes[name].weights
        if kind is None:
            able = [n for n, recipe in config.recipes.items() if recipe.weights is not None]
            raise ValueError(
                f"weights: no published weights are known for '{name}' (its recipe has no "
                f"'weights'); there are some for {', '.join(able) or 'no model'}"
            )
        try:
            given.places(kind)
        except ValueError as error:
            raise ValueError(f"weights.{name}: {error}") from None
    for name, recipe in config.recipes.items():
        imported = vocabulary_model(config, name) if recipe.corpora else None
        if imported not in (None, name):
            raise ValueError(
                f"weights: '{name}' is trained on packed corpora from the imported '{imported}', "
                "whose vocabulary the corpora are not cut with"
            )
