"""Joint training on studies: one image and one sentence of each (ConVIRT section 3, Appendix A).

For ConVIRT and its baseline Contrastive-Binary-Loss (section 4.3). Starts from a text model
folder and, if given, an image model folder. The model folder it writes holds both halves and
loads with ``cxrflow.load``.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cxrflow.pretrain.arguments import image_text_parser, start, train
from cxrflow.pretrain.settings import StudyPretrainingSettings
from cxrflow.programs.program import run

if TYPE_CHECKING:
    from cxrflow.pretrain.objective import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_studies``."""
    start(image_text_parser(__doc__).parse_args(argv), StudyPretrainingSettings, run_training)


def run_training(given: Namespace, settings: StudyPretrainingSettings, run: "Run") -> None:
    """This process's share of the training."""
    from cxrflow.encoders.cxr_bert import require_embeddings, require_positions
    from cxrflow.files.atomic import file_digest
    from cxrflow.images.store import PixelStore
    from cxrflow.pretrain.image_text_pairs import pair_texts, start_image
    from cxrflow.pretrain.inputs import model_fingerprint
    from cxrflow.pretrain.report_text import start_text
    from cxrflow.pretrain.resident_images import SMALLER_IMAGES, other_patients
    from cxrflow.pretrain.study_text_pairs import (
        StudyImages,
        StudyPairs,
        StudyTextProgram,
        renew_projection,
    )
    from cxrflow.text.tokenizer import read_tokenizer

    pairs, store = StudyPairs(given.pairs, settings.training_share), PixelStore(given.pixels)
    image = start_image(given.image, settings.encoder)
    text = start_text(
        given.text, settings.dropout, settings.attention_dropout, settings.text_pooling
    )
    renew_projection(text, settings.encoder)
    tokenizer = read_tokenizer(given.text)
    require_embeddings(text, tokenizer.get_vocab_size(), given.text)
    require_positions(text, settings.length)
    read = settings.sentence_sections if settings.text == "sentence" else ("impression",)
    images, texts, samples = {}, {}, {}
    for name in ("train", "validate"):
        frame = pairs.images(name, read, store, settings.max_dropped_share)
        studies = frame.drop_duplicates("study_id", ignore_index=True)
        shown = studies
        if settings.shuffled_pairs and name == "train":
            shown = studies.iloc[other_patients(studies["subject_id"], run.seed)]
        images[name] = StudyImages(store, frame, shown["study_id"], run.device)
        texts[name] = pair_texts(settings, studies, tokenizer, training=name == "train")
        samples[name] = pairs.samples(studies)
    program = StudyTextProgram(settings, run, samples, images, texts, image, text, given.text)
    data = {
        **pairs.describe(),
        "geometry": str(store.geometry),
        "pixels": file_digest(given.pixels / "store.json")[:16],
        "text": model_fingerprint(given.text),
        "image": model_fingerprint(given.image),
        "train_samples": len(samples["train"]),
        "train_images": len(images["train"].rows),
        "validation_samples": len(samples["validate"]),
    }
    remedies = ("a smaller training.batch_size", "a smaller length", SMALLER_IMAGES)
    train(given, program, "studies", data, remedies)


if __name__ == "__main__":
    run(main)
