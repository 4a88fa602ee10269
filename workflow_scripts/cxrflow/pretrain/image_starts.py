"""Image encoders before their training: new, or with the weights of another model."""

from pathlib import Path

import torch

from cxr_files.errors import InputError
from cxrflow.encoders.image_encoder import ImageEncoder, read_image_settings
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.encoders.weights import load_weights, read_weights


def require_loadable(settings: ImageEncoderSettings) -> None:
    """Refuse an encoder outside of the package that a model folder would not give again.

    Raises:
        InputError: it has other parameters when it is built from its settings as they are written.
    """
    written = type(settings).model_validate(settings.model_dump(mode="json"))
    with torch.random.fork_rng(devices=[]):
        image, again = ImageEncoder(settings), ImageEncoder(written)
    load_weights(again, image.state_dict(), Path(f"{settings.kind}, built again"))


def start_image(folder: str | Path | None, settings: ImageEncoderSettings) -> ImageEncoder:
    """An image encoder whose trunk starts from ``folder``; the projection is always new.

    SimCLR has no projection to the joint space (BioViL section 2.2 projects for joint training).
    The trunk keeps its sizes; dilation has no weights, so ``settings`` decides the grid.
    """
    if folder is None:
        return ImageEncoder(settings)
    source = Path(folder) / "image"
    free = {name: getattr(settings, name) for name in settings.weightless}
    stored = read_image_settings(source / "config.json").model_copy(update=free)
    if stored != settings:
        raise InputError(
            f"{source / 'config.json'}: the trunk has sizes {stored.model_dump(exclude=set(free))}"
            f", but settings.encoder says {settings.model_dump(exclude=set(free))}"
        )
    image, path = ImageEncoder(settings), source / "model.safetensors"
    prefix = "encoder."  # there may be a projection besides
    weights = {
        name.removeprefix(prefix): value
        for name, value in read_weights(path).items()
        if name.startswith(prefix)
    }
    load_weights(image.encoder, weights, path)
    return image


def start_trunk(folder: str | Path | None, settings: ImageEncoderSettings) -> ImageEncoder:
    """An image encoder of two images, whose ResNet or whole trunk starts from ``folder``.

    The paper starts from BioViL (section 3.1), whose trunk is a ResNet alone.
    """
    if folder is None:
        return ImageEncoder(settings)
    settings_of_start = read_image_settings(Path(folder) / "image" / "config.json")
    if settings_of_start.kind == settings.kind:
        return start_image(folder, settings)
    image = ImageEncoder(settings)
    start = start_image(folder, settings.single)
    image.encoder.load_state_dict({**image.encoder.state_dict(), **start.encoder.state_dict()})
    return image
