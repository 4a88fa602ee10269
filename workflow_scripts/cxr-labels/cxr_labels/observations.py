"""The 14 CheXpert observations, and the values that a report can give one."""

from typing import Final

# The order of the CheXpert labeller's output and of the CheXpert CSV.
OBSERVATIONS: Final = (
    "No Finding",
    "Enlarged Cardiomediastinum",
    "Cardiomegaly",
    "Lung Lesion",
    "Lung Opacity",
    "Edema",
    "Consolidation",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Pleural Other",
    "Fracture",
    "Support Devices",
)
# Rules out No Finding, but has no column.
OTHER_FINDING: Final = "Other finding"

POSITIVE: Final = 1
NEGATIVE: Final = 0
UNCERTAIN: Final = -1
NAMES: Final = {1.0: "positive", 0.0: "negative", -1.0: "uncertain"}
# Not mentioned.
BLANK: Final = float("nan")
# A report's labels: 1, 0, -1 or BLANK, in the order of OBSERVATIONS.
Labels = tuple[float, ...]
