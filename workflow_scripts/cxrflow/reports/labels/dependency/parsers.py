"""Where the dependency graphs come from: stanza from a local folder, or CoNLL-U files.

A parser is given cleaned sentences (``mentions.clean``) and gives for each the graph that the
patterns are written for, or None where it has no usable parse. Node places are characters of the
sentence it was given.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from cxrflow.errors import InputError
from cxrflow.reports.labels.dependency.conllu import Parse, Word, placed, read_conllu
from cxrflow.reports.labels.dependency.conversion import to_graph
from cxrflow.reports.labels.dependency.graph import BrokenParse, Graph
from cxrflow.reports.labels.dependency.mentions import clean

PROCESSORS = ("tokenize", "pos", "lemma", "depparse")


class Parser(Protocol):
    """What the labeller needs of a parser."""

    def parse(self, sentences: Sequence[str]) -> list[Graph | None]:
        """The graph of each sentence, None where there is none."""
        ...


class ConlluParses:
    """Parses that lie in a CoNLL-U file, or in the ``*.conllu`` files of a folder.

    A sentence is found by its text as cleaned for the phrases, whatever its case and blanks; of
    two parses of one sentence the first counts.

    Raises:
        InputError: nothing there, or a line that is no CoNLL-U.
    """

    def __init__(self, path: str | Path):
        path = Path(path)
        files = sorted(path.glob("*.conllu")) if path.is_dir() else [path]
        if not files or not path.exists():
            raise InputError(f"{path}: not found; expected a CoNLL-U file or a folder of *.conllu")
        self._parses: dict[str, Parse] = {}
        for file in files:
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"{file}: cannot be read ({error})") from None
            for parse in read_conllu(str(file), text):
                self._parses.setdefault(_key(parse.text), parse)
        if not self._parses:
            raise InputError(f"{path}: no sentences; expected CoNLL-U")

    def parse(self, sentences: Sequence[str]) -> list[Graph | None]:
        """The graph of each sentence; None for one that the files lack or parse badly."""
        return [self._parse(sentence) for sentence in sentences]

    def _parse(self, sentence: str) -> Graph | None:
        parse = self._parses.get(_key(sentence))
        if parse is None:
            return None
        # The files may have been made from sentences with their slashes.
        spellings = {t.form.lower(): _key(t.form) for t in parse.tokens} | {"/": "or"}
        try:
            return to_graph(placed(parse, sentence, spellings))
        except BrokenParse:
            return None


def _key(text: str) -> str:
    return clean(text).text.lower()


class StanzaParser:
    """Parses by a stanza pipeline from a local folder; never goes to the network.

    ``folder`` holds ``resources.json`` and the models of tokenize, pos, lemma and depparse under
    ``en/``, as a stanza download of the biomedical package "mimic" does. ``pipeline`` takes the
    place of the folder's: any object with stanza's ``bulk_process``.

    Raises:
        InputError: a model is missing or cannot be loaded.
    """

    def __init__(self, folder: str | Path, package: str = "mimic", pipeline: Any = None):
        import stanza

        self._stanza = stanza
        self._pipeline = pipeline if pipeline is not None else self._load(Path(folder), package)

    def _load(self, folder: Path, package: str) -> Any:
        if not (folder / "resources.json").is_file():
            raise InputError(f"{folder / 'resources.json'}: not found; expected a stanza folder")
        try:
            pipeline = self._stanza.Pipeline(
                "en",
                dir=str(folder),
                package=None,
                processors={name: package for name in PROCESSORS},
                tokenize_no_ssplit=True,
                download_method=None,
                use_gpu=False,
                verbose=False,
            )
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{folder}: stanza cannot load {package!r} ({reason})") from None
        missing = [name for name in PROCESSORS if name not in pipeline.processors]
        if missing:
            raise InputError(f"{folder}: package {package!r} lacks {', '.join(missing)}")
        return pipeline

    def parse(self, sentences: Sequence[str]) -> list[Graph | None]:
        """The graph of each sentence; None where stanza fails or splits the sentence."""
        if not sentences:
            return []
        try:
            documents = self._run(sentences)
        except Exception:
            # One sentence that stanza cannot digest must not take the others with it.
            documents = [self._run_one(sentence) for sentence in sentences]
        return [self._graph(d, s) for d, s in zip(documents, sentences, strict=True)]

    def _run(self, sentences: Sequence[str]) -> list[Any]:
        documents = [self._stanza.Document([], text=sentence) for sentence in sentences]
        return list(self._pipeline.bulk_process(documents))

    def _run_one(self, sentence: str) -> Any:
        try:
            return self._run([sentence])[0]
        except Exception:
            return None

    def _graph(self, document: Any, sentence: str) -> Graph | None:
        if document is None or len(document.sentences) != 1:
            return None
        try:
            return to_graph(_words(document.sentences[0], sentence))
        except BrokenParse:
            return None


def _words(parsed: Any, sentence: str) -> list[Word]:
    """A stanza sentence's words, at the places of their tokens."""
    words = []
    for token in parsed.tokens:
        start, end = token.start_char, token.end_char
        if start is None or end is None or sentence[start:end] != token.text:
            raise BrokenParse(f"{token.text!r} is not at its place")
        for w in token.words:
            if w.head is None or w.deprel is None:
                raise BrokenParse(f"{w.text!r} has no head")
            lemma, upos, xpos = w.lemma or w.text, w.upos or "", w.xpos or ""
            words.append(Word(w.text, lemma, upos, xpos, w.head, w.deprel, (), start, end))
    return words
