"""A trained model folder as one object: ``cxrflow.load(folder)``.

The folder holds the text half at its root (``config.json``, ``model.safetensors`` and tokenizer
files, which plain transformers loads as BERT) and the image half in ``image/``. Either half may be
absent: a text-pretraining run has no ``image/``, SimCLR has nothing but ``image/``.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cxrflow.encoders.cxr_bert import CXRBert, load_text_half, require_embeddings
from cxrflow.encoders.image_encoder import ImageEncoder, ImageOutput, load_image_half
from cxrflow.errors import InputError
from cxrflow.files import read_object
from cxrflow.text.tokenizer import load_tokenizer


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
    def load(cls, path: str | Path, device: str | torch.device = "cpu") -> "Model":
        """Load whichever halves ``path`` holds."""
        folder = Path(path)
        if not folder.is_dir():
            raise InputError(f"{folder}: model folder not found")
        text = load_text_half(folder) if (folder / "config.json").is_file() else None
        image = load_image_half(folder) if (folder / "image" / "config.json").is_file() else None
        if text is None and image is None:
            raise InputError(f"{folder}: holds neither config.json nor image/config.json")
        run = read_object(folder / "run.json") if (folder / "run.json").is_file() else {}
        for half in (text, image):
            if half is not None:
                half.eval().to(device)
        tokenizer = None
        if text is not None:
            tokenizer = load_tokenizer(folder)
            require_embeddings(text, len(tokenizer), folder)
        return cls(folder, torch.device(device), run, text, image, tokenizer)

    @property
    def geometry(self) -> str:
        """Name of the pixel geometry the image half was trained on, for example ``shorter512``."""
        try:
            return self.run["data"]["geometry"]
        except (KeyError, TypeError):
            raise InputError(
                f"{self.folder / 'run.json'}: field data.geometry is missing"
            ) from None

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
        projected = self.text_encoder.project(hidden, batch["attention_mask"])
        return nn.functional.normalize(projected.float(), dim=1)

    def similarity_map(self, pixels_B1HW: Tensor, texts: list[str]) -> Tensor:
        """Cosine of every patch of image b with text b: [B, h, w] in [-1, 1] (section 4.1)."""
        patches = self.encode_image(pixels_B1HW).projected_patches
        return torch.einsum("bhwp,bp->bhw", patches, self.encode_text(texts))
