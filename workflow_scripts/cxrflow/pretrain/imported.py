"""Make a model folder from published weights, for trainings and benchmarks to use.

BioViL section 2: its joint training starts from CXR-BERT or, in Table 4's baselines, from
ClinicalBERT and PubMedBERT; its own weights are published, too. docs/weights.md says which file
comes from where. What the weights lack (a projection to the joint space) is drawn from the seed and
listed under ``initialised`` in ``run.json``.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cxr_files.errors import InputError
from cxr_files.program import parser, run, seed_number
from cxr_files.settings import read_settings
from cxrflow.encoders.released.settings import ImportSettings, publication
from cxrflow.models.run_record import UNNAMED_DATA
from cxrflow.pretrain.registry import program_of

log = logging.getLogger("cxrflow")


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow import_weights``."""
    arguments = parser(__doc__)
    arguments.add_argument("--weights", type=Path, required=True, help="published weights")
    arguments.add_argument("--image", type=Path, help="BioViL's image weights, if elsewhere")
    arguments.add_argument(
        "--kind",
        required=True,
        help="what was published (docs/weights.md), or module:Class of an encoder of yours",
    )
    arguments.add_argument("--model", required=True, help="name of this model")
    arguments.add_argument(
        "--seed",
        type=seed_number,
        required=True,
        help="seed of the parameters that the weights lack",
    )
    arguments.add_argument("--output", type=Path, required=True, help="model folder to write")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, ImportSettings)
    try:
        publication(options.kind)
    except ValueError as error:
        raise InputError(f"--kind {error}") from None
    import_weights(
        options.kind,
        options.weights,
        options.image,
        settings,
        options.model,
        options.seed,
        options.output,
    )


def import_weights(
    kind: str,
    weights: Path,
    image: Path | None,
    settings: ImportSettings,
    model: str,
    seed: int,
    output: Path,
) -> None:
    """Write the model folder ``output`` in one piece.

    Raises:
        InputError: the weights are not those of ``kind``, whole and nothing else.
    """
    from cxr_files.atomic import atomic_folder, file_digest, write_json
    from cxrflow import __version__
    from cxrflow.encoders.cxr_bert import require_embeddings, save_text_encoder
    from cxrflow.encoders.image_encoder import save_image_encoder
    from cxrflow.encoders.released.published import find_files, read_published, source_files
    from cxrflow.text.byte_pairs import write_byte_pairs
    from cxrflow.text.cleaned_reports import rewrite_with_cleaning
    from cxrflow.text.tokenizer import read_tokenizer

    files = find_files(kind, weights, image)
    halves = read_published(kind, files, settings, seed)
    with atomic_folder(output, "model") as folder:
        if halves.text is not None and files.text is not None:
            require_embeddings(halves.text, read_tokenizer(files.text).get_vocab_size(), files.text)
            save_text_encoder(halves.text, folder)
            rewrite_with_cleaning(files.text, folder)
        elif halves.text is not None and files.vocabulary is not None:
            write_byte_pairs(files.vocabulary, folder)
            require_embeddings(halves.text, read_tokenizer(folder).get_vocab_size(), folder)
            save_text_encoder(halves.text, folder)
        if halves.image is not None:
            save_image_encoder(halves.image, folder)
        modules = [half for half in (halves.text, halves.image) if half is not None]
        facts = {
            **halves.run,
            "model": model,
            "program": program_of(kind),
            "seed": seed,
            "settings": settings.record(),
            "data": {"name": UNNAMED_DATA, "synthetic": False, **halves.run.get("data", {})},
            "sources": {path.name: file_digest(path) for path in source_files(files)},
            "parameters": sum(p.numel() for m in modules for p in m.parameters()),
            "code_version": __version__,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_json(folder / "run.json", facts)
    new = halves.run["initialised"]
    log.info("wrote %s from %s; %d of its tensors are new", output, weights, len(new))


if __name__ == "__main__":
    run(main)
