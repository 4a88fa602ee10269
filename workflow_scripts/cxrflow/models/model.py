"""A trained model folder as one object: ``cxrflow.load(folder)``.

The folder holds the text encoder at its root (``config.json``, ``model.safetensors`` and tokenizer
files, which plain transformers loads as BERT) and the image encoder in ``image/``. Either may be
absent: a text-pretraining run has no ``image/``, SimCLR has nothing but ``image/``. A model that
writes reports has ``image/``, ``decoder/`` and the tokenizer.

Folders and files of published weights load as well (docs/weights.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from cxr_files.atomic import read_object, require_whole
from cxr_files.errors import InputError
from cxrflow.compute.devices import named_device
from cxrflow.encoders.captioning import Captioner, load_captioner, patches_of
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder, require_embeddings
from cxrflow.encoders.decoding import Search, decode
from cxrflow.encoders.image_encoder import Frames, ImageEncoder, ImageOutput, load_image_encoder
from cxrflow.encoders.inference import folded
from cxrflow.encoders.projection import TextProjection
from cxrflow.encoders.released.published import (
    find_files,
    is_released,
    kind_of,
    projection_is_new,
    read_published,
)
from cxrflow.encoders.released.settings import ImportSettings
from cxrflow.encoders.report_decoder import (
    FOLDER,
    ReportDecoder,
    load_decoder,
    require_vocabulary,
)
from cxrflow.models.run_record import read_run, relates_sentences
from cxrflow.similarity.cosine import Cosine
from cxrflow.similarity.folder import load_similarity
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts, Similarity
from cxrflow.similarity.words import WordReader
from cxrflow.similarity.words_and_patches import WordsAndPatches
from cxrflow.text.report_prompts import ReportPrompts
from cxrflow.text.tokenizer import VocabularyInfo, read_tokenizer

# A radiograph: its file, or grey values of any scale [H, W], bright where the body is dense.
Radiograph = str | Path | NDArray[Any]
Images = Radiograph | Sequence[Radiograph] | Tensor
Image = Images | Frames[Tensor]


@dataclass(repr=False)
class Model:
    """A loaded model in evaluation mode."""

    folder: Path
    device: torch.device
    run: dict[str, Any]  # run.json
    text_encoder: CXRBert | None
    image_encoder: ImageEncoder | None
    tokenizer: Tokenizer | None
    decoder: ReportDecoder | Captioner | None = None
    similarity: Similarity = field(default_factory=Cosine)

    @classmethod
    def load(
        cls,
        path: str | Path,
        device: str | torch.device = "cpu",
        image: str | Path | None = None,
    ) -> "Model":
        """Load the encoders that ``path`` holds; ``image``: a published image encoder beside it."""
        folder, device = Path(path), named_device(device)
        if not folder.exists():
            raise InputError(f"{folder}: model folder not found")
        if image is not None or is_released(folder):
            # Published weights as they lie; what they lack is drawn from seed 0.
            image = None if image is None else Path(image)
            kind = kind_of(folder, image)
            files = find_files(kind, folder, image)
            text, image_encoder, run = read_published(kind, files, ImportSettings(), seed=0)
            decoder, similarity = None, None
        else:
            configs = (folder / "config.json", folder / "image" / "config.json")
            for config in configs:
                require_whole(config)  # without it the model would lack an encoder
            has_text, has_image = (config.is_file() for config in configs)
            text = load_text_encoder(folder) if has_text else None
            decoder = _load_decoder(folder)
            # Image pretraining leaves the trunk alone, and a captioner looks at nothing else.
            alone = text is None or isinstance(decoder, Captioner)
            image_encoder = load_image_encoder(folder, trunk_alone=alone) if has_image else None
            if text is None and image_encoder is None:
                raise InputError(f"{folder}: holds neither config.json nor image/config.json")
            run, similarity = read_run(folder), load_similarity(folder)
        if similarity is None or isinstance(similarity, Cosine):
            similarity = Cosine() if text is None else _of_heads(text, folder)
        for module in (text, image_encoder, decoder, similarity):
            if module is not None:
                module.eval().to(device)
        tokenizer = None
        if text is not None:
            tokenizer = read_tokenizer(folder)
            require_embeddings(text, tokenizer.get_vocab_size(), folder)
        if decoder is not None:
            tokenizer = read_tokenizer(folder)
            pieces = VocabularyInfo.from_tokenizer(tokenizer).fingerprint
            require_vocabulary(decoder.config.vocabulary, pieces, folder)
        return cls(folder, device, run, text, image_encoder, tokenizer, decoder, similarity)

    def __repr__(self) -> str:
        """The folder, its encoders and the device, in a line."""
        descriptions = []
        if self.text_encoder is not None:
            sizes = self.text_encoder.config
            layers, width = sizes.num_hidden_layers, sizes.hidden_size
            kind = "CLIP" if sizes.hidden_act == "quick_gelu" else "BERT"
            descriptions.append(f"text: {kind} of {layers} layers, width {width}")
        if self.image_encoder is not None:
            settings = self.image_encoder.settings
            alone = "" if self.image_encoder.projector is not None else ", no projection"
            descriptions.append(f"image: {settings.kind}{alone}")
        if self.decoder is not None:
            descriptions.append(f"writes reports: {type(self.decoder).__name__}")
        if not isinstance(self.similarity, Cosine):
            descriptions.append(f"compares by {type(self.similarity).__name__}")
        return f"<cxrflow model {self.folder}: {'; '.join(descriptions)}; on {self.device}>"

    @property
    def geometry(self) -> str:
        """Name of the pixel geometry of the image encoder's training, such as ``shorter512``."""
        try:
            return self.run["data"]["geometry"]
        except (KeyError, TypeError):
            raise InputError(
                f"{self.folder / 'run.json'}: field data.geometry is missing"
            ) from None

    @property
    def limits(self) -> str | None:
        """What must be said of any answer of the model; None if nothing is known against it."""
        data = self.run.get("data") or {}
        if data.get("synthetic"):
            return f"{self.folder} was trained on drawn radiographs: it knows nothing of patients"
        return None

    @property
    def takes_prior(self) -> bool:
        """True if the image encoder compares an image with an earlier one."""
        return self.image_encoder is not None and self.image_encoder.takes_prior

    @torch.inference_mode()
    def encode_image(self, image: Image, prior: Images | None = None) -> ImageOutput:
        """Embed studies; see :class:`ImageOutput` for the shapes.

        ``image`` is a radiograph (a DICOM, PNG or JPEG file, or an array of grey values [H, W]) or
        a list of B; they are brought to the model's geometry. Or it is pixels as the model sees
        them, a tensor [B, 1, H, W] in [0, 1]. So is ``prior``, of the same patients and earlier; or
        ``image`` is both as :class:`Frames`, where not every study needs a prior.

        Raises:
            InputError: there is no image encoder, or it has no projection to a joint space, or is
                one of single images and gets a prior; a file or an array cannot be used.
        """
        frames = self._frames(image, prior)
        if self._inference_encoder.projector is None:
            raise InputError(
                f"{self.folder}: the image encoder is a trunk alone, with no projection to a joint "
                "space; `image_features` gives what it has"
            )
        return self._inference_encoder(frames)

    @torch.inference_mode()
    def image_features(self, image: Image, prior: Images | None = None) -> Tensor:
        """The trunk's features of studies [B, F], mean over the grid, which any image encoder has.

        Arguments and errors are those of :meth:`encode_image`, but no projection is needed.
        """
        frames = self._frames(image, prior)
        return self._inference_encoder.encoder(frames).pooled

    def _frames(self, image: Image, prior: Images | None = None) -> Frames[Tensor]:
        """Bring images to the frames that the image encoder takes."""
        if self.image_encoder is None:
            raise InputError(f"{self.folder}: the model has no image encoder")
        if not isinstance(image, Frames):
            earlier = None if prior is None else self._pixels(prior)
            image = Frames(self._pixels(image), earlier)
        if image.prior is not None and not self.takes_prior:
            raise InputError(
                f"{self.folder}: a prior image was given, but the model encodes single images"
            )
        if image.prior is not None:
            studies = len(image.current) if image.rows is None else len(image.rows)
            if len(image.prior) != studies or image.prior.shape[1:] != image.current.shape[1:]:
                raise InputError(
                    f"priors of shape {list(image.prior.shape)} for images of "
                    f"{list(image.current.shape)}; expected one for each, or Frames with `rows`"
                )
        return image.each(lambda pixels: pixels.to(self.device))

    def _pixels(self, images: Images) -> Tensor:
        """Bring images to pixels [B, 1, S, S]; a tensor holds them already."""
        if isinstance(images, Tensor):
            if images.ndim != 4 or images.shape[1] != 1 or not images.is_floating_point():
                raise InputError(
                    f"a tensor of {images.dtype}, shape {list(images.shape)}; expected pixels "
                    "[B, 1, H, W] in [0, 1]; an array of grey values [H, W] is resized for you"
                )
            return images
        from cxrflow.images.augment import StoredPixels
        from cxrflow.images.geometry import Geometry
        from cxrflow.images.inference_view import inference_view
        from cxrflow.images.settings import PixelSettings
        from cxrflow.images.shards import read_images

        image_list = [images] if isinstance(images, str | Path | np.ndarray) else list(images)
        if not image_list:
            raise InputError("no images were given; expected at least one")
        if any(image is None for image in image_list):
            raise InputError("an image is None; if only some have a prior, give Frames with `rows`")
        geometry = Geometry.parse(self.geometry)
        sizes, stored = zip(*read_images(image_list, PixelSettings(), geometry), strict=True)
        pixels = torch.from_numpy(np.concatenate(stored))
        view = inference_view(self.run, geometry)
        if view is None:
            return pixels[:, None].float() / 255
        placed = [geometry.place(*size).inside_stored() for size in sizes]
        inside = None if geometry.padded else torch.tensor(placed)
        return view(StoredPixels(pixels, torch.zeros(len(pixels), dtype=torch.int64), inside))

    @cached_property
    def _inference_encoder(self) -> ImageEncoder:
        """The image encoder as it is run; ``image_encoder`` keeps the parameters as trained."""
        assert self.image_encoder is not None
        return folded(self.image_encoder)

    @torch.inference_mode()
    def encode_text(self, texts: list[str], normalise: bool = True) -> Tensor:
        """Embed B texts: [B, P], L2-normalised unless told otherwise.

        Longer ones than the encoder takes are an InputError. Texts are taken as they are.
        """
        projected = self.encode_texts(texts).projection
        return nn.functional.normalize(projected, dim=1) if normalise else projected

    @torch.inference_mode()
    def encode_texts(self, texts: list[str]) -> EncodedTexts:
        """Encode B texts as :attr:`similarity` reads them; errors are those of `encode_text`."""
        return self.encode_tokens(self._tokens(texts))

    @torch.inference_mode()
    def encode_tokens(self, pieces: Sequence[Sequence[int]]) -> EncodedTexts:
        """Encode B texts of word pieces, [CLS] and [SEP] included."""
        if projection_is_new(self.run):
            raise InputError(
                f"{self.folder}: the published weights have no projection to a joint space; train "
                "it before embedding texts"
            )
        if relates_sentences(self.run):
            raise InputError(
                f"{self.folder}: is a model of the program sentence_pairs, whose projection says "
                "how two sentences relate; it embeds no text"
            )
        reader = self.similarity.words
        ids_BL, mask_BL, states = self._states(pieces, 1 if reader is None else reader.layers)
        encoder, _ = self._reader
        projection_BP = encoder.project(states[-1], mask_BL).float()
        words = None if reader is None else reader(encoder, states, ids_BL)
        return EncodedTexts(projection_BP, words)

    @torch.inference_mode()
    def text_states(self, texts: list[str]) -> tuple[Tensor, Tensor]:
        """States of the last layer [B, L, D] of B texts, and which tokens are real, [B, L]."""
        _, mask_BL, states = self._states(self._tokens(texts), 1)
        return states[0], mask_BL.to(self.device)

    @property
    def _reader(self) -> tuple[CXRBert, Tokenizer]:
        if self.text_encoder is None or self.tokenizer is None:
            raise InputError(f"{self.folder}: the model has no text encoder")
        return self.text_encoder, self.tokenizer

    def _tokens(self, texts: list[str]) -> list[list[int]]:
        """The word pieces of texts, [CLS] and [SEP] included."""
        _, tokenizer = self._reader
        if isinstance(texts, str) or not texts:
            # Nothing of its content is said, which may be a report's.
            length = f" and length {len(texts)}" if hasattr(texts, "__len__") else ""
            raise InputError(
                f"texts is of type {type(texts).__name__}{length}; expected a list of one or more"
            )
        return [text.ids for text in tokenizer.encode_batch_fast(texts)]

    def _states(
        self, tokens: Sequence[Sequence[int]], layers: int
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Ids [B, L], which of them are real, both on the CPU, and states of the last layers."""
        encoder, _ = self._reader
        pieces = [torch.tensor(ids) for ids in tokens]
        ids_BL = pad_sequence(pieces, batch_first=True)
        mask_BL = pad_sequence([torch.ones_like(text) for text in pieces], batch_first=True)
        longest = encoder.config.max_position_embeddings
        if ids_BL.shape[1] > longest:
            raise InputError(f"text of {ids_BL.shape[1]} tokens; the encoder takes {longest}")
        states = encoder.last_states(ids_BL.to(self.device), mask_BL, layers)
        return ids_BL, mask_BL, states

    @torch.inference_mode()
    def similarities(self, image: Image, texts: list[str], prior: Images | None = None) -> Tensor:
        """Score of every study with every text, [B, T], by the similarity the model has learnt.

        A cosine in [-1, 1] unless the model folder holds another one; a greater one is nearer.
        """
        images = EncodedImages.of(self.encode_image(image, prior))
        return self.similarity.scores(images, self.encode_texts(texts))

    @torch.inference_mode()
    def similarity_map(self, image: Image, texts: list[str], prior: Images | None = None) -> Tensor:
        """Score of every patch of study b with text b, [B, h, w]; cosines in [-1, 1] (section 4.1).

        One study is compared with all texts, one text with all studies.
        """
        images = EncodedImages.of(self.encode_image(image, prior))
        encoded = self.encode_texts(texts)
        if len(images) != len(encoded) and 1 not in (len(images), len(encoded)):
            raise InputError(f"{len(encoded)} texts for {len(images)} studies")
        return self.similarity.maps(images, encoded)

    @torch.inference_mode()
    def generate_report(
        self,
        image: Image,
        prior: Images | None = None,
        prior_reports: Sequence[str | None] | None = None,
        beams: int = 1,
        length_penalty: float = 1.0,
    ) -> list[str]:
        """Draft the reports of B studies; not for clinical use.

        A report decoder (BioViL-T Appendix F.1) or a captioner (ConVIRT section 4.3) writes them.

        ``image`` and ``prior`` are as in :meth:`encode_image`; ``prior_reports`` are B texts of the
        sections that the model writes, None where there is none. What the model was not trained
        to be given is left out, as in training: a prior image, or prior reports. One beam is greedy
        search; ``length_penalty`` is the power of the length that a beam's score is divided by.

        Raises:
            InputError: the model writes no reports, or what it is given cannot be used.
        """
        decoder, tokenizer = self.decoder, self.tokenizer
        if decoder is None or tokenizer is None:
            raise InputError(f"{self.folder}: holds no {FOLDER}/config.json; it writes no reports")
        if not decoder.settings.prior_image:
            prior = None
            image = image._replace(prior=None, rows=None) if isinstance(image, Frames) else image
        if isinstance(decoder, Captioner):
            patches_BMP = patches_of(self._inference_encoder.encoder(self._frames(image)).grid)
        else:
            patches_BMP = self.encode_image(image, prior).unnormalised_patches.flatten(1, 2)
        reports = [None] * len(patches_BMP) if prior_reports is None else prior_reports
        if len(reports) != len(patches_BMP):
            raise InputError(f"{len(reports)} prior reports for {len(patches_BMP)} studies")
        prompts = ReportPrompts(reports, tokenizer, decoder.settings)
        if beams < 1:
            raise InputError(f"beams is {beams}; expected at least 1")
        search = Search(decoder.settings.report_length, prompts.end, beams, length_penalty)
        if isinstance(decoder, Captioner):
            written = decoder.write(prompts.prompts, patches_BMP, search)
        else:
            written = decode(decoder, prompts.prompts, patches_BMP, search)
        return tokenizer.decode_batch(written)


def _of_heads(text: CXRBert, folder: Path) -> Similarity:
    """The cosine; where words have a projection of their own, maps are of words."""
    if type(text.cls_projection_head).words is TextProjection.words:
        return Cosine()
    vocabulary = VocabularyInfo.from_tokenizer(read_tokenizer(folder))
    return WordsAndPatches(WordReader.of(vocabulary, layers=1, cls_is_word=False))


def _load_decoder(folder: Path) -> ReportDecoder | Captioner | None:
    """Load the decoder or captioner of a folder, if it has one."""
    path = folder / FOLDER / "config.json"
    require_whole(path)
    if not path.is_file():
        return None
    return load_captioner(folder) if "captioning" in read_object(path) else load_decoder(folder)
