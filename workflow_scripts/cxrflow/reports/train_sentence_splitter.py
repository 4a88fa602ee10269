"""Train a small stanza tokenizer and lay it out like a downloaded stanza package.

``--text`` holds ``{train,dev}.txt`` and ``{train,dev}.toklabels`` of the same length: a digit a
character (0 inside a token, 1 last of a token, 2 last of a sentence), paragraph breaks copied.
``--output`` becomes a stanza folder (``resources.json``, ``en/tokenize/mimic.pt``), so that
the demo runs the code path of the published biomedical package. Nothing is downloaded.
"""

import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cxr_files.atomic import atomic_folder, is_synthetic, read_text, write_json
from cxr_files.errors import InputError
from cxr_files.program import parser, run
from cxr_files.settings import read_settings
from cxr_labels.stanza_models import train_model
from cxrflow.reports.settings import SentenceSplitterSettings

log = logging.getLogger(__name__)

LABELS = set("01234")
PACKAGE = "mimic"  # name of the published model in its folder


def check_labels(text_path: Path, label_path: Path) -> int:
    """Check that a text and its labels belong together; gives the number of sentences."""
    text, labels = read_text(text_path), read_text(label_path)
    if len(text.rstrip()) != len(labels.rstrip()):
        raise InputError(
            f"{label_path}: {len(labels.rstrip())} labels for {len(text.rstrip())} characters of "
            f"{text_path.name}; expected one a character"
        )
    strange = set(labels) - LABELS - set(" \n\r")
    if strange:
        raise InputError(f"{label_path}: label {min(strange)!r}; expected digits 0 to 4")
    sentences = labels.count("2") + labels.count("4")
    if not sentences:
        raise InputError(f"{label_path}: no sentence ends (label 2)")
    return sentences


def train(
    text: str | Path, output: str | Path, settings: SentenceSplitterSettings
) -> dict[str, Any]:
    """Train on the folder ``text`` and write the stanza folder ``output``, whole or not at all."""
    text = Path(text)
    counts = {
        split: check_labels(text / f"{split}.txt", text / f"{split}.toklabels")
        for split in ("train", "dev")
    }
    started = time.monotonic()
    with atomic_folder(output, "sentence splitter") as folder:
        model = folder / "en" / "tokenize" / f"{PACKAGE}.pt"
        model.parent.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as scratch:
            # Without a table of multi-word tokens stanza's training ends in an AttributeError.
            words = Path(scratch) / "mwt.json"
            words.write_text("[]", encoding="utf-8")
            options = {
                "lang": "en",
                "shorthand": f"en_{PACKAGE}",
                "txt_file": text / "train.txt",
                "label_file": text / "train.toklabels",
                "dev_txt_file": text / "dev.txt",
                "dev_label_file": text / "dev.toklabels",
                "mwt_json_file": words,
                "steps": settings.steps,
                "eval_steps": max(1, settings.steps // 2),
                "batch_size": settings.batch_size,
                "hidden_dim": settings.hidden_size,
                "emb_dim": settings.embedding_size,
                "seed": settings.seed,
            }
            train_model("tokenizer", model, text, options)
        english = {
            "lang_name": "English",
            "tokenize": {PACKAGE: {"md5": ""}},
            "packages": {PACKAGE: {"tokenize": PACKAGE}, "default": {"tokenize": PACKAGE}},
        }
        write_json(folder / "resources.json", {"en": english})
        summary = {
            "sentences": counts,
            "settings": settings.model_dump(mode="json"),
            "synthetic": is_synthetic(text),
        }
        write_json(folder / "splitter.json", summary)
    log.info("trained on %d sentences in %.1f s", counts["train"], time.monotonic() - started)
    return summary


def main(argv: Sequence[str] | None = None) -> None:
    """Command line; see the module's docstring."""
    options = parser(__doc__)
    options.add_path("--text", "folder of {train,dev}.{txt,toklabels}")
    options.add_path("--output", "results/stanza/<name>")
    args = options.parse_args(argv)
    train(
        args.text,
        args.output,
        read_settings(args.settings, SentenceSplitterSettings),
    )


if __name__ == "__main__":
    run(main)
