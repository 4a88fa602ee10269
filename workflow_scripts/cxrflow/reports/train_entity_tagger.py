"""Train a small stanza entity tagger and lay it out like a downloaded stanza package.

``--text`` holds ``{train,dev,test}.bioes`` (see ``cxrflow.reports.entities.tagged_text``),
``--tokenizer`` a stanza folder whose tokenizer is reused. ``--output`` becomes a stanza folder
(``resources.json``, ``en/{tokenize,pretrain}/mimic.pt``, ``en/ner/radiology.pt``) that loads as the
published radiology models do, with ``tagger.json``, its scores on the plain text of the test
split. Word vectors are random at the start. Nothing is downloaded.
"""

import json
import logging
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cxr_files.atomic import atomic_folder, is_synthetic, write_json
from cxr_files.errors import InputError
from cxr_files.program import parser, run
from cxr_files.settings import read_settings
from cxr_labels.stanza_models import train_model
from cxrflow.reports.entities.tagged_text import TaggedSentence, read_tagged, span_scores
from cxrflow.reports.entities.taggers import StanzaTagger
from cxrflow.reports.entities.temporal import COUNTED
from cxrflow.reports.settings import EntityTaggerSettings

log = logging.getLogger(__name__)

# Names of the published models in their folder.
PACKAGE, VECTORS = "radiology", "mimic"
RESOURCES = {
    "en": {
        "lang_name": "English",
        "tokenize": {VECTORS: {"md5": ""}},
        "pretrain": {VECTORS: {"md5": ""}},
        "ner": {PACKAGE: {"md5": "", "dependencies": [{"model": "pretrain", "package": VECTORS}]}},
        "packages": {
            VECTORS: {"tokenize": VECTORS},
            "default": {"tokenize": VECTORS},
        },
    }
}


def train(
    text: str | Path, tokenizer: str | Path, output: str | Path, settings: EntityTaggerSettings
) -> dict[str, Any]:
    """Train on the folder ``text`` and write the stanza folder ``output``, whole or not at all.

    Gives the content of ``tagger.json``.
    """
    text = Path(text)
    splits = {name: read_tagged(text / f"{name}.bioes") for name in ("train", "dev", "test")}
    types = {span[0] for sentence in splits["train"] for span in sentence.spans()}
    missing = [name for name in COUNTED if name not in types]
    if missing:
        raise InputError(f"{text / 'train.bioes'}: no entity of the type {', '.join(missing)}")
    model = Path(tokenizer) / "en" / "tokenize" / f"{VECTORS}.pt"
    if not model.is_file():
        raise InputError(f"{model}: not found; expected a stanza model folder")
    started = time.monotonic()
    with atomic_folder(output, "entity tagger") as folder:
        for kind in ("tokenize", "pretrain", "ner"):
            (folder / "en" / kind).mkdir(parents=True)
        shutil.copyfile(model, folder / "en" / "tokenize" / model.name)
        _write_vectors(folder / "en" / "pretrain" / f"{VECTORS}.pt", splits["train"], settings)
        with tempfile.TemporaryDirectory() as scratch:
            for name in ("train", "dev"):
                _write_stanza(Path(scratch, f"{name}.json"), splits[name])
            options = {
                "shorthand": f"en_{PACKAGE}",
                "train_file": Path(scratch, "train.json"),
                "eval_file": Path(scratch, "dev.json"),
                "wordvec_pretrain_file": folder / "en" / "pretrain" / f"{VECTORS}.pt",
                "hidden_dim": settings.hidden_size,
                "char_hidden_dim": settings.character_size,
                "char_emb_dim": settings.character_size,
                "optim": "adam",
                "lr": settings.learning_rate,
                "dropout": settings.dropout,
                "batch_size": settings.batch_size,
                "max_steps": settings.steps,
                "eval_interval": max(1, settings.steps // 3),
                "seed": settings.seed,
            }
            train_model("ner_tagger", folder / "en" / "ner" / f"{PACKAGE}.pt", text, options)
        write_json(folder / "resources.json", RESOURCES)
        test = _score(folder, splits["test"])
        summary = {
            "sentences": {name: len(sentences) for name, sentences in splits.items()},
            "settings": settings.model_dump(mode="json"),
            "synthetic": is_synthetic(text),
            "test": test,
        }
        write_json(folder / "tagger.json", summary)
    seconds = time.monotonic() - started
    log.info("F1 %.3f on the test part, trained in %.1f s", test["all"]["f1"] or 0, seconds)
    return summary


def _write_vectors(
    path: Path, sentences: Sequence[TaggedSentence], settings: EntityTaggerSettings
) -> None:
    """Random vectors of the text's words, in the form stanza keeps them; training moves them."""
    words = sorted({token.lower() for sentence in sentences for token in sentence.tokens})
    rng = np.random.default_rng(settings.seed)
    values = rng.normal(scale=0.1, size=(len(words), settings.word_size))
    from stanza.models.common.pretrain import Pretrain

    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch, "vectors.txt")
        with open(plain, "w", encoding="utf-8") as file:
            file.write(f"{len(words)} {settings.word_size}\n")
            for word, row in zip(words, values, strict=True):
                file.write(" ".join([word, *(f"{value:.5f}" for value in row)]) + "\n")
        Pretrain(str(path), str(plain)).load()


def _write_stanza(path: Path, sentences: Sequence[TaggedSentence]) -> None:
    rows = [
        [
            {"text": token, "ner": tag}
            for token, tag in zip(sentence.tokens, sentence.tags, strict=True)
        ]
        for sentence in sentences
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")


def _score(folder: Path, sentences: Sequence[TaggedSentence]) -> dict[str, Any]:
    """Score exact spans in plain text, with the pipeline as users load it."""
    tagger = StanzaTagger(folder, PACKAGE, VECTORS)
    predicted = [
        [(entity.type, entity.start, entity.end) for entity in entities]
        for entities in tagger.tag([sentence.text for sentence in sentences])
    ]
    return span_scores([sentence.spans() for sentence in sentences], predicted)


def main(argv: Sequence[str] | None = None) -> None:
    """Command line; see the module's docstring."""
    options = parser(__doc__)
    options.add_path("--text", "folder of {train,dev,test}.bioes")
    options.add_path("--tokenizer", "stanza folder with en/tokenize")
    options.add_path("--output", "results/stanza/<name>")
    args = options.parse_args(argv)
    settings = read_settings(args.settings, EntityTaggerSettings)
    train(args.text, args.tokenizer, args.output, settings)


if __name__ == "__main__":
    run(main)
