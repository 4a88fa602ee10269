"""Open-I's human index terms as CheXpert labels: the truth that report labels are measured with.

Each report was read by people who gave it MeSH and RadLex terms, most important first
(Demner-Fushman et al. 2016), written as ``Opacity/lung/base/right``: a term and its qualifiers.
``open_i_terms.yaml`` says which term stands for which observation; docs/open_i_terms.md why.
A report of which no term is given, or whose terms say "No Indexing", has no labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd
from pydantic import Field

from cxr_files.settings import Settings
from cxr_files.yaml_file import read_yaml

NO_FINDING = "No Finding"
NOT_INDEXED = "No Indexing"
CALCIFIED = frozenset(("Calcinosis", "Calcified Granuloma"))


@dataclass(frozen=True)
class IndexTerm:
    """An index term and its qualifiers (place, side, size, shape)."""

    name: str
    qualifiers: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> "IndexTerm":
        """Parse ``name/qualifier/…``, ignoring blanks beside the strokes."""
        name, *qualifiers = (" ".join(words.split()) for words in text.split("/"))
        return cls(name, frozenset(qualifiers))


class _Rule(Settings):
    terms: frozenset[str]
    any_of: frozenset[str] = Field(frozenset(), alias="with")
    none_of: frozenset[str] = Field(frozenset(), alias="without")
    not_calcified: bool = False

    def holds(self, term: IndexTerm, report: Sequence[IndexTerm]) -> bool:
        """True if the rule applies to ``term`` among the terms of its report."""
        if term.name not in self.terms or self.none_of & term.qualifiers:
            return False
        if self.any_of and not self.any_of & term.qualifiers:
            return False
        return not (
            self.not_calcified
            and any(_at_one_place(term, calcification) for calcification in report)
        )


def _at_one_place(term: IndexTerm, calcification: IndexTerm) -> bool:
    """True if one of two findings, a calcification, has all qualifiers of the other."""
    if calcification.name not in CALCIFIED:
        return False
    a, b = term.qualifiers, calcification.qualifiers
    return a <= b or b <= a


class _Mapping(Settings):
    observations: dict[str, tuple[_Rule, ...]]
    not_findings: tuple[_Rule, ...]


@cache
def _mapping() -> _Mapping:
    return _Mapping.model_validate(read_yaml(Path(__file__).with_suffix(".yaml")))


def observations_of(terms: Sequence[str]) -> frozenset[str]:
    """Return the CheXpert observations of a report's index terms, No Finding included."""
    report = [IndexTerm.parse(text) for text in terms]
    mapping = _mapping()
    observations = {
        name
        for name, rules in mapping.observations.items()
        if any(rule.holds(term, report) for rule in rules for term in report)
    }
    if all(any(rule.holds(term, report) for rule in mapping.not_findings) for term in report):
        observations.add(NO_FINDING)
    return frozenset(observations)


def term_labels(terms_by_report: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return the observations, 1.0 or 0.0, of each report with index terms, by ``study_id``.

    0.0 is "not stated": the terms do not tell absent from not looked for.
    """
    names = [NO_FINDING, *_mapping().observations]
    rows = []
    for study_id, terms in terms_by_report.items():
        if terms and NOT_INDEXED not in terms:
            stated = observations_of(terms)
            rows.append((study_id, *(float(name in stated) for name in names)))
    return pd.DataFrame(rows, columns=["study_id", *names])
