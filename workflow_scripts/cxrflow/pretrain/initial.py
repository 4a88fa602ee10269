"""Write an untrained image encoder: random, or with the trunk of another model.

ConVIRT section 4.3, "Random Init."; a random comparison of two images around a trunk that has seen
none of either is BioViL-T's "CNN + Transformer (ImageNet)" (its Table 2). What is random is drawn
from the seed. The model folder holds the trunk alone, as after pretraining on images.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cxr_files.program import parser, run, seed_number
from cxr_files.settings import read_settings
from cxrflow.pretrain.settings import InitialSettings

log = logging.getLogger("cxrflow")


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow initialise``."""
    arguments = parser(__doc__)
    arguments.add_argument("--image", type=Path, help="image model whose trunk is taken")
    arguments.add_argument("--geometry", required=True, help="such as shorter512")
    arguments.add_argument("--model", required=True, help="name of this model")
    arguments.add_argument(
        "--seed", type=seed_number, required=True, help="of the weights that are random"
    )
    arguments.add_argument("--output", type=Path, required=True, help="model folder to write")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, InitialSettings)

    import torch

    from cxr_files.atomic import atomic_folder, write_json
    from cxrflow import __version__
    from cxrflow.encoders.image_encoder import read_image_settings, save_image_encoder
    from cxrflow.pretrain.image_starts import start_trunk
    from cxrflow.pretrain.inputs import model_fingerprint

    start = options.image and read_image_settings(options.image / "image" / "config.json")
    is_random = start is None or start.kind != settings.encoder.kind  # some weights, by the seed
    torch.manual_seed(options.seed)
    image = start_trunk(options.image, settings.encoder)
    image.projector = None
    with atomic_folder(options.output, "model") as folder:
        save_image_encoder(image, folder)
        facts = {
            "model": options.model,
            "program": "initial",
            "seed": options.seed,
            "drawn": is_random,
            "settings": settings.record(),
            "data": {
                "name": "none",
                "synthetic": False,
                "geometry": options.geometry,
                "image": model_fingerprint(options.image),
            },
            "parameters": sum(p.numel() for p in image.parameters()),
            "code_version": __version__,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_json(folder / "run.json", facts)
    log.info("wrote %s", options.output)


if __name__ == "__main__":
    run(main)
