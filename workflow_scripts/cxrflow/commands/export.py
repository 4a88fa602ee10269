"""Write one of our models in the layout and with the names of the released BioViL weights.

The folder is like the published one (BioViL section 2): CXR-BERT's text encoder at its root, the
image encoder beside it as ``biovil_image_resnet50_proj_size_128.pt``, or named by its sizes where
they are others. A vision transformer is a file in DeiT's layout. ``export.json`` says what it came
from. ``README.md`` is the model card: data, sizes, scores, limits, licence. The image file's
classifier, which readers of the released file expect and nothing uses, is zeros.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cxr_files.program import parser, run

if TYPE_CHECKING:
    from cxrflow.encoders.settings import ImageEncoderSettings

log = logging.getLogger("cxrflow")

Format = Literal["bin", "safetensors"]


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options of ``cxrflow export`` and write the folder."""
    arguments = parser(__doc__, settings=False)
    arguments.add_path("--model", "results/models/<paper>/<model>/seed<k>")
    arguments.add_path("--output", "folder to write")
    arguments.add_argument(
        "--format",
        choices=("bin", "safetensors"),
        default="bin",
        help="text weights as pytorch_model.bin, as released, or as model.safetensors",
    )
    options = arguments.parse_args(argv)
    export(options.model, options.output, options.format)


def export(model: Path, output: Path, form: Format = "bin") -> None:
    """Write the halves of the model folder ``model`` to ``output``, atomically.

    Raises:
        InputError: it is no model folder, a half of it cannot be read or lacks a projection, or
            what it sees of images has no name in the layout.
    """
    import torch
    from safetensors.torch import save_file

    from cxr_files.atomic import atomic_folder, file_digest, write_json
    from cxr_files.errors import InputError
    from cxrflow.encoders.cxr_bert import load_text_encoder, untied
    from cxrflow.encoders.image_encoder import load_image_encoder
    from cxrflow.encoders.released.deit import released_vit, released_vit_name
    from cxrflow.encoders.released.image import released_image, released_image_name
    from cxrflow.encoders.released.published import released_trunk, require_released_head
    from cxrflow.encoders.released.text import released_config
    from cxrflow.encoders.settings import VitSettings
    from cxrflow.models.card import card
    from cxrflow.models.run_record import read_run
    from cxrflow.similarity.folder import FOLDER as SIMILARITY
    from cxrflow.text.cleaned_reports import rewrite_with_cleaning

    # A model of one encoder is exported as well: CXR-BERT is published alone (BioViL section 2.1).
    has_text = (model / "config.json").is_file()
    has_image = (model / "image" / "config.json").is_file()
    if not has_text and not has_image:
        raise InputError(f"{model}: holds neither config.json nor image/config.json")
    if (model / SIMILARITY / "config.json").is_file():
        raise InputError(
            f"{model / SIMILARITY}: the released layout has no place for a similarity other than "
            "the cosine; expected a model that compares by it"
        )
    record = read_run(model)
    geometry = _seen(record, model) if has_image else (record.get("data") or {}).get("geometry")
    sources: list[Path] = []
    parameters: dict[str, int] = {}
    image = load_image_encoder(model) if has_image else None
    with atomic_folder(output, "exported model") as folder:
        if has_text:
            text = load_text_encoder(model)
            if image is None or not isinstance(image.settings, VitSettings):
                require_released_head(text.config.projection_head, model)
            write_json(folder / "config.json", released_config(text.config))
            if form == "bin":
                torch.save(untied(text), folder / "pytorch_model.bin")
            else:
                save_file(untied(text), folder / "model.safetensors", {"format": "pt"})
            rewrite_with_cleaning(model, folder)
            sources.append(model / "model.safetensors")
            parameters["text"] = sum(parameter.numel() for parameter in text.parameters())
        if image is not None:
            if isinstance(image.settings, VitSettings):
                path = folder / released_vit_name(image.settings)
                torch.save(released_vit(image), path)
            else:
                path = folder / released_image_name(released_trunk(image.settings, model))
                torch.save(released_image(image), path)
            # Where stride became dilation no weight tells.
            write_json(path.with_suffix(".json"), image.settings.model_dump(mode="json"))
            sources.append(model / "image" / "model.safetensors")
            parameters["image"] = sum(parameter.numel() for parameter in image.parameters())
        account = {
            "geometry": geometry,
            "data": _people(record.get("data") or {}),
            "sources": {str(path.relative_to(model)): file_digest(path) for path in sources},
            "zeros": [] if image is None else _unused(image.settings),
        }
        write_json(folder / "export.json", account)
        (folder / "README.md").write_text(card(model, record, parameters), encoding="utf-8")
    log.info("wrote %s", output)
    if image is not None:
        log.info("the image file's unused %s are zeros", " and ".join(_unused(image.settings)))


def _people(data: Mapping[str, Any]) -> dict[str, Any]:
    """What ``cxrflow zero_shot`` must know: what the model was trained on, and chosen on."""
    people = {key: data.get(key) for key in ("name", "layout", "synthetic", "train_samples")}
    selection = data.get("selection")
    if selection:
        # Older records call the name of the data set so.
        name = selection.get("name") or selection.get("dataset")
        chosen_on = {"name": name, **{key: selection.get(key) for key in ("layout", "synthetic")}}
        people["selection"] = chosen_on
    return people


def _unused(settings: "ImageEncoderSettings") -> list[str]:
    """The parameters that readers of published files expect, and nothing uses."""
    layer = "head" if settings.kind == "vit" else "encoder.encoder.fc"
    return [f"{layer}.weight", f"{layer}.bias"]


def _seen(record: Mapping[str, Any], model: Path) -> str | None:
    """The geometry of the pixels that the model sees; published files do not say of windows.

    Raises:
        InputError: no name of a geometry says what the model sees.
    """
    from cxr_files.errors import InputError
    from cxrflow.images.geometry import Geometry
    from cxrflow.images.inference_view import seen_geometry

    name = (record.get("data") or {}).get("geometry")
    if name is None:
        return None
    stored = Geometry.parse(name)
    augmentation = (record.get("settings") or {}).get("augmentation")
    if augmentation is None:  # weights that were not trained here: the geometry alone says it
        return str(stored)
    seen = seen_geometry(record, stored)
    if seen is None or (seen.rule == "square" and seen != stored):
        raise InputError(
            f"{model / 'run.json'}: settings.augmentation.size is {augmentation['size']}, with "
            f"images of geometry {stored}; the released layout has no name for what such a model "
            "sees, expected no size, or a window in the middle of padded squares (longer<N>)"
        )
    # Stored squares that are shown whole are shown with what surrounds the image.
    return str(replace(seen, padded=True))


if __name__ == "__main__":
    run(main)
