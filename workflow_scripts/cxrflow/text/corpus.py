"""Text corpora of phase II: PubMed abstracts and MIMIC-III notes (BioViL section 2.1).

Writes documents.parquet (document_id, text) and corpus.json, which counts every record that was
dropped and says why. Texts are in the normal form that reports have, too
(:mod:`cxr_labels.characters`). Memory stays flat however large the corpus.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from cxr_files.atomic import atomic_folder, file_digest, is_synthetic, write_json
from cxr_files.errors import InputError
from cxr_files.program import parser, run, thread_count
from cxr_files.settings import read_settings
from cxrflow.data import layouts
from cxrflow.text.documents import DocumentWriter
from cxrflow.text.settings import CorpusSettings

log = logging.getLogger("cxrflow")


def build_corpus(
    layout: str, root: Path, settings: CorpusSettings, output: Path, threads: int = 1
) -> None:
    """Read ``root`` in ``layout``, one that holds documents, and write the corpus folder."""
    if not root.is_dir():
        raise InputError(f"{root}: data root not found; expected the {layout} folder")
    with atomic_folder(output, "text corpus") as folder:
        with DocumentWriter(folder / "documents.parquet") as writer:
            steps = layouts.layout(layout).reader("documents")(root, settings, writer, threads)
        if not writer.documents:
            reasons = [item for step in steps for item in step.as_json()["dropped"]]
            why = ", ".join(f"{item['count']} {item['reason']}" for item in reasons)
            raise InputError(f"{root}: no document left ({why or 'the files are empty'})")
        write_json(
            folder / "corpus.json",
            {
                "dataset": output.name,
                "layout": layout,
                "synthetic": is_synthetic(root),
                "documents": writer.documents,
                "characters": writer.characters,
                "steps": [step.as_json() for step in steps],
                "settings": settings.model_dump(),
                "fingerprint": file_digest(folder / "documents.parquet")[:16],
            },
        )
    log.info("%s: %d documents, %d characters", output, writer.documents, writer.characters)


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    layout_help = f"one of {', '.join(layouts.holders('documents'))}, or module:Class"
    options.add_argument("--layout", required=True, help=layout_help)
    options.add_path("--root", "folder of the data set")
    options.add_argument(
        "--threads", type=thread_count, default=1, help="PubMed files read at once"
    )
    options.add_path("--output", "corpus folder")
    args = options.parse_args(argv)
    settings = read_settings(args.settings, CorpusSettings)
    build_corpus(args.layout, args.root, settings, args.output, args.threads)


if __name__ == "__main__":
    run(main)
