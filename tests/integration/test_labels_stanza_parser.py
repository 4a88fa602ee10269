"""The dependency engine on a real stanza pipeline, trained in seconds on hand-written trees."""

import json
from pathlib import Path

import pytest
from stanza.models import lemmatizer, parser, tagger, tokenizer

from cxrflow.errors import InputError
from cxrflow.reports.labels.dependency.conllu import Parse, read_conllu
from cxrflow.reports.labels.dependency.labeller import DependencyLabeller
from cxrflow.reports.labels.dependency.parsers import PROCESSORS, ConlluParses, StanzaParser

SENTENCES = Path(__file__).parents[1] / "unit" / "parses" / "sentences.conllu"
STEPS = 80
SIZES = {
    "hidden_dim": 64,
    "char_hidden_dim": 32,
    "char_emb_dim": 16,
    "deep_biaff_hidden_dim": 48,
    "word_emb_dim": 32,
    "tag_emb_dim": 16,
    "transformed_dim": 32,
    "num_layers": 1,
    "dropout": 0.1,
    "word_dropout": 0.05,
    "word_cutoff": 1,
    "batch_size": 400,
    "max_steps": STEPS,
    "eval_interval": STEPS,
}


def options(**values: object) -> list[str]:
    return [part for name, value in values.items() for part in (f"--{name}", str(value))]


def one_word_a_token() -> list[tuple[Parse, str]]:
    """The sentences without multi-word tokens, and their rows."""
    blocks = SENTENCES.read_text("utf-8").strip().split("\n\n")
    kept = [block for block in blocks if "\n2-3\t" not in block and "\n1-2\t" not in block]
    return [(next(read_conllu("block", f"{block}\n\n")), block) for block in kept]


def character_labels(parse: Parse) -> str:
    """Stanza's digits: 0 inside, 1 end of a token, 2 end of the sentence."""
    labels, at = ["0"] * len(parse.text), 0
    for token in parse.tokens:
        at = parse.text.index(token.form, at) + len(token.form)
        labels[at - 1] = "1"
    return "".join(labels[:-1]) + "2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stanza folder with toy models of all four processors."""
    root = tmp_path_factory.mktemp("stanza")
    sentences = one_word_a_token()
    trees, text, labels, words = (root / name for name in ("c.conllu", "txt", "labels", "mwt"))
    trees.write_text("".join(f"{block}\n\n" for _, block in sentences), encoding="utf-8")
    text.write_text("".join(f"{parse.text}\n\n" for parse, _ in sentences), encoding="utf-8")
    labels.write_text("".join(f"{character_labels(p)}\n\n" for p, _ in sentences))
    words.write_text("[]")
    both = {"train_file": trees, "eval_file": trees, "shorthand": "en_toy", "save_name": "mimic.pt"}

    def place(name: str) -> dict[str, object]:
        return {**both, "save_dir": root / "en" / name}

    tokenizer.main(
        ["--cpu"]
        + options(
            lang="en",
            shorthand="en_toy",
            txt_file=text,
            label_file=labels,
            dev_txt_file=text,
            dev_label_file=labels,
            mwt_json_file=words,
            steps=3 * STEPS,
            eval_steps=STEPS,
            batch_size=8,
            hidden_dim=32,
            emb_dim=16,
            save_dir=root / "en" / "tokenize",
            save_name="mimic.pt",
        )
    )
    network = ["--cpu", "--no_pretrain", *options(lang="en", **SIZES)]
    tagger.main(network + options(composite_deep_biaff_hidden_dim=16, **place("pos")))
    lemmatizer.main(["--cpu", "--dict_only", *options(**place("lemma"))])
    parser.main(network + options(**place("depparse")))
    resources = {name: {"mimic": {"md5": ""}} for name in PROCESSORS}
    packages = {"mimic": dict.fromkeys(PROCESSORS, "mimic")}
    (root / "resources.json").write_text(
        json.dumps({"en": {"lang_name": "English", **resources, "packages": packages}})
    )
    return root


@pytest.mark.slow
def test_pipeline_gives_the_labels_of_the_trees_it_was_trained_on(folder: Path) -> None:
    texts = [parse.text for parse, _ in one_word_a_token()]
    by_hand = DependencyLabeller(ConlluParses(SENTENCES))
    by_stanza = DependencyLabeller(StanzaParser(folder))
    # With blanks at the ends; the places lead back to the sentence as given.
    given = [f" {text} " for text in texts]
    (report,) = by_stanza.label([given])
    assert report.unread == 0
    expected, found = by_hand.explain(given), by_stanza.explain(given)
    same = set(expected) & set(found)
    assert len(expected) > 50
    assert len(same) >= 0.8 * len(expected)
    assert all(given[r.sentence][r.start : r.end] == r.phrase for r in found)


@pytest.mark.slow
def test_package_without_a_parser_is_named(folder: Path, tmp_path: Path) -> None:
    resources = json.loads((folder / "resources.json").read_text())
    del resources["en"]["packages"]["mimic"]["depparse"]
    resources["en"]["depparse"] = {}
    (tmp_path / "resources.json").write_text(json.dumps(resources))
    (tmp_path / "en").symlink_to(folder / "en")
    with pytest.raises(InputError, match="package 'mimic' lacks depparse"):
        StanzaParser(tmp_path)
