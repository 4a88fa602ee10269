"""Image encoders outside of the package, with the weights that their authors publish.

The class of such an encoder says how tensors of a file become its sizes and its state. All else is
as for the weights that the package knows.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from cxr_files.errors import InputError
from cxr_files.settings import explain
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.image_encoder import ImageEncoder, ImageTrunk
from cxrflow.encoders.released.checkpoints import read_checkpoint
from cxrflow.encoders.released.settings import OUTSIDE
from cxrflow.encoders.settings import ImageEncoderKind
from cxrflow.encoders.weights import load_weights, require_fit
from cxrflow.kinds import outside_class

TRUNK, PROJECTOR = "encoder.", "projector."


class Tensors(Mapping[str, Tensor]):
    """The tensors of a file by name. Each must be read, or dropped by its name."""

    def __init__(self, weights: Mapping[str, Tensor], path: Path) -> None:
        self.path, self._weights, self._waiting = path, weights, set(weights)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._weights:
            require_fit([f"{name} is missing"], self.path)
        self._waiting.discard(name)
        return self._weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def drop(self, *names: str) -> None:
        """Leave tensors out that nothing takes; they must be there."""
        for name in names:
            self[name]

    def require_read(self) -> None:
        """Raise InputError naming tensors that were neither read nor dropped."""
        require_fit(
            [f"{name} belongs to no parameter" for name in sorted(self._waiting)], self.path
        )


class PublishedTrunk(ImageTrunk):
    """A trunk that can start from published weights.

    ``file``: pattern of their file in a folder. ``key``: of the entry of that file that holds the
    tensors, where it holds more. ``geometry``: of the pixels that they were trained on; None: the
    recipe says it. ``vocabulary``: the file of byte pairs beside it, where it holds a text encoder
    as well, which :meth:`text_of` makes.
    """

    file: ClassVar[str]
    key: ClassVar[str | None] = None
    geometry: ClassVar[str | None] = None
    vocabulary: ClassVar[str | None] = None

    @classmethod
    @abstractmethod
    def sizes_of(cls, weights: Tensors) -> dict[str, Any]:
        """The settings that these weights are of; the others have their defaults.

        ``weights.path`` is the file, beside which there may be more.
        """

    @classmethod
    @abstractmethod
    def state_of(cls, weights: Tensors) -> dict[str, Tensor]:
        """The tensors by the names of this trunk's parameters."""

    @classmethod
    def text_of(cls, weights: Tensors) -> CXRBert | None:
        """The text encoder in the same file, of the same joint space; None: there is none."""
        return None


def read_outside(
    kind: str, path: Path, projection: int, seed: int
) -> tuple[CXRBert | None, ImageEncoder, list[str]]:
    """The encoders of ``module:Class``, and the names of its projection, drawn from ``seed``.

    The text encoder is None where the file has none.

    Raises:
        InputError: the file is missing or damaged, or its tensors are not those of the class.
    """
    trunk: type[PublishedTrunk] = outside_class(kind, OUTSIDE)
    checkpoint = read_checkpoint(path, trunk.key)
    sizes = {"kind": kind, "projection": projection, **trunk.sizes_of(Tensors(checkpoint, path))}
    try:
        settings = TypeAdapter(ImageEncoderKind).validate_python(sizes)
    except ValidationError as error:
        raise InputError(explain(error, str(path))) from None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        image = ImageEncoder(settings)
    weights = Tensors(checkpoint, path)
    state = {f"{TRUNK}{name}": value for name, value in trunk.state_of(weights).items()}
    text = trunk.text_of(weights)
    weights.require_read()
    new = {name for name in image.state_dict() if name.startswith(PROJECTOR)}
    return text, image, load_weights(image, state, path, [new])
