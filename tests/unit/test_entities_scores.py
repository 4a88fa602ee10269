"""TEM and NEM of report texts: which entities each convention counts, worked by hand."""

import re

import numpy as np
import pytest

from cxrflow.benchmarks.generation.entity_scores import NEM, TEM, entity_scores, entity_statistic
from cxrflow.metrics.intervals import bootstrap
from cxrflow.reports.entities.taggers import Entity

TYPES = {
    "pleural": "ANATOMY",
    "heart": "ANATOMY",
    "left": "ANATOMY_MODIFIER",
    "effusion": "OBSERVATION",
    "PICC  line": "OBSERVATION",
    "edema": "OBSERVATION",
    "new": "OBSERVATION_MODIFIER",
    "Stable": "OBSERVATION_MODIFIER",
    "small": "OBSERVATION_MODIFIER",
    "may": "UNCERTAINTY",
}


class Dictionary:
    """A tagger that knows a few words, in this case only."""

    def tag(self, texts):
        pattern = re.compile("|".join(TYPES))
        return [
            [
                Entity(m.group(), TYPES[m.group()], m.start(), m.end(), len(m.group().split()))
                for m in pattern.finditer(text)
            ]
            for text in texts
        ]


REFERENCES = [
    "new small left pleural effusion, new edema",
    "Stable heart, worse effusion",
    "PICC  line may remain",
]
HYPOTHESES = ["new pleural effusion and pleural edema", "heart enlarged", "PICC  line"]


def scores(**convention: str) -> dict[str, float]:
    return entity_scores(REFERENCES, HYPOTHESES, Dictionary(), **convention)


def test_biovil_t() -> None:
    """TEM: {new} of {new}; {} of {stable}; {} of {}. "worse" is a word, but no entity here.

    NEM: {new, effusion, edema} of {new, small, effusion, edema}; {} of {stable, effusion};
    {picc line} of {picc line}.
    """
    assert scores() == pytest.approx(
        {
            **{"tem/precision": 1, "tem/recall": 1 / 2, "tem/f1": 2 / 3},
            **{"nem/precision": 1, "nem/recall": 4 / 7, "nem/f1": 8 / 11},
        }
    )


def test_radeval_adds_words_that_are_no_entities() -> None:
    """{new} and {new}: 1; {stable, worse} and {enlarged}: 0; nothing and nothing: 1."""
    assert scores(tem="radeval")["tem/f1"] == pytest.approx(2 / 3)
    assert "tem/recall" not in scores(tem="radeval")


def test_nem_conventions() -> None:
    # ifcc, report 1: {pleural, effusion, edema} both ways, 2: heart of 2, 3: the same.
    assert scores(nem="ifcc")["nem/f1"] == pytest.approx((1 + 2 / 3 + 1) / 3)
    # Report 1: precision 1, recall 4 of the 5 mentions (small is missing), 2: none, 3: the same.
    assert scores(nem="biovil_t_averaged")["nem/f1"] == pytest.approx((8 / 9 + 0 + 1) / 3)
    # Report 1: 4 hits of 4 told ("pleural" twice) and of 3 true: 2 (4/3) / (7/3) = 8/7, 2: heart
    # of heart and effusion, 3: two tokens and so no entity.
    assert scores(nem="vilmedic")["nem/f1"] == pytest.approx((8 / 7 + 2 / 3 + 0) / 3)


def test_vilmedic_reads_lower_case_text() -> None:
    """The tagger knows "Stable" in this case only, and "edema" in lower case only."""
    found = entity_scores(["EDEMA"], ["edema"], Dictionary(), nem="vilmedic")
    assert found["nem/f1"] == 1
    assert entity_scores(["EDEMA"], ["edema"], Dictionary(), nem="ifcc")["nem/f1"] == 0


def test_without_reports_nothing_is_defined() -> None:
    for tem, nem in ((tem, nem) for tem in TEM for nem in NEM):
        found = entity_scores([], [], Dictionary(), tem=tem, nem=nem)
        assert found and all(np.isnan(value) for value in found.values())


def test_refusals() -> None:
    with pytest.raises(ValueError, match="2 hypotheses"):
        entity_scores(["new"], ["new", "new"], Dictionary())
    with pytest.raises(KeyError, match="libra"):
        scores(tem="libra")


@pytest.mark.parametrize("convention", [*TEM.values(), *NEM.values()])
def test_statistics_take_resampling_counts(convention) -> None:
    statistic = entity_statistic(REFERENCES, HYPOTHESES, Dictionary(), convention)
    point = statistic(np.ones((1, 3)))
    sizes = dict.fromkeys(point, 3)
    for name, estimate in bootstrap(statistic, np.arange(3), sizes, replicates=50).items():
        assert estimate.value == point[name][0]
        assert estimate.low <= estimate.value <= estimate.high
    twice = statistic(np.array([[2.0, 0, 0]]))
    alone = entity_statistic(REFERENCES[:1], HYPOTHESES[:1], Dictionary(), convention)
    assert twice == {name: pytest.approx(v) for name, v in alone(np.ones((1, 1))).items()}
