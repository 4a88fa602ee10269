"""Invented abstracts of the PubMed copy: general biomedicine, a broad vocabulary, no radiology.

Abstract ``number`` depends on the seed and its number alone. Some are structured, some have inline
markup, some are not in English, some have no abstract.
"""

from dataclasses import dataclass

import numpy as np

from cxr_hospital.grammar import expand, pick, tidy
from cxr_hospital.wording import biomedicine as words

_STREAM = 71
JOURNALS = (
    *("Annals of Invented Medicine", "Journal of Imaginary Cell Biology", "Fictional Epidemiology"),
    *("Acta Exemplaria", "Proceedings of Nowhere Surgery"),
)
_TITLES = (
    "$adjective $condition and $noun in $population: a $design.",
    "{Effect|Effects|Impact|Role} of $drug on $outcome in $population.",
    "$gene regulates $pathway in $cells through $gene_b.",
    "{Prevalence|Incidence} and determinants of $condition in $country.",
    "$procedure versus $procedure_b for $condition: a $design.",
    "$organism isolates resistant to $drug in $country.",
)
_BACKGROUND = (
    "$condition is a {common|leading|frequent|neglected|poorly understood} cause of $noun among "
    "$population.",
    "The {role|function|contribution} of $gene in $condition {remains unclear|is controversial|has "
    "not been established|is incompletely understood}.",
    "$adjective $condition is associated with {poor|increased|reduced} $outcome.",
    "Little is known about the $noun of $adjective $condition in $country.",
    "$drug is {widely|increasingly|commonly} {used|prescribed} to treat $condition.",
    "Infection with $organism {remains|is} a major public health problem in $country.",
    "$pathway is a hallmark of $condition, and $gene is {highly|differentially|aberrantly} "
    "expressed in $cells.",
)
_OBJECTIVE = (
    "We {aimed to determine|investigated|examined|sought to assess} whether $drug {improves|"
    "reduces|affects} $outcome in $population.",
    "The aim of this study was to evaluate the $noun of $procedure in patients with $condition.",
    "We hypothesized that $gene mediates $pathway in $cells.",
    "To {compare|assess|characterize} $noun and $noun_b after $procedure.",
)
_METHODS = (
    "In this $design, $n $population in $country were {enrolled|recruited|included|randomized} "
    "between $year and $year_b.",
    "$cells were {isolated|cultured|harvested} from $animals and treated with $drug at $dose for "
    "$hours hours.",
    "$outcome was {assessed|measured|analyzed|quantified} {using|by} $technique and $technique_b.",
    "Participants were randomly assigned to receive $drug ($dose daily) or placebo for $weeks "
    "weeks.",
    "Data were {extracted|collected|obtained} from electronic health records and {analyzed with|"
    "evaluated by} $technique.",
    "We searched {MEDLINE, Embase and the Cochrane Library|three electronic databases} for studies "
    "of $procedure published before $year.",
    "Knockdown of $gene was {performed|achieved} with small interfering RNA, and $pathway was "
    "{measured|monitored} by $technique.",
)
_RESULTS = (
    "$outcome was {significantly|markedly|slightly} {higher|lower} in the $drug group ($share% vs "
    "$share_b%; P = $p).",
    "The {hazard|odds|risk} ratio for $condition was $ratio (95% CI $low-$high).",
    "$gene expression was {upregulated|downregulated|suppressed|enhanced} in $cells from $animals "
    "with $condition ($p_text).",
    "$drug {inhibited|promoted|attenuated|restored} $pathway {in a dose-dependent manner|via "
    "$gene_b|by $share%}.",
    "Of $n patients, $share% developed $adjective $condition within $weeks weeks.",
    "There were no significant differences in $outcome or $outcome_b between groups ($p_text).",
    "Mean age was $age years, and $share% were {women|men}.",
    "A total of $n isolates of $organism were susceptible to $drug (minimum inhibitory "
    "concentration $dose).",
    "Multivariable analysis identified $adjective $condition, $noun and $outcome as independent "
    "predictors.",
)
_CONCLUSIONS = (
    "$drug {may be|is} {a safe and effective|a promising|an alternative} treatment for $condition.",
    "Our {findings|results|data} suggest that $gene {contributes to|protects against|drives} "
    "$condition {via|through} $pathway.",
    "Further {research is|trials are|studies are} needed to {confirm|clarify|explore} the $noun of "
    "$procedure.",
    "These {findings|results} {support|underscore|highlight} the importance of $noun in "
    "$population.",
    "$procedure {improved|did not improve} $outcome in patients with $condition.",
)
_SECTIONS = {
    "BACKGROUND": _BACKGROUND,
    "OBJECTIVE": _OBJECTIVE,
    "METHODS": _METHODS,
    "RESULTS": _RESULTS,
    "CONCLUSIONS": _CONCLUSIONS,
}


@dataclass(frozen=True)
class Abstract:
    """One record. ``sections``: (label, text); one with an empty label when unstructured, none
    when there is no abstract. ``language``: three letters. ``markup``: write H2O and gene names
    with inline elements."""

    title: str
    sections: tuple[tuple[str, str], ...]
    language: str
    journal: str
    year: int
    markup: bool


