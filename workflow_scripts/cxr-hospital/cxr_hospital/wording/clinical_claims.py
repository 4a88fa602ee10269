"""Wording of claims about a patient, in discharge summaries and in a reader's hypotheses.

The topics, words and turns of phrase are those of the hospital's notes, not of its reports. What a
model learns from such pairs about absence, sides, degrees and change must transfer to radiology
(BioViL section 4.2: MedNLI trains, RadNLI tests).
"""

import re
from collections.abc import Mapping

from cxr_hospital.claims import Topics
from cxr_hospital.grammar import split_list


def _nouns(text: str) -> dict[str, str]:
    """Topic -> noun from a list of alternatives, of which the first is the topic's name."""
    options = {re.split(r"[*|]", noun)[0]: noun for noun in split_list(text)}
    return {topic: f"{{{noun}}}" if "|" in noun else noun for topic, noun in options.items()}


#: Symptoms and signs; those of the second table have a side.
SYMPTOMS = _nouns(
    "abdominal pain*2|belly pain, chest pain*3|pain in the chest, "
    "confusion*2|altered mental status, cough, diarrhea*2|loose stools, "
    "dizziness*2|lightheadedness, dysuria*2|burning on urination, fatigue*2|malaise, "
    "fever*2|fevers, headache*3|HA, hematuria*2|blood in the urine, melena*2|black stools, nausea, "
    "palpitations, rash*2|skin rash, shortness of breath*2|SOB|dyspnea, "
    "syncope*2|loss of consciousness, wheezing"
)
SIDED = _nouns(
    "arm weakness*2|upper extremity weakness, flank pain, hip pain, knee pain, "
    "leg swelling*2|lower extremity swelling, leg weakness*2|lower extremity weakness, "
    "shoulder pain"
)
#: Present and past diseases.
CONDITIONS = _nouns(
    "COPD*2|chronic obstructive pulmonary disease, anemia, asthma, atrial fibrillation*2|afib, "
    "breast cancer*2|breast carcinoma, chronic kidney disease*2|CKD|chronic renal insufficiency, "
    "cirrhosis, congestive heart failure*2|CHF, coronary artery disease*2|CAD, "
    "deep vein thrombosis|DVT, depression, diabetes|diabetes mellitus|DM, "
    "hyperlipidemia|high cholesterol, hypertension|HTN|high blood pressure, hypothyroidism, "
    "lung cancer, osteoarthritis, seizures|seizure disorder, stroke|CVA, "
    "urinary tract infection|UTI"
)
#: More general topics, which only follow from those above.
GENERAL = _nouns(
    "arrhythmia|irregular heart rhythm, blood clot, heart disease|cardiac disease, infection, "
    "kidney disease|renal disease, liver disease|hepatic disease, lung disease|pulmonary disease, "
    "malignancy|cancer, pain, weakness"
)
NOUNS: Mapping[str, str] = {**SYMPTOMS, **SIDED, **CONDITIONS, **GENERAL}
_PARENTS = {
    "arrhythmia": ("atrial fibrillation",),
    "blood clot": ("deep vein thrombosis",),
    "heart disease": ("congestive heart failure", "coronary artery disease"),
    "infection": ("urinary tract infection",),
    "kidney disease": ("chronic kidney disease",),
    "liver disease": ("cirrhosis",),
    "lung disease": ("COPD", "asthma"),
    "malignancy": ("breast cancer", "lung cancer"),
    "pain": [topic for topic in NOUNS if topic.endswith(" pain")],
    "weakness": [topic for topic in NOUNS if topic.endswith(" weakness")],
}
TOPICS = Topics(
    parents={topic: parent for parent, topics in _PARENTS.items() for topic in topics},
    places={topic: ("side",) for topic in SIDED},
)
GRADED = frozenset(topic for topic in NOUNS if "pain" in topic or "weakness" in topic) | frozenset(
    split_list("cough, fatigue, headache, leg swelling, nausea, shortness of breath")
)
GRADES = {"mild": "{mild*2|slight}", "moderate": "moderate", "severe": "{severe*2|intense}"}

