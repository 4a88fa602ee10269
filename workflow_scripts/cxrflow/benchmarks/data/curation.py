"""Image curation: scores of all acquisitions of a study for its report, by a trained model.

The model of BioViL-T section 3.3 has learnt from studies with one acquisition alone. An image is
scored without its prior (ours: the paper's question is about the image itself).
"""

import logging
from argparse import Namespace
from typing import Any

import pandas as pd
import torch

from cxr_files.atomic import atomic_folder, file_digest, write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.features import encode
from cxrflow.benchmarks.inputs import drop_rows, read_cohort
from cxrflow.benchmarks.model_pixels import model_pixels
from cxrflow.benchmarks.settings import CurationSettings
from cxrflow.images.curation import decide
from cxrflow.models.model import Model
from cxrflow.models.run_record import learnt
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")
COLUMNS = ("subject_id", "study_id", "image_id", "impression_sentences", "split")


def curate(options: Namespace, settings: CurationSettings) -> None:
    device = choose_device(settings.device)
    cohort = read_cohort(options.cohort, "pairs.parquet", COLUMNS)
    model = Model.load(options.model, device)
    if model.image_encoder is None or model.image_encoder.projector is None:
        raise InputError(f"{options.model}: no image encoder in a joint space with text")
    pixels = model_pixels(options.pixels, options.model)
    texts = cohort.table["impression_sentences"].map(
        lambda sentences: "" if sentences is None else " ".join(sentences)
    )
    table, dropped = drop_rows(
        cohort.table.assign(text=texts, sample_id=cohort.table["image_id"]),
        {
            "image is not in the pixel store": ~pixels.holds(cohort.table["image_id"]),
            "no impression": texts == "",
            "impression is longer than the encoder takes": _too_long(model, texts),
        },
    )
    several = table["study_id"].duplicated(keep=False)
    scores = pd.Series(float("nan"), index=table.index)
    if several.any():
        scores[several] = _scores(model, pixels, table[several], settings.batch_size, device)
    decided = decide(
        table[["subject_id", "study_id", "image_id", "split"]].assign(score=scores), settings.margin
    ).reset_index(drop=True)
    counts = decided["decision"].value_counts()
    record: dict[str, Any] = {
        "data": cohort.data,
        "model": file_digest(options.model / "image" / "model.safetensors")[:16],
        "learnt": learnt(model.run),
        "settings": settings.model_dump(mode="json"),
        "studies": int(decided["study_id"].nunique()),
        "studies_with_several": int(table.loc[several, "study_id"].nunique()),
        "images": {name: int(count) for name, count in counts.items()},
        "dropped": dropped,
    }
    with atomic_folder(options.output, "curation") as folder:
        decided.to_parquet(folder / "curation.parquet", index=False)
        write_json(folder / "curation.json", record)
    log.info(
        "%s: %d of %d studies with several images decided, %d images rejected",
        options.output,
        record["images"].get("best", 0),
        record["studies_with_several"],
        record["images"].get("rejected", 0),
    )


def _too_long(model: Model, texts: pd.Series) -> "pd.Series[bool]":
    if model.text_encoder is None or model.tokenizer is None:
        raise InputError(f"{model.folder}: the model has no text encoder")
    longest = model.text_encoder.config.max_position_embeddings
    lengths = [len(text.ids) for text in model.tokenizer.encode_batch_fast(texts.tolist())]
    return pd.Series(lengths, index=texts.index) > longest


def _scores(
    model: Model, pixels: Any, table: pd.DataFrame, batch_size: int, device: torch.device
) -> pd.Series:
    """Similarity of each image to its report."""
    assert model.image_encoder is not None
    images = table[["image_id"]]  # no prior
    reads_patches = model.similarity.reads_patches
    by_kind = encode(model.image_encoder, pixels, images, batch_size, device, patches=reads_patches)
    encoded = EncodedImages(by_kind["projected"], by_kind.get("patches"))
    texts = table["text"].tolist()
    batches = [
        model.encode_texts(texts[begin : begin + batch_size])
        for begin in range(0, len(texts), batch_size)
    ]
    scores = model.similarity.paired_scores(encoded, EncodedTexts.joined(batches))
    return pd.Series(scores.cpu().numpy(), index=table.index)
