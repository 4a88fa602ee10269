"""The words for each observation, by its CheXpert name and where that matters by its zone."""

from collections.abc import Mapping

from cxrflow.phantom.wording.lungs import (
    ATELECTASIS,
    CONSOLIDATION,
    FRACTURE,
    LESION,
    OPACITY,
    PNEUMONIA,
)
from cxrflow.phantom.wording.pleura_and_heart import (
    CARDIOMEGALY,
    EDEMA,
    EFFUSION,
    LOCULATED,
    PNEUMOTHORAX,
)
from cxrflow.phantom.wording.wording import Wording

WORDINGS: Mapping[str, Wording] = {
    "Atelectasis": ATELECTASIS,
    "Cardiomegaly": CARDIOMEGALY,
    "Consolidation": CONSOLIDATION,
    "Edema": EDEMA,
    "Fracture": FRACTURE,
    "Lung Lesion": LESION,
    "Lung Opacity": OPACITY,
    "Pleural Effusion": EFFUSION,
    "Pneumonia": PNEUMONIA,
    "Pneumothorax": PNEUMOTHORAX,
}
#: Words of a finding that are those of its place as well: (observation, zone).
_LOCATED: Mapping[tuple[str, str], Wording] = {("Pleural Effusion", "lateral"): LOCULATED}
ALL_WORDINGS = (*WORDINGS.values(), *_LOCATED.values())


def wording_of(name: str, zone: str) -> Wording:
    """The words for an observation in a zone."""
    return _LOCATED.get((name, zone), WORDINGS[name])
