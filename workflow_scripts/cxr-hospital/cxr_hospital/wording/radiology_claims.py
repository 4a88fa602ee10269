"""Wording of radiological claims without any addition (see ``phantom.claims``).

The hospital's reports add usual companions of a finding ("apical", "blunting of the angle"). In a
pair of sentences an addition would change the entailment, so these templates hold topic, side,
zone, grade and change alone. A topic has several names and an absence several forms, some without a
word of denial: two sentences of the same content may have few words in common.
"""

from collections.abc import Mapping

from cxr_hospital.claims import Topics
from cxr_hospital.wording import context

_SIZES = {"mild": "{small*3|tiny|trace}", "moderate": "moderate", "severe": "large"}
_DEGREES = {"mild": "{mild*3|minimal}", "moderate": "moderate", "severe": "{severe*3|marked}"}
#: Topic -> noun, with ``$s`` or ``$ies`` for the plural. The topics are CheXpert observations; a
#: lesion is a nodule or a mass.
NOUNS: Mapping[str, str] = {
    "Atelectasis": "{atelectasis*3|atelectatic change|volume loss|partial collapse}",
    "Cardiomegaly": "{cardiomegaly*3|cardiac enlargement|enlargement of the cardiac silhouette}",
    "Consolidation": "{consolidation*3|airspace consolidation|alveolar filling}",
    "Edema": "{pulmonary edema*3|edema of the lungs|fluid overload of the lungs}",
    "Fracture": "{rib fracture$s*2|broken rib$s}",
    "Lung Opacity": "{opacit$ies*2|area$s of {increased density|haziness|opacification}}",
    "Pleural Effusion": "{pleural effusion$s*3|effusion$s|pleural fluid collection$s}",
    "Pneumonia": "{pneumonia*3|infection of the lung|pneumonic infiltrate}",
    "Pneumothorax": "{pneumothorax*3|collection of pleural air}",
    "mass": "{mass*2|lung mass|pulmonary mass}",
    "nodule": "{nodule$s*2|lung nodule$s|pulmonary nodule$s}",
}
#: Topic -> word for each grade; a topic without has no grade.
GRADES: Mapping[str, Mapping[str, str]] = {
    "Atelectasis": _DEGREES,
    "Cardiomegaly": _DEGREES,
    "Edema": _DEGREES,
    "Pleural Effusion": _SIZES,
    "Pneumothorax": _SIZES,
}
#: Nouns that take an article.
COUNTABLE = frozenset({"Fracture", "Lung Opacity", "Pleural Effusion", "Pneumothorax"}) | {
    "mass",
    "nodule",
}
LUNGS, PLEURA, CHEST = "lungs", "pleural spaces", "chest"
_SIDE, _PLACE = ("side",), ("side", "zone")
TOPICS = Topics(
    parents={
        "Consolidation": "Lung Opacity",
        "Pneumonia": "Lung Opacity",
        "Lung Opacity": LUNGS,
        "Atelectasis": LUNGS,
        "Edema": LUNGS,
        "mass": LUNGS,
        "nodule": LUNGS,
        "Pleural Effusion": PLEURA,
        "Pneumothorax": PLEURA,
        "Cardiomegaly": CHEST,
        "Fracture": CHEST,
        LUNGS: CHEST,
        PLEURA: CHEST,
    },
    places={
        "Atelectasis": _PLACE,
        "Consolidation": _PLACE,
        "Fracture": _SIDE,
        "Lung Opacity": _PLACE,
        "Pleural Effusion": _SIDE,
        "Pneumonia": _PLACE,
        "Pneumothorax": _SIDE,
        "mass": _PLACE,
        "nodule": _PLACE,
    },
)


def below(topic: str) -> list[str]:
    """The topics with a noun that imply ``topic``, which is not among them."""
    return [name for name in NOUNS if name != topic and topic in TOPICS.implied(name)]


#: Findings of which a reader takes one for another.
ALTERNATIVES = ("Atelectasis", "Consolidation", "Edema", "Pneumonia")
#: What "no acute process" denies.
ACUTE = ("Consolidation", "Edema", "Pleural Effusion", "Pneumonia", "Pneumothorax")
NO_ACUTE_PROCESS = context.NO_ACUTE_PROCESS[:2]

PRESENT = (
    "There $is $a $np.",
    "$np.",
    "$np $is {seen|noted|present|identified}.",
    "{Evidence of|The study shows} $a $np.",
)
ENLARGED = "The {heart|cardiac silhouette} is {$degly|} enlarged."
DEGLY = {"mild": "{mildly|slightly}", "moderate": "moderately", "severe": "{severely|markedly}"}
#: Presence of a topic in words of its own, without a degree.
ABNORMAL: Mapping[str, tuple[str, ...]] = {
    LUNGS: ("The lungs are {not clear|abnormal}.", "There is an abnormality of the lungs."),
    PLEURA: ("The pleural spaces are {not clear|abnormal}.", "There is pleural disease."),
    CHEST: ("{Abnormal chest radiograph|The chest radiograph is {abnormal|not normal}}.",),
    "Cardiomegaly": ("The {heart|cardiac silhouette} is {not of normal size|too large}.",),
    "Fracture": ("The ribs are not intact.",),
}
#: Absence of a topic in words of its own.
NORMAL: Mapping[str, tuple[str, ...]] = {
    LUNGS: ("{The lungs are|Lungs are|Both lungs are} {clear|well expanded and clear}.",),
    PLEURA: ("{The pleural spaces are|Both pleural spaces are} {clear|free of fluid and air}.",),
    CHEST: ("{Normal|Unremarkable} chest radiograph.", "The chest radiograph is unremarkable."),
    "Cardiomegaly": (
        "{Heart size is|The heart size is|Cardiac size is} {normal|within normal limits}.",
        "The {heart|cardiac silhouette} is {not enlarged|normal in size}.",
    ),
    "Fracture": ("{The|All} ribs are intact.",),
}
ABSENT_AT = ("No $x $at.", "There is no $x $at.", "No $x is {seen|identified} $at.")
ABSENT_ON_SIDE = (
    "No $side $x.",
    "There is no $side $x.",
    "No evidence of $a $side $x.",
    *ABSENT_AT,
)
#: A finding at one place and nowhere else: ``$lone`` has its degree and no place.
CONFINED = (
    "The $lone $is {confined|limited} to $where.",
    "$lone $is {seen|present|noted} only $at.",
    "$lone, {only|exclusively|solely} $at.",
    "$np, {none elsewhere|not elsewhere}.",
)
CONFINED_TO_SIDE = (
    *CONFINED,
    "$np without $x on the $other.",
    "$np, the $other side is spared.",
    "$np but no $x on the $other.",
)
#: One finding at a place, and not another that might be there.
RATHER_THAN = ("$np rather than $x.", "$np, not $x.", "$np and no $x $at.")
