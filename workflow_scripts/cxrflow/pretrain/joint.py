"""Joint image-text training of BioViL (section 2.2): L_joint = lambda_GA L_GA + L_MLM.

ConVIRT, GLoRIA and BioViL-L (Table 5) are other settings of it (docs/joint_training.md).

Starts from a text model folder and, if given, from a SimCLR folder. The model folder it writes
holds both halves and loads with ``cxrflow.load``.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cxrflow.command import run
from cxrflow.pretrain.arguments import start, training_parser
from cxrflow.pretrain.settings import JointPretrainingSettings

if TYPE_CHECKING:
    from cxrflow.training.processes import Processes


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``python -m cxrflow.pretrain.joint``."""
    arguments = training_parser(__doc__)
    arguments.add_argument("--pixels", type=Path, required=True, help="pixel store")
    arguments.add_argument(
        "--text", type=Path, required=True, help="text model folder to start from"
    )
    arguments.add_argument("--image", type=Path, help="image model folder to start from")
    given = arguments.parse_args(argv)
    start(given, JointPretrainingSettings, run_training)


def run_training(
    given: Namespace, settings: JointPretrainingSettings, processes: "Processes"
) -> None:
    """The share of one of ``processes`` in the training."""
    from cxrflow.encoders.cxr_bert import require_embeddings, require_positions
    from cxrflow.files import file_digest
    from cxrflow.images.store import PixelStore
    from cxrflow.pretrain.image_text_pairs import ImageTextProgram, start_image
    from cxrflow.pretrain.inputs import Pairs, model_fingerprint, seeded
    from cxrflow.pretrain.report_text import start_text
    from cxrflow.pretrain.resident_images import SMALLER_IMAGES
    from cxrflow.text.tokenizer import read_tokenizer
    from cxrflow.training.engine import Engine
    from cxrflow.training.precision import choose_device

    pairs, store = Pairs(given.pairs), PixelStore(given.pixels)
    train, validation = (
        pairs.split(name, (settings.required_section,), store, settings.max_dropped_share)
        for name in ("train", "validate")
    )
    seeded(given.seed)
    device = choose_device(settings.training.device)
    text = start_text(
        given.text, settings.dropout, settings.attention_dropout, settings.text_pooling
    )
    tokenizer = read_tokenizer(Path(given.text))
    require_embeddings(text, tokenizer.get_vocab_size(), Path(given.text))
    require_positions(text, settings.length)
    program = ImageTextProgram(
        settings,
        store,
        train,
        validation,
        text,
        start_image(given.image, settings.encoder),
        tokenizer,
        Path(given.text),
        given.seed,
        device,
        processes,
    )
    remedies = ("a smaller training.batch_size", "a smaller length", SMALLER_IMAGES)
    identity = {
        "model": given.model,
        "program": "joint",
        "seed": given.seed,
        "settings": settings.model_dump(mode="json"),
        "data": {
            **pairs.describe(),
            "geometry": str(store.geometry),
            "pixels": file_digest(Path(given.pixels) / "store.json")[:16],
            "text": model_fingerprint(given.text),
            "image": model_fingerprint(given.image),
            "train_samples": len(train),
            "validation_samples": len(validation),
        },
    }
    engine = Engine(program, settings.training, given.seed, identity, remedies, processes)
    engine.run(given.state, given.output)


if __name__ == "__main__":
    run(main)