def _term(rng: np.random.Generator, ends: list[str] | tuple[str, ...]) -> str:
    root, end = pick(words.ROOTS, rng), pick(ends, rng)
    return root[:-1] + end if end[0] in "aeio" else root + end


def _gene(rng: np.random.Generator) -> str:
    letters = "ABCDEFGHIKLMNPRSTVXYZ"
    stem = "".join(
        letters[int(i)] for i in rng.integers(len(letters), size=int(rng.integers(2, 5)))
    )
    return stem + str(int(rng.integers(1, 30)))


def condition(rng: np.random.Generator) -> str:
    """The name of a disease, built from its parts."""
    return _term(rng, words.CONDITIONS)


def drug(rng: np.random.Generator) -> str:
    """The name of a drug, built from a start and the ending of its class."""
    return pick(words.DRUG_STARTS, rng) + pick(words.DRUG_ENDS, rng)


def procedure(rng: np.random.Generator) -> str:
    """The name of an operation or examination, built from its parts."""
    return _term(rng, words.PROCEDURES)


def _topic(rng: np.random.Generator) -> dict[str, str]:
    """Draw the topic of an abstract: slots that stay the same from title to conclusions."""
    low = float(rng.uniform(0.5, 2.0))
    ratio = low + float(rng.uniform(0.1, 0.9))
    p = float(rng.uniform(0.001, 0.3))
    year = int(rng.integers(1995, 2022))
    return {
        "condition": condition(rng),
        "drug": drug(rng),
        "procedure": procedure(rng),
        "procedure_b": procedure(rng),
        "gene": _gene(rng),
        "gene_b": _gene(rng),
        "organism": f"{pick(words.GENERA, rng)} {pick(words.SPECIES, rng)}",
        "pathway": pick(words.PATHWAYS, rng),
        "cells": pick(words.CELLS, rng),
        "animals": pick(words.SPECIES_STUDIED, rng),
        "population": pick(words.POPULATIONS, rng),
        "design": pick(words.DESIGNS, rng),
        "outcome": pick(words.OUTCOMES, rng),
        "outcome_b": pick(words.OUTCOMES, rng),
        "technique": pick(words.TECHNIQUES, rng),
        "technique_b": pick(words.TECHNIQUES, rng),
        "country": pick(words.COUNTRIES, rng),
        "adjective": pick(words.ADJECTIVES, rng),
        "noun": pick(words.NOUNS, rng),
        "noun_b": pick(words.NOUNS, rng),
        "n": str(int(rng.integers(12, 4000))),
        "share": f"{rng.uniform(1, 60):.1f}",
        "share_b": f"{rng.uniform(1, 60):.1f}",
        "dose": f"{int(rng.integers(1, 400))} {pick(('mg', 'mcg/mL', 'mg/kg', 'mM', 'IU'), rng)}",
        "weeks": str(int(rng.integers(2, 104))),
        "hours": pick(("6", "12", "24", "48", "72"), rng),
        "age": f"{rng.uniform(2, 80):.1f}",
        "year": str(year),
        "year_b": str(year + int(rng.integers(1, 8))),
        "ratio": f"{ratio:.2f}",
        "low": f"{low:.2f}",
        "high": f"{ratio + rng.uniform(0.1, 1.2):.2f}",
        "p": f"{p:.3f}",
        "p_text": f"P = {p:.3f}" if p > 0.01 else "P < 0.01",
    }


def _passage(label: str, topic: dict[str, str], rng: np.random.Generator) -> str:
    templates = _SECTIONS[label]
    count = min(len(templates), 1 + int(rng.integers(3)) if label != "OBJECTIVE" else 1)
    chosen = rng.choice(len(templates), count, replace=False)
    # Half of the sentences turn to something beside the topic, which widens the vocabulary.
    return " ".join(
        sentence(templates[int(i)], rng, topic if rng.random() < 0.5 else topic | _aside(rng))
        for i in chosen
    )


def _aside(rng: np.random.Generator) -> dict[str, str]:
    topic = _topic(rng)
    return {name: topic[name] for name in ("condition", "gene_b", "noun", "outcome", "adjective")}


def sentence(template: str, rng: np.random.Generator, slots: dict[str, str]) -> str:
    """Expand one template and begin it with a capital."""
    text = tidy(expand(template, rng, slots))
    return text[0].upper() + text[1:]


def abstract(seed: int, number: int, version: int = 1) -> Abstract:
    """Record ``number`` (from 0); another ``version`` is a revision with other text."""
    rng = np.random.default_rng([seed, number, version, _STREAM])
    topic = _topic(rng)
    foreign = rng.random() < 0.03
    missing = rng.random() < 0.12
    structured = rng.random() < 0.4
    title = sentence(pick(_TITLES, rng), rng, topic)
    passages = tuple((label, _passage(label, topic, rng)) for label in _SECTIONS)
    if missing:
        passages = ()
    elif not structured:
        passages = (("", " ".join(text for _, text in passages)),)
    return Abstract(
        title=f"[{title}]" if foreign else title,
        sections=passages,
        language=pick(("fre", "ger", "spa", "chi"), rng) if foreign else "eng",
        journal=pick(JOURNALS, rng),
        year=int(topic["year_b"]),
        markup=rng.random() < 0.1,
    )
