"""A trained model folder as one object: ``cxrflow.load(folder)``.

The folder holds the text half at its root (``config.json``, ``model.safetensors`` and tokenizer
files, which plain transformers loads as BERT) and the image half in ``image/``. Either half may be
absent: a text-pretraining run has no ``image/``, SimCLR has nothing but ``image/``.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.image_encoder import ImageEncoder, ImageOutput
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.errors import InputError
from cxrflow.files import read_json, write_json


def save_text_half(text: CXRBert, folder: Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` as transformers does."""
    text.save_pretrained(folder)


def load_text_half(folder: Path) -> CXRBert:
    """Read the text half; an :class:`InputError` names what is missing."""
    for name in ("config.json", "model.safetensors"):
        if not (folder / name).is_file():
            raise InputError(f"{folder / name}: file not found; the folder has no text half")
    return CXRBert.from_pretrained(folder)


def save_image_half(image: ImageEncoder, folder: Path) -> None:
    """Write ``image/config.json`` and ``image/model.safetensors``."""
    target = folder / "image"
    target.mkdir(parents=True, exist_ok=True)
    write_json(target / "config.json", image.settings.model_dump(mode="json"))
    state = {name: value.contiguous() for name, value in image.state_dict().items()}
    save_file(state, target / "model.safetensors")


def load_image_half(folder: Path) -> ImageEncoder:
    """Read the image half; every parameter must be there and none may be left over."""
    source = folder / "image"
    image = ImageEncoder(ImageEncoderSettings.model_validate(read_json(source / "config.json")))
    try:
        image.load_state_dict(load_file(source / "model.safetensors"))
    except (FileNotFoundError, RuntimeError) as error:
        raise InputError(f"{source / 'model.safetensors'}: {error}") from None
    return image


@dataclass
class Model:
    """A loaded model in evaluation mode."""

    folder: Path
    device: torch.device
    run: dict[str, Any]  # run.json
    text_encoder: CXRBert | None
    image_encoder: ImageEncoder | None
    tokenizer: Any

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> "Model":
        """Load whichever halves ``path`` holds."""
        from cxrflow.text.tokenizer import load_tokenizer

        folder = Path(path)
        if not folder.is_dir():
            raise InputError(f"{folder}: model folder not found")
        text = load_text_half(folder) if (folder / "config.json").is_file() else None
        image = load_image_half(folder) if (folder / "image" / "config.json").is_file() else None
        if text is None and image is None:
            raise InputError(f"{folder}: holds neither config.json nor image/config.json")
        run = read_json(folder / "run.json") if (folder / "run.json").is_file() else {}
        for half in (text, image):
            if half is not None:
                half.eval().to(device)
        tokenizer = load_tokenizer(folder) if text is not None else None
        return cls(folder, torch.device(device), run, text, image, tokenizer)

    @property
    def geometry(self) -> str:
        """Name of the pixel geometry the image half was trained on, for example ``shorter512``."""
        try:
            return self.run["data"]["geometry"]
        except KeyError:
            raise InputError(f"{self.folder / 'run.json'}: field data.geometry is missing") from None

    @torch.inference_mode()
    def encode_image(self, pixels_B1HW: Tensor) -> ImageOutput:
        """Embed images in [0, 1]; see :class:`ImageOutput` for the shapes."""
        if self.image_encoder is None:
            raise InputError(f"{self.folder}: the model has no image half")
        return self.image_encoder(pixels_B1HW.to(self.device))

    @torch.inference_mode()
    def encode_text(self, texts: list[str]) -> Tensor:
        """Embed B texts: [B, P], L2-normalised. Longer ones than the encoder takes are an error."""
        if self.text_encoder is None:
            raise InputError(f"{self.folder}: the model has no text half")
        batch = self.tokenizer(texts, padding=True, return_tensors="pt")
        longest = self.text_encoder.config.max_position_embeddings
        if batch["input_ids"].shape[1] > longest:
            raise InputError(
                f"text of {batch['input_ids'].shape[1]} tokens; the encoder takes {longest}"
            )
        hidden = self.text_encoder.hidden_states(
            batch["input_ids"].to(self.device), batch["attention_mask"].to(self.device)
        )
        return nn.functional.normalize(self.text_encoder.project(hidden).float(), dim=1)

    def similarity_map(self, pixels_B1HW: Tensor, texts: list[str]) -> Tensor:
        """Cosine of every patch of image b with text b: [B, h, w] in [-1, 1] (section 4.1)."""
        patches = self.encode_image(pixels_B1HW).projected_patches
        return torch.einsum("bhwp,bp->bhw", patches, self.encode_text(texts))
