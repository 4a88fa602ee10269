"""Wording of radiological claims without any addition (see ``phantom.claims``).

The hospital's reports add usual companions of a finding ("apical", "blunting of the angle"). In a
pair of sentences an addition would change the entailment, so these templates hold topic, side,
zone, grade and change alone.
"""

from collections.abc import Mapping

from cxrflow.phantom.claims import Topics

_SIZES = {"mild": "{small*3|tiny|trace}", "moderate": "moderate", "severe": "large"}
_DEGREES = {"mild": "{mild*3|minimal}", "moderate": "moderate", "severe": "{severe*3|marked}"}
#: Topic -> noun, with ``$s`` or ``$ies`` for the plural. The topics are CheXpert observations; a
#: lesion is a nodule or a mass.
NOUNS: Mapping[str, str] = {
    "Atelectasis": "{atelectasis*4|atelectatic change}",
    "Cardiomegaly": "{cardiomegaly*3|cardiac enlargement|enlargement of the cardiac silhouette}",
    "Consolidation": "{consolidation*3|airspace consolidation}",
    "Edema": "{pulmonary edema*3|edema of the lungs}",
    "Fracture": "rib fracture$s",
    "Lung Opacity": "opacit$ies",
    "Pleural Effusion": "{pleural effusion*4|effusion}$s",
    "Pneumonia": "pneumonia",
    "Pneumothorax": "pneumothorax",
    "mass": "{mass*2|lung mass|pulmonary mass}",
    "nodule": "{nodule*2|lung nodule|pulmonary nodule}$s",
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
_SIDE, _PLACE = ("side",), ("side", "zone")
TOPICS = Topics(
    parents={"Consolidation": "Lung Opacity", "Pneumonia": "Lung Opacity"},
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

PRESENT = (
    "There $is $a $np.",
    "$np.",
    "$np $is {seen|noted|present|identified}.",
    "{Evidence of|The study shows} $a $np.",
)
ENLARGED = "The {heart|cardiac silhouette} is {$degly|} enlarged."
DEGLY = {"mild": "{mildly|slightly}", "moderate": "moderately", "severe": "{severely|markedly}"}
ABSENT_ON_SIDE = (
    "No $side $x.",
    "There is no $side $x.",
    "No $x {is seen|} on the $side.",
    "No evidence of $a $side $x.",
)
#: Topics that one sentence denies together -> the sentence.
TOGETHER: Mapping[frozenset[str], tuple[str, ...]] = {
    frozenset(
        {"Atelectasis", "Consolidation", "Edema", "Lung Opacity", "Pneumonia", "mass", "nodule"}
    ): ("{The lungs are|Lungs are|Both lungs are} {clear|clear bilaterally}.",),
    frozenset({"Pleural Effusion", "Pneumothorax"}): (
        "The pleural spaces are {clear|free of fluid and air}.",
        "No pleural effusion or pneumothorax.",
        "There is no pneumothorax or pleural effusion.",
    ),
    frozenset({"Cardiomegaly"}): (
        "{Heart size is|The heart size is|Cardiac size is} {normal|within normal limits}.",
        "The heart is not enlarged.",
    ),
    frozenset({"Fracture"}): ("No acute osseous abnormality.", "The ribs are intact."),
}
