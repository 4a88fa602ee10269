"""Reports that a model wrote beside those of the radiologists (BioViL-T section 4.2).

Words of change are marked, those that TEM counts (appendix D.2), and words in which the two differ.
Texts only go into the page where ``privacy:`` of the configuration allows it. What is shown is of
studies with a prior whose report speaks of change: of these the best, the
middle and the worst by ROUGE-L, so that failures are shown as well as successes.
"""

import re
from difflib import SequenceMatcher
from typing import Any

from cxrflow.errors import InputError
from cxrflow.page.inputs import RunFolder

COLUMNS = ("sample_id", "reference", "generated", "with_prior", "rouge_l")
EACH = 2  # best, middle and worst ones
WORD = re.compile(r"\w+|[^\w\s]")

Part = dict[str, Any]  # text, whether it is a word of change, whether the other text lacks it


def written_reports(run: RunFolder, paper: str) -> dict[str, Any] | None:
    """Reports of the model with most to write from; None where the paper shows no such model."""
    config = run.config
    results = [
        (task, model)
        for task, model in config.results_of(paper, run.papers[paper])
        if config.library.tasks[task].benchmark == "report_generation"
        and model in config.recipes
        and config.recipes[model].program == "report"
    ]
    if not results:
        return None
    task, model = max(results, key=lambda one: _sources(run, str(one[1])))
    seed = config.seeds_of(str(model))[0]
    shown: dict[str, Any] = {
        "task": task, "model": model, "seed": seed, "found": False, "hidden": False,
        "reports": [], "speaking": 0,
    }  # fmt: skip
    scores = run.scores(task, model, seed)
    if scores is None:
        return shown
    shown["found"] = True
    if not config.may_show("text", bool(scores["data"]["synthetic"])):
        return shown | {"hidden": True}
    path = run.score_folder(task, model, seed) / "predictions.parquet"
    return shown | _examples(path)


def _sources(run: RunFolder, model: str) -> int:
    decoder = run.config.model(model).settings.model_dump().get("decoder", {})
    return sum(bool(decoder.get(name)) for name in ("prior_image", "prior_report"))


def _examples(path: Any) -> dict[str, Any]:
    import pandas as pd

    from cxrflow.parquet import read_table
    from cxrflow.reports.entities.taggers import KeywordTagger

    table = read_table(path, COLUMNS)
    for column in ("reference", "generated"):
        if not table[column].map(lambda text: isinstance(text, str)).all():
            raise InputError(f"{path}: column '{column}' holds what is no text")
    tagger = KeywordTagger()
    table = table[table["with_prior"]].reset_index(drop=True)
    for side in ("reference", "generated"):
        tagged = tagger.tag(table[side].tolist())
        spans = [[(one.start, one.end) for one in words] for words in tagged]
        table[f"of_{side}"] = pd.Series(spans, dtype="object")
    speaking = table[table["of_reference"].map(len) > 0].drop_duplicates(["reference", "generated"])
    ranked = speaking.sort_values(["rouge_l", "sample_id"], ascending=[False, True])
    middle = max(0, (len(ranked) - EACH) // 2)
    last = max(0, len(ranked) - EACH)
    places: dict[int, str] = {}
    for rank, start in (("best", 0), ("worst", last), ("median", middle)):
        for place in range(start, min(start + EACH, len(ranked))):
            places.setdefault(place, rank)
    reports = []
    for place in sorted(places):
        row = ranked.iloc[place]
        true, said = marked(
            (row["reference"], row["of_reference"]), (row["generated"], row["of_generated"])
        )
        reports.append(
            {"rank": places[place], "rouge": float(row["rouge_l"]), "true": true, "said": said}
        )
    return {"reports": reports, "speaking": len(speaking)}


Marked = tuple[str, list[tuple[int, int]]]  # a text, and where its words of change stand


def marked(true: Marked, said: Marked) -> tuple[list[Part], list[Part]]:
    """Both texts in parts, in order: joined they are the texts again."""
    ours, theirs = (
        [match.group().lower() for match in WORD.finditer(text)] for text, _ in (true, said)
    )
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    common: tuple[set[int], set[int]] = (set(), set())
    for block in matcher.get_matching_blocks():
        common[0].update(range(block.a, block.a + block.size))
        common[1].update(range(block.b, block.b + block.size))
    return _parts(*true, common[0]), _parts(*said, common[1])


def _parts(text: str, changes: list[tuple[int, int]], common: set[int]) -> list[Part]:
    parts: list[Part] = []

    def add(words: str, change: bool, differs: bool) -> None:
        if parts and (parts[-1]["change"], parts[-1]["differs"]) == (change, differs):
            parts[-1]["text"] += words
        elif words:
            parts.append({"text": words, "change": change, "differs": differs})

    end = 0
    for number, match in enumerate(WORD.finditer(text)):
        add(text[end : match.start()], False, False)
        change = any(start <= match.start() < stop for start, stop in changes)
        add(match.group(), change, number not in common and match.group().isalnum())
        end = match.end()
    add(text[end:], False, False)
    return parts
