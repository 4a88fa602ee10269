"""Train a text encoder to say how two sentences relate: entailment, neutral or contradiction.

The RadNLI baseline (Miura et al. 2021) and BioViL's protocol (section 4.2) fine-tune BERT on MedNLI
in this way. Here the classifier is kept: in the model folder the projection of [CLS] gives a logit
for each relation. Other programs and methods can read it.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cxr_files.program import run
from cxrflow.pretrain.arguments import Prepared, run_training
from cxrflow.pretrain.settings import SentencePairSettings

if TYPE_CHECKING:
    from cxrflow.pretrain.inputs import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_sentence_pairs``."""
    run_training("sentence_pairs", __doc__, argv, prepare)


def prepare(options: Namespace, settings: SentencePairSettings, run: "Run") -> Prepared:
    """Read the inputs and make the program; ``--pairs`` is the samples.parquet of the cohort."""
    from cxrflow.encoders.cxr_bert import require_embeddings, require_positions
    from cxrflow.pretrain.inputs import model_fingerprint
    from cxrflow.pretrain.labelled_sentences import LabelledSentences, SentencePairsProgram
    from cxrflow.pretrain.starts import start_classifier
    from cxrflow.text.sentence_pairs import PairTokens
    from cxrflow.text.tokenizer import VocabularyInfo, read_tokenizer

    table = LabelledSentences(options.pairs)
    text = start_classifier(options.start, settings.dropout, len(table.classes))
    require_positions(text, settings.length)
    tokenizer = read_tokenizer(options.start)
    require_embeddings(text, tokenizer.get_vocab_size(), options.start)
    rows = {name: table.rows(name) for name in ("train", "validate")}
    tokens = {
        name: PairTokens(
            split["premise"].tolist(), split["hypothesis"].tolist(), tokenizer, settings.length
        )
        for name, split in rows.items()
    }
    samples = {name: table.labelled(split) for name, split in rows.items()}
    program = SentencePairsProgram(settings, run, samples, tokens, text, options.start)
    data = {
        **table.describe(),
        "vocabulary": VocabularyInfo.from_tokenizer(tokenizer).fingerprint,
        "start": model_fingerprint(options.start),
        "classes": list(table.classes),
        "cut_pairs": tokens["train"].truncated,
        "train_samples": len(samples["train"]),
        "validation_samples": len(samples["validate"]),
    }
    return Prepared(program, data, ("a smaller training.batch_size", "a smaller length"))


if __name__ == "__main__":
    run(main)
