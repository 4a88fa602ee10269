"""The words for each observation, by its CheXpert name and where that matters by its zone."""

from collections.abc import Mapping

from cxr_hospital.wording import chronic, lungs
from cxr_hospital.wording import pleura_and_heart as pleura
from cxr_hospital.wording.wording import Wording

WORDINGS: Mapping[str, Wording] = {
    "Atelectasis": lungs.ATELECTASIS,
    "Cardiomegaly": pleura.CARDIOMEGALY,
    "Consolidation": lungs.CONSOLIDATION,
    "Edema": pleura.EDEMA,
    "Emphysema": chronic.EMPHYSEMA,
    "Enlarged Cardiomediastinum": chronic.MEDIASTINUM,
    "Fibrosis": chronic.FIBROSIS,
    "Fracture": lungs.FRACTURE,
    "Hernia": chronic.HERNIA,
    "Lung Lesion": lungs.LESION,
    "Lung Opacity": lungs.OPACITY,
    "Pleural Effusion": pleura.EFFUSION,
    "Pleural Other": chronic.THICKENING,
    "Pneumonia": lungs.PNEUMONIA,
    "Pneumothorax": pleura.PNEUMOTHORAX,
}
#: Words of a finding that are those of its place as well: (observation, zone).
_LOCATED: Mapping[tuple[str, str], Wording] = {("Pleural Effusion", "lateral"): pleura.LOCULATED}
ALL_WORDINGS = (*WORDINGS.values(), *_LOCATED.values())


def wording_of(name: str, zone: str) -> Wording:
    """The words for an observation in a zone."""
    return _LOCATED.get((name, zone), WORDINGS[name])
