"""Open-I's human index terms as CheXpert labels: the truth that report labels are measured with.

Each report was read by people who gave it MeSH and RadLex terms, most important first
(Demner-Fushman et al. 2016), written as ``Opacity/lung/base/right``: a term and its qualifiers.
``open_i_terms.yaml`` says which term stands for which observation; docs/open_i_terms.md why.
A report of which no term is given, or whose terms say "No Indexing", has no labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import pandas as pd
import yaml

from cxrflow.data.open_i import read_reports

NO_FINDING = "No Finding"
NOT_INDEXED = "No Indexing"
CALCIFIED = frozenset(("Calcinosis", "Calcified Granuloma"))


@dataclass(frozen=True)
class Term:
    """An index term and its qualifiers (place, side, size, shape)."""

    name: str
    qualifiers: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> "Term":
        """From ``name/qualifier/…``; blanks beside the strokes do not count."""
        name, *qualifiers = (" ".join(part.split()) for part in text.split("/"))
        return cls(name, frozenset(qualifiers))


@dataclass(frozen=True)
class _Rule:
    terms: frozenset[str]
    any_of: frozenset[str]
    none_of: frozenset[str]
    not_calcified: bool

    def holds(self, term: Term, report: Sequence[Term]) -> bool:
        """Whether the rule speaks of ``term`` among the terms of its report."""
        if term.name not in self.terms or self.none_of & term.qualifiers:
            return False
        if self.any_of and not self.any_of & term.qualifiers:
            return False
        return not (self.not_calcified and any(_at_one_place(term, other) for other in report))


def _at_one_place(term: Term, other: Term) -> bool:
    """A calcification with the same qualifiers, or with all of the other's and more."""
    if other.name not in CALCIFIED:
        return False
    a, b = term.qualifiers, other.qualifiers
    return a <= b or b <= a


def _rule(given: Mapping[str, object]) -> _Rule:
    def words(key: str) -> frozenset[str]:
        value = given.get(key, ())
        assert isinstance(value, list | tuple)
        return frozenset(map(str, value))

    return _Rule(
        words("terms"), words("with"), words("without"), bool(given.get("not_calcified", False))
    )


@cache
def _mapping() -> tuple[dict[str, tuple[_Rule, ...]], tuple[_Rule, ...]]:
    text = (resources.files("cxrflow.data") / "open_i_terms.yaml").read_text("utf-8")
    given = yaml.safe_load(text)
    observations = {
        name: tuple(_rule(entry) for entry in entries)
        for name, entries in given["observations"].items()
    }
    return observations, tuple(_rule(entry) for entry in given["not_findings"])


def observations_of(terms: Sequence[str]) -> frozenset[str]:
    """The CheXpert observations that a report's index terms state, No Finding included."""
    report = [Term.parse(text) for text in terms]
    observations, not_findings = _mapping()
    found = {
        name
        for name, rules in observations.items()
        if any(rule.holds(term, report) for rule in rules for term in report)
    }
    if all(any(rule.holds(term, report) for rule in not_findings) for term in report):
        found.add(NO_FINDING)
    return frozenset(found)


def read_term_labels(root: Path) -> pd.DataFrame:
    """One row a report that has index terms: ``study_id`` and the observations, 1.0 or 0.0.

    0.0 is "not stated": the terms do not tell absent from not looked for.

    Raises:
        InputError: ``root`` holds no Open-I reports.
    """
    names = [NO_FINDING, *_mapping()[0]]
    rows = []
    for report in read_reports(root)[0]:
        if report.terms and NOT_INDEXED not in report.terms:
            stated = observations_of(report.terms)
            rows.append((report.study_id, *(float(name in stated) for name in names)))
    return pd.DataFrame(rows, columns=["study_id", *names])
