"""Indication and technique: the sections above FINDINGS, and the header's procedure."""

from cxr_hospital.grammar import split_list
from cxr_hospital.patient import Study

COMPLAINTS = split_list(
    "cough, fever, shortness of breath, chest pain, dyspnea on exertion, hypoxia, "
    "altered mental status, leukocytosis, tachycardia, weakness, syncope, abdominal pain, "
    "productive cough, lower extremity swelling, fall, wheezing, malaise, s/p intubation, "
    "status post thoracentesis, recent surgery, ESRD on HD, COPD exacerbation, history of CHF, "
    "cirrhosis, new oxygen requirement, night sweats, hemoptysis, lung cancer, "
    "AML on chemotherapy, respiratory failure"
)
QUESTIONS = split_list(
    "eval for pneumonia, evaluate for infiltrate, r/o pneumothorax, interval change, "
    "assess for effusion, please eval for acute process, ?pna, evaluate for pulmonary edema, "
    "line placement, acute cardiopulmonary process?, eval interval change, rule out infection"
)
INDICATION = (
    "___ year old $person with $complaint.  // $question",
    "___$letter with $complaint // $question",
    "___-year-old $person with $complaint, $question.",
    "History: ___$letter with $complaint and $other",
    "$person with $complaint.  $question.",
    "___ year old $person with $complaint and $other.",
)
COMPARISON_WITH_PRIOR = (
    "Chest radiograph ___",
    "___.",
    "Chest radiographs ___ and ___",
    "Prior chest radiograph from ___.",
    "Comparison to ___ at ___.",
)
COMPARISON_WITHOUT = ("None.", "None available.", "No prior.", "No relevant comparisons available.")
TECHNIQUES = {
    "AP": (
        "Single portable AP view of the chest",
        "Portable AP chest radiograph",
        "Single frontal view of the chest",
        "Upright AP view of the chest",
    ),
    "PA": ("PA view of the chest", "Single frontal view of the chest"),
    "PA LAT": (
        "Chest PA and lateral",
        "PA and lateral views of the chest",
        "Frontal and lateral views of the chest",
        "Two views of the chest",
    ),
    "LAT": ("Lateral view of the chest", "Single lateral view of the chest"),
}
_PROCEDURES = {
    "AP": "CHEST (PORTABLE AP)",
    "PA": "CHEST (SINGLE VIEW)",
    "PA LAT": "CHEST (PA AND LAT)",
    "LAT": "CHEST (LAT ONLY)",
}
VIEW_HEADINGS = {
    "AP": "PORTABLE AP CHEST RADIOGRAPH",
    "PA": "SINGLE FRONTAL VIEW OF THE CHEST",
    "PA LAT": "PA AND LATERAL CHEST RADIOGRAPHS",
    "LAT": "LATERAL VIEW OF THE CHEST",
}


def projections(study: Study) -> str:
    """The views of the study: ``AP``, ``PA``, ``PA LAT`` or ``LAT``."""
    views = {image.projection for image in study.images}
    if "PA" in views:
        return "PA LAT" if "LATERAL" in views else "PA"
    return "AP" if "AP" in views else "LAT"


def procedure(study: Study) -> str:
    """The header's PerformedProcedureStepDescription."""
    return _PROCEDURES[projections(study)]