#: Sentences of a note, which are premises. ``$np`` has degree and side, ``$bare`` no degree.
TELLS = (
    "{The patient|Pt|Patient|He|She} {reports|complains of|endorses|c/o|describes} $np.",
    "{The patient|Pt|Patient|He|She} presented {to the ED |}with $np{ on [**$date**]|}.",
    "$age year old $person {with|admitted with|who presented with} $np.",
    "{On arrival|On admission|In the ED}, {pt|patient} had $np.",
)
TELLS_CONDITION = (
    "{PMH|Past medical history} {of|significant for|notable for} $np.",
    "$age year old $person with {a history of|known|h/o} $np.",
    "{The patient|Pt|Patient|He|She} has {a history of|known|longstanding} $np.",
    "{Discharge diagnosis|Diagnosis}: $np.",
)
TELLS_CHANGE: Mapping[str, tuple[str, ...]] = {
    "improved": (
        "$np {improved|got better} {with $drug|overnight|after admission}.",
        "{Pt|Patient} reports improvement in $np.",
    ),
    "worsened": (
        "$np {worsened|got worse|progressed} {despite $drug|overnight|after admission}.",
        "{Pt|Patient} {reports|noted} worsening $np.",
    ),
    "stable": (
        "$np remained {unchanged|stable} {on $drug|overnight|during admission}.",
        "{Pt|Patient} reports no change in $np.",
    ),
    "new": ("{Pt|Patient} {developed|reports} new $np.", "New onset of $np{ on [**$date**]|}."),
}
TELLS_RESOLVED = (
    "$bare resolved {with $drug|overnight|by [**$date**]}.",
    "{Pt|Patient} reports complete resolution of $bare.",
)
DENIES = (
    "{The patient|Pt|Patient|He|She} {denies|denied} {any |}$bare.",
    "{Denies|Denied} $bare{ on admission| at home|}.",
    "{ROS|Review of systems} negative for $bare.",
    "{Pt|Patient} {without|was without|had no} $bare.",
)
DENIES_CONDITION = (
    "No {history of|known|h/o} $bare.",
    "{The patient|Pt|Patient|He|She} has no {history of|known} $bare.",
    "{Pt|Patient} {denies|without} {any |}history of $bare.",
)
DENIES_SIDE = ("{Pt|Patient|He|She} {denies|denied|had no} $side $bare.", "No $side $bare.")
#: Two claims in one sentence: ``$one`` is present, ``$two`` is absent; or both are absent.
TELLS_AND_DENIES = (
    "{The patient|Pt|Patient|He|She} {reports|complains of|c/o} $one {but|and} {denies|no} $two.",
    "Presented with $one, {no|without|denies} $two.",
)
DENIES_BOTH = (
    "{The patient|Pt|Patient|He|She} {denies|denied} $one {or|and} $two.",
    "No $one or $two{ on admission|}.",
)

#: Hypotheses about a premise.
ASKS = ("{The patient|Patient|Pt} {has|had|is having} $np.", "There is $np.")
ASKS_CONDITION = (
    "{The patient|Patient|Pt} has {a history of |}$np.",
    "There is a history of $np.",
)
ASKS_CHANGE: Mapping[str, tuple[str, ...]] = {
    "improved": ("{The patient's |}$bare {has improved|is better|is improving}.",),
    "worsened": ("{The patient's |}$bare {has worsened|is worse|is worsening}.",),
    "stable": ("{The patient's |}$bare is {unchanged|stable}.",),
    "new": ("{The patient|Patient} has new $bare.",),
}
ASKS_RESOLVED = ("{The patient's |}$bare {has resolved|is gone}.",)
ASKS_ABSENT = (
    "{The patient|Patient|Pt} {has no|does not have|denies} $bare.",
    "There is no {evidence of |}$bare.",
    "No $bare.",
)
ASKS_ABSENT_CONDITION = (
    "{The patient|Patient|Pt} {has no|does not have a|denies} history of $bare.",
    "There is no history of $bare.",
)
