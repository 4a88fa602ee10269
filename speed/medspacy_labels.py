"""A medspaCy pipeline that finds mentions and what is said of them; run by another Python.

medspaCy pins libraries that the project does not (numpy 1.26), so it has an environment of its own
and talks through pipes: first the name of a JSON file with phrases and reports, then a line a
turn; for each it labels all reports and prints the mentions as JSON. Only medspaCy is imported.
"""

import json
import re
import sys
from typing import Any

import medspacy
from medspacy.ner import TargetRule


def token_pattern(phrase: str) -> list[dict[str, Any]]:
    """spaCy's token pattern of a phrase of ``rules/scope/mentions.yaml``."""
    pattern: list[dict[str, Any]] = []
    for part in phrase.split():
        if re.fullmatch(r"\.\.\d", part):
            pattern += [{"OP": "?"}] * int(part[2:])
            continue
        words = part.removeprefix("?").split("|")
        if any(word.endswith("*") for word in words):
            options = "|".join(re.escape(w[:-1]) if w[-1] == "*" else f"{w}$" for w in words)
            token: dict[str, Any] = {"LOWER": {"REGEX": f"^(?:{options})"}}
        else:
            token = {"LOWER": {"IN": words}}
        pattern.append({**token, "OP": "?"} if part.startswith("?") else token)
    return pattern


def pipeline(phrases: list[tuple[str, str]]) -> Any:
    """Sentence splitter, target matcher with ``phrases`` (observation, phrase), ConText."""
    enabled = ["medspacy_pyrush", "medspacy_target_matcher", "medspacy_context"]
    nlp = medspacy.load(enable=enabled)
    rules = [TargetRule(phrase, name, pattern=token_pattern(phrase)) for name, phrase in phrases]
    nlp.get_pipe("medspacy_target_matcher").add(rules)
    return nlp


def label(nlp: Any, reports: list[str]) -> list[list[tuple[str, bool, bool]]]:
    """Of each report's mentions: observation, negated, uncertain."""
    return [
        [(e.label_, e._.is_negated, e._.is_uncertain) for e in document.ents]
        for document in nlp.pipe(reports)
    ]


def main() -> None:
    """Serve turns until the input ends."""
    with open(sys.stdin.readline().strip(), encoding="utf-8") as handle:
        given = json.load(handle)
    nlp = pipeline(given["phrases"])
    for _ in sys.stdin:
        print(json.dumps(label(nlp, given["reports"])), flush=True)


if __name__ == "__main__":
    main()
