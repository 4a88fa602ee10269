"""Words for findings that stay: a wide mediastinum, a thick pleura and others (see ``wording``).

The CheXpert labeller reads fibrosis as Pleural Other. It knows no name for emphysema or a hernia.
"""

from collections.abc import Mapping

from cxr_hospital.wording.wording import Wording

MEDIASTINUM = Wording(
    degrees={
        "mild": "{mild*5|slight|minimal}",
        "moderate": "{moderate*5|mild to moderate}",
        "severe": "{marked*4|severe|substantial}",
    },
    full=("$deg widening of the {mediastinum*3|superior mediastinum|upper mediastinum}<EC+>",),
    bare=("{mediastinal widening*3|widening of the mediastinum}<EC+>",),
    states=(
        "There is $deg {mediastinal widening*2|widening of the {superior |upper |}mediastinum}"
        "<EC+>.",
        "The {mediastinum|superior mediastinum|upper mediastinum} is $degly widened<EC+>.",
        "$deg widening of the {superior |upper |}mediastinum<EC+>{ is {seen|noted}|*3}.",
        "$degly widened mediastinum<EC+>.",
    ),
    describes=("The {mediastinal contours are|mediastinal silhouette is} $degly widened<EC+>.",),
    sums=("$deg {mediastinal widening<EC+>*3|widening of the mediastinum<EC+>}.",),
    hedges=(
        "{Possible|Questionable} $deg mediastinal widening<EC?>.",
        "The mediastinum {may be|is possibly} $degly widened<EC?>.",
    ),
    countable=False,
)

THICKENING = Wording(
    degrees={
        "mild": "{mild*5|minimal|slight}",
        "moderate": "{moderate*5|mild to moderate}",
        "severe": "{marked*3|severe|extensive}",
    },
    full=("$deg $adj pleural thickening<PO+>",),
    bare=("$adj pleural thickening<PO+>",),
    states=(
        "There is $deg $adj pleural thickening<PO+>.",
        "$deg $adj pleural thickening<PO+>{ is {seen|noted|present}|*3}.",
        "$deg pleural thickening<PO+> {at|along} $place.",
        "$deg $lat pleural thickening<PO+>.",
    ),
    describes=("$deg thickening of the pleura<PO+>$onside{ is {seen|noted}|}.",),
    sums=("$deg $adj pleural thickening<PO+>.", "$deg $lat pleural thickening<PO+>."),
    hedges=("{Possible|Probable|Questionable} $deg $adj pleural thickening<PO?>.",),
    countable=False,
)

_DEGREES: Mapping[str, str] = {
    "mild": "{mild*4|minimal}",
    "moderate": "moderate",
    "severe": "{severe*3|advanced|marked}",
}

EMPHYSEMA = Wording(
    degrees=_DEGREES,
    full=("$deg {emphysema*3|pulmonary emphysema}<OF+>",),
    bare=("{emphysema*3|emphysematous change}<OF+>",),
    states=(
        "$deg {emphysema*3|pulmonary emphysema}<OF+>.",
        "There is $deg {emphysema|pulmonary emphysema}<OF+>.",
        "The lungs are hyperinflated<OF+>, {consistent with|in keeping with} $deg emphysema.",
    ),
    describes=("Hyperinflation<OF+> with flattened diaphragms, as in $deg emphysema.",),
    sums=("$deg emphysema<OF+>.",),
    hedges=("{Possible|Probable} $deg emphysema<OF?>.",),
    countable=False,
)

FIBROSIS = Wording(
    degrees=_DEGREES,
    full=("$deg $adj {fibrosis*3|pulmonary fibrosis}<PO+>",),
    bare=("$adj fibrosis<PO+>",),
    states=(
        "$deg fibrosis<PO+> in $place.",
        "There is $deg {fibrosis|pulmonary fibrosis}<PO+> in $place.",
        "$deg $adj {fibrosis*3|fibrotic change}<PO+>.",
    ),
    describes=("$deg reticulation in $place, as in fibrosis<PO+>.",),
    sums=("$deg $adj fibrosis<PO+>.",),
    hedges=("{Possible|Probable} $deg $adj fibrosis<PO?>.",),
    countable=False,
)

HERNIA = Wording(
    degrees={"mild": "{small*4|tiny}", "moderate": "moderate", "severe": "large"},
    full=("$deg {hiatal hernia*4|hiatus hernia}<OF+>",),
    bare=("{hiatal hernia*4|hiatus hernia}<OF+>",),
    states=(
        "$deg {hiatal hernia*4|hiatus hernia}<OF+>{ is {seen|noted|present}|*3}.",
        "There is $a $deg {hiatal hernia*4|hiatus hernia}<OF+>.",
    ),
    describes=(
        "A retrocardiac air-fluid level is {consistent with|due to} $a $deg hiatal hernia<OF+>.",
    ),
    sums=("$deg hiatal hernia<OF+>.",),
    hedges=("{Possible|Probable} $deg hiatal hernia<OF?>.",),
)

#: Names of two after "no", in hospitals that have them, and what forbids to say so.
ABSENT: Mapping[str, str] = {
    "Enlarged Cardiomediastinum": "{mediastinal widening<EC->*3|widening of the mediastinum<EC->}",
    "Pleural Other": "{pleural thickening<PO->*3|apical pleural thickening<PO->}",
}
BLOCKERS: Mapping[str, frozenset[str]] = {
    "Enlarged Cardiomediastinum": frozenset({"Enlarged Cardiomediastinum"}),
    "Pleural Other": frozenset({"Pleural Other", "Fibrosis"}),
}
