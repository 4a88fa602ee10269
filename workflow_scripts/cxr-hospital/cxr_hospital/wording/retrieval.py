"""Text queries of the image search: five a category, in sentences that no report has.

They follow the instructions to the radiologist in ConVIRT's Appendix D: the category alone, unlike
each other, no place and no rare observation.
"""

from collections.abc import Mapping

QUERIES: Mapping[str, tuple[str, ...]] = {
    "Atelectasis": (
        "Part of the lung has collapsed, as happens with atelectasis.",
        "Dense plates in a lung that is short of air speak for atelectasis.",
        "An airless, shrunken part of the lung is visible.",
        "Plates of atelectasis run across the lung.",
        "Loss of aeration from atelectasis is apparent.",
    ),
    "Cardiomegaly": (
        "The heart takes up too much of the chest.",
        "The width of the heart exceeds half that of the thorax.",
        "Cardiomegaly is evident on this radiograph.",
        "An overly large heart shadow is visible.",
        "The cardiac outline is bigger than it should be.",
    ),
    "Edema": (
        "Fluid has leaked out of the vessels: pulmonary edema.",
        "Kerley lines and indistinct vessels speak for edema.",
        "The lungs look wet and congested, as in edema.",
        "Blurred vessels point to pulmonary edema.",
        "An interstitial pattern of edema clouds the lungs.",
    ),
    "Fracture": (
        "A rib is broken.",
        "The outline of a bone is interrupted by a fracture.",
        "Displaced fragments of a rib mark a fracture.",
        "Callus surrounds a healing fracture.",
        "A fractured rib is visible.",
    ),
    "No Finding": (
        "This radiograph of the chest shows nothing abnormal.",
        "Heart and lungs look healthy.",
        "Everything that can be seen is normal.",
        "The chest is free of disease.",
        "A normal examination without any abnormality.",
    ),
    "Pleural Effusion": (
        "Fluid has collected around the lung.",
        "A meniscus of pleural fluid is visible.",
        "An effusion fills part of the pleural cavity.",
        "The lung is bordered by fluid within the pleura.",
        "A layer of effusion hides the diaphragm.",
    ),
    "Pneumonia": (
        "An infection of the lung is visible: pneumonia.",
        "Patchy infiltrates of an infection point to pneumonia.",
        "The airspaces hold an infectious infiltrate.",
        "The appearance is that of pneumonia.",
        "Pneumonic infiltration of the lung is apparent.",
    ),
    "Pneumothorax": (
        "Air has escaped into the pleural cavity.",
        "The edge of the lung is outlined by a pneumothorax.",
        "A rim of air without any vessels surrounds the lung.",
        "Free pleural air is evident, that is, a pneumothorax.",
        "Lung markings stop short of the chest wall because of a pneumothorax.",
    ),
}
