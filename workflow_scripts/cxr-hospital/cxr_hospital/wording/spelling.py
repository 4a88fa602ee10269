"""Typing and dictation errors of real reports."""

import re

import numpy as np

#: Word -> misspellings that occur. Keys are lower case.
MISSPELLINGS: dict[str, tuple[str, ...]] = {
    "acute": ("actue", "acut"),
    "apical": ("apcial", "apicla"),
    "atelectasis": ("atelectases", "atelctasis", "atelectesis", "atelecatsis"),
    "basilar": ("baslar", "bascilar"),
    "bilateral": ("bilaterl", "bilatearl", "bilaterial"),
    "cardiac": ("caridac", "cardaic"),
    "cardiomediastinal": ("cardiomediastnal", "cardiomedistinal"),
    "cardiomegaly": ("cardiomeglay", "cardiomegally", "cardimegaly"),
    "cardiopulmonary": ("cardiopulmonay", "cardiopulmoanry"),
    "catheter": ("cathter", "catheterr"),
    "concerning": ("conerning", "concering"),
    "consistent": ("consistant", "consitent"),
    "consolidation": ("consoldiation", "consolidaton", "conslidation"),
    "decreased": ("decresed", "decreasd"),
    "dobbhoff": ("dobhoff", "doboff", "dophoff"),
    "edema": ("edmea", "edma"),
    "effusion": ("effuson", "efusion", "effussion", "effusiion"),
    "effusions": ("effsuions", "effusons"),
    "evidence": ("evidnece", "evidenc"),
    "fracture": ("fractue", "fracure"),
    "identified": ("identifed", "indentified"),
    "interval": ("interva", "inteval", "interrval"),
    "lobe": ("loobe", "lob"),
    "mediastinal": ("medistinal", "mediastial"),
    "moderate": ("moderat", "modertae"),
    "opacities": ("opacites", "opacitities"),
    "opacity": ("opactiy", "opacitiy", "opcity"),
    "persistent": ("persistant", "persisent"),
    "pleural": ("plueral", "pleual", "plural", "pleura"),
    "pneumonia": ("penumonia", "pnuemonia", "pneumona", "pneumomia"),
    "pneumothorax": ("pneumothroax", "pneumothoax", "pnuemothorax", "pnemothorax"),
    "pulmonary": ("pulmnary", "pulmoanry", "pulmonay"),
    "radiograph": ("radiogrpah", "radigraph"),
    "right": ("rigth", "righ"),
    "silhouette": ("silhoutte", "silouette", "sihouette"),
    "small": ("smal", "samll"),
    "there": ("thre", "ther"),
    "unchanged": ("unchaged", "unchnaged"),
    "unremarkable": ("unremarkble", "unremarakble"),
}
_WORD = re.compile(r"[A-Za-z]+")


def misspell(text: str, rng: np.random.Generator) -> str:
    """Misspell one word of ``text``, if a word of it can be; its first letter keeps its case."""
    candidates = [match for match in _WORD.finditer(text) if match.group().lower() in MISSPELLINGS]
    if not candidates:
        return text
    match = candidates[int(rng.integers(len(candidates)))]
    options = MISSPELLINGS[match.group().lower()]
    wrong = options[int(rng.integers(len(options)))]
    if match.group()[0].isupper():
        wrong = wrong[0].upper() + wrong[1:]
    return text[: match.start()] + wrong + text[match.end() :]
