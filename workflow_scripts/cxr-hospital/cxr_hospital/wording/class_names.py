"""Sentences with the exact names of CheXpert's classes, for which some methods search reports."""

from collections.abc import Mapping

#: Sentences that a finding is there; findings that are no class have none. Wires of the sternum are
#: no device to the CheXpert labeller.
PRESENT: Mapping[str, str] = {
    "Atelectasis": "{There is |}$deg atelectasis<At+> {in|at} $place.",
    "Cardiomegaly": "{There is |}$deg cardiomegaly<Ca+>.",
    "Consolidation": "{There is |}$deg consolidation<Co+> in $place.",
    "Edema": "{There is |}$deg pulmonary edema<Ed+>$where.",
    "Enlarged Cardiomediastinum": "{There is |}$degly enlarged cardiomediastinum<EC+>.",
    "Fracture": "$deg $healing fracture<Fr+> of the $side $nth rib.",
    "Lung Lesion": "{There is a |}$deg lung lesion<LL+> in $place.",
    "Lung Opacity": "{There is a |}$deg lung opacity<LO+> in $place.",
    "Pleural Effusion": "{There $is $a |}$deg $lat pleural effusion$s<PE+>.",
    "Pleural Other": "Pleural other: $deg pleural thickening<PO+>$onside.",
    "Pneumonia": "{There is |}pneumonia<Pn+> in $place.",
    "Pneumothorax": "{There is a |}$deg $lat pneumothorax<Px+>.",
    "Support Devices": "Support devices<SD+>: $device.",
}
#: The name of what is absent on one side ("$side") while it is present on the other.
ABSENT_SIDE: Mapping[str, str] = {
    "Atelectasis": "$side atelectasis<At->",
    "Consolidation": "$side consolidation<Co->",
    "Fracture": "$side rib fracture<Fr->",
    "Lung Lesion": "$side lung lesion<LL->",
    "Lung Opacity": "$side lung opacity<LO->",
    "Pleural Effusion": "$side pleural effusion<PE->",
    "Pneumonia": "$side pneumonia<Pn->",
    "Pneumothorax": "$side pneumothorax<Px->",
}
NO_SIDE = ("No $what.", "There is no $what.", "No evidence of $what.")
SIDE_RESOLVED = ("The $what has resolved.", "The $what is no longer seen.")
