"""TEM and NEM of generated reports: which entities count, and how they are compared.

TEM (temporal entity matching) and NEM (named entity matching) are BioViL-T's (appendices D and
F.1). Public code that goes by these names computes other numbers; each definition is a named
convention here, and BioViL-T's is the default. ``text`` of a report is what the tagger reads: a
findings section, an impression or both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cxrflow.metrics.entity_match import (
    Reports,
    corpus_f1,
    ifcc_f1,
    set_counts,
    set_f1,
    vilmedic_f1,
)
from cxrflow.metrics.intervals import Floats, Statistic, weighted_mean
from cxrflow.reports.entities.taggers import Entity, KeywordTagger, Tagger
from cxrflow.reports.entities.temporal import is_temporal_entity


@dataclass(frozen=True)
class Convention:
    """``counted`` says which entities count. ``one_f1``: F1 a report, to be averaged; None is
    one precision and recall over all reports. ``keywords``: words of change count, too, wherever
    they stand. ``lower_case``: the tagger reads the text in lower case.
    """

    counted: Callable[[Entity], bool]
    one_f1: Callable[[Reports, Reports], Floats] | None
    keywords: bool = False
    lower_case: bool = False


def _temporal(entity: Entity) -> bool:
    return is_temporal_entity(entity.type, entity.text)


def _observed(entity: Entity) -> bool:
    return entity.type in ("OBSERVATION", "OBSERVATION_MODIFIER")


def _anatomy_or_observation(entity: Entity) -> bool:
    return entity.type in ("ANATOMY", "OBSERVATION")


def _single_token(entity: Entity) -> bool:
    return _anatomy_or_observation(entity) and entity.tokens == 1


#: biovil_t: appendix D.1, Eqs. 3 and 4. radeval: RadEval's F1Temporal, adopted from Libra.
TEM: Final[Mapping[str, Convention]] = {
    "biovil_t": Convention(_temporal, None),
    "radeval": Convention(_temporal, set_f1, keywords=True),
}
#: biovil_t: the types of appendix F.1, compared "similar to how TEM is computed". The same
#: sentence refers to ifcc's metric, which averages over reports: biovil_t_averaged reads it so.
#: ifcc: the exact entity match of ifcc's code. vilmedic: ViLMedic's RadEntityMatchExact.
NEM: Final[Mapping[str, Convention]] = {
    "biovil_t": Convention(_observed, None),
    "biovil_t_averaged": Convention(_observed, ifcc_f1),
    "ifcc": Convention(_anatomy_or_observation, ifcc_f1),
    "vilmedic": Convention(_single_token, vilmedic_f1, lower_case=True),
}


def _strings(texts: Sequence[str], tagger: Tagger, convention: Convention) -> list[list[str]]:
    """The entities that count, a list a report: lower case, blanks collapsed, repeats kept."""
    read = [text.lower() for text in texts] if convention.lower_case else texts
    found = [
        [" ".join(entity.text.lower().split()) for entity in entities if convention.counted(entity)]
        for entities in tagger.tag(read)
    ]
    if convention.keywords:
        for strings, words in zip(found, KeywordTagger().tag(texts), strict=True):
            strings += [word.text for word in words]
    return found


def entity_statistic(
    references: Sequence[str], hypotheses: Sequence[str], tagger: Tagger, convention: Convention
) -> Statistic:
    """TEM or NEM of N report texts as a function of resampling counts ``[R, N]``.

    It gives ``f1``, ``[R]``, and where the convention counts over all reports ``precision`` and
    ``recall`` too; :func:`cxrflow.metrics.intervals.bootstrap` makes intervals of it.

    Raises:
        ValueError: there are not as many hypotheses as references.
    """
    truth, told = (_strings(texts, tagger, convention) for texts in (references, hypotheses))
    if convention.one_f1 is None:
        counts = set_counts(truth, told)
        return lambda weights: corpus_f1(counts, weights)
    scores = convention.one_f1(truth, told)
    return lambda weights: {"f1": weighted_mean(weights, scores)}


def entity_scores(
    references: Sequence[str],
    hypotheses: Sequence[str],
    tagger: Tagger,
    *,
    tem: str = "biovil_t",
    nem: str = "biovil_t",
) -> dict[str, float]:
    """``tem/f1``, ``nem/f1`` and, where defined, their ``precision`` and ``recall``, in [0, 1].

    ``tem`` and ``nem`` are keys of :data:`TEM` and :data:`NEM`. Not defined, and NaN, are: every
    number without any report, and over all reports a number without any entity to divide by.

    Raises:
        ValueError: there are not as many hypotheses as references.
    """
    scores = {}
    for name, convention in (("tem", TEM[tem]), ("nem", NEM[nem])):
        statistic = entity_statistic(references, hypotheses, tagger, convention)
        for metric, values in statistic(np.ones((1, len(references)))).items():
            scores[f"{name}/{metric}"] = float(values[0])
    return scores
