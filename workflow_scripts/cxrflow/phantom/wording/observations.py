"""How each finding is named and stated when it is there, surely or with a hedge.

Slots that the templates may use: ``$deg`` (word for the severity, may be empty), ``$lat`` (side),
``$adj`` and ``$place`` (see ``places``; the latter with its article), ``$at``, ``$onside`` and
``$where`` (" in" the place, " on" the side, ", mainly in" the place; empty where it is not told),
``$s`` and ``$ies`` (plural where both sides are meant), ``$a`` (article, empty in the plural),
``$is``, ``$has``. Marks are
the CheXpert labeller's: "concerning for" is uncertain, "suggesting", "likely" and "consistent with"
mean present.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Wording:
    """The words for one observation.

    ``degrees``: severity word by grade. ``full``: noun phrase with degree. ``bare``: noun phrase
    without. ``states``: whole sentences for either section. ``describes``: sentences of FINDINGS
    only. ``sums``: sentences of IMPRESSION only. ``hedges``: uncertain sentences. ``held_out``:
    phrases of MS-CXR in words that no report has. ``countable``: takes an article in the singular.
    """

    degrees: Mapping[str, str]
    full: tuple[str, ...]
    bare: tuple[str, ...]
    states: tuple[str, ...]
    describes: tuple[str, ...]
    sums: tuple[str, ...]
    hedges: tuple[str, ...]
    held_out: tuple[str, ...] = ()
    countable: bool = True


_EFFUSION = Wording(
    degrees={
        "mild": "{small*6|trace*2|minimal|tiny|small layering}",
        "moderate": "{moderate*6|moderate-sized*2|moderately sized}",
        "severe": "{large*6|moderate to large|massive|sizeable}",
    },
    full=("$deg $lat pleural effusion$s<PE+>",),
    bare=("$lat pleural effusion$s<PE+>", "$lat {effusion*2|pleural fluid}$s<PE+>"),
    states=(
        "There $is $a $deg $lat pleural effusion$s<PE+>.",
        "$deg $lat pleural effusion$s<PE+>{ {is|are} {seen|noted|present}|}.",
        "$deg pleural effusion$s<PE+> on $sidenoun.",
        "{There is blunting|Blunting} of $costophrenic, {consistent with|compatible with|due to} "
        "$a $deg pleural effusion$s<PE+>.",
        "$deg $lat effusion$s<PE+>.",
    ),
    describes=(
        "$a $deg $lat pleural effusion$s<PE+> $is {present|seen|noted|demonstrated}.",
        "Dense opacification<LO+> at $baseplace layers {posteriorly|dependently} and "
        "{represents|reflects} $a $deg pleural effusion$s<PE+>.",
    ),
    sums=("$deg $lat pleural effusion$s<PE+>.",) * 2,
    hedges=(
        "{Possible|Probable|Suspected} $deg $lat pleural effusion$s<PE?>.",
        "{Blunting|Slight blunting} of $costophrenic may {represent|reflect} $a $deg pleural "
        "effusion$s<PE?>.",
        "$a $deg $lat pleural effusion$s<PE?> {cannot be excluded|is possible|is difficult to "
        "exclude}.",
    ),
    held_out=(
        "$a $deg amount of fluid is collecting in the pleural space$onside<PE+>.",
        "The pleural space$onside holds $a $deg effusion$s<PE+>.",
    ),
)

_LOCULATED = Wording(
    degrees=_EFFUSION.degrees,
    full=("$deg loculated $lat pleural effusion$s<PE+>",),
    bare=("loculated $lat pleural effusion$s<PE+>", "$lat loculated pleural fluid<PE+>"),
    states=(
        "There $is $a $deg loculated $lat pleural effusion$s<PE+>.",
        "$deg $lat pleural effusion$s<PE+>, loculated laterally.",
        "$deg loculated pleural effusion$s<PE+> along $place.",
    ),
    describes=(
        "Lenticular opacification<LO+> along $place {represents|reflects} $a $deg loculated "
        "pleural effusion$s<PE+>.",
    ),
    sums=("$deg loculated $lat pleural effusion$s<PE+>.",),
    hedges=("{Possible|Probable|Suspected} $deg loculated $lat pleural effusion$s<PE?>.",),
    held_out=("$a $deg pocket of pleural fluid<PE+> is trapped along $place.",),
)

_PNEUMOTHORAX = Wording(
    degrees={
        "mild": "{small*6|tiny*2|minimal|trace}",
        "moderate": "{moderate*5|moderate-sized*2|moderately sized}",
        "severe": "{large*6|sizeable|moderate to large}",
    },
    full=("$deg {$adj*3|$lat} pneumothorax<Px+>",),
    bare=("{$adj|$lat*2} pneumothorax<Px+>",),
    states=(
        "There is $a $deg {$adj*3|$lat} pneumothorax<Px+>.",
        "$deg {$adj*4|$lat} pneumothorax<Px+>{ is {seen|noted|present}|*2}.",
        "$deg pneumothorax<Px+> {at|in} $place.",
        "$deg pneumothorax<Px+> on the $side.",
    ),
    describes=(
        "{A visceral pleural line is seen at|A thin pleural line projects over} $place, "
        "{consistent with|compatible with|in keeping with} $a $deg pneumothorax<Px+>.",
        "Absent lung markings {at|in} $place {indicate|reflect} $a $deg pneumothorax<Px+>.",
        "$a $deg $adj pneumothorax<Px+> is {seen|present|identified|demonstrated}.",
    ),
    sums=("$deg $adj pneumothorax<Px+>.", "$deg $lat pneumothorax<Px+>."),
    hedges=(
        "{Possible|Questionable|Suspected} $deg {$adj|$lat} pneumothorax<Px?>.",
        "A lucency at $place may {represent|reflect} $a $deg pneumothorax<Px?>.",
        "$a $deg {$adj|$lat} pneumothorax<Px?> {cannot be excluded|is not excluded|is possible}.",
    ),
    held_out=(
        "$a $deg collection of pleural air<Px+> has gathered at $place.",
        "The lung$onside is separated from the chest wall by $a $deg pneumothorax<Px+>.",
    ),
)

_EDEMA = Wording(
    degrees={
        "mild": "{mild*6|minimal|slight|mild interstitial*2}",
        "moderate": "{moderate*6|mild to moderate|moderate interstitial}",
        "severe": "{severe*5|marked|moderate to severe|extensive|alveolar}",
    },
    full=("$deg $adj pulmonary edema<Ed+>",),
    bare=("$adj {pulmonary edema*4|edema|interstitial edema}<Ed+>",),
    states=(
        "There is $deg pulmonary edema<Ed+>$where.",
        "$deg $adj pulmonary edema<Ed+>{ is {seen|present}|*2}.",
        "{Findings|Appearances} {consistent with|compatible with|in keeping with} $deg "
        "{pulmonary edema<Ed+>*3|edema<Ed+>}$where.",
        "$deg pulmonary vascular congestion<Ed+> {and|with} interstitial edema<Ed+>$where.",
    ),
    describes=(
        "{Haziness<LO+> and indistinct vessels|Interstitial markings<LO+>|Hazy opacities<LO+>} in "
        "$place are {consistent with|compatible with|due to} $deg pulmonary edema<Ed+>.",
        "The pulmonary vasculature is {engorged and indistinct|indistinct|cephalized}, "
        "{consistent with|reflecting} $deg pulmonary edema<Ed+>$where.",
    ),
    sums=(
        "$deg pulmonary edema<Ed+>$where.",
        "$deg $adj pulmonary edema<Ed+>.",
        "{Findings of|Evidence of} {fluid overload with|volume overload and|"
        "heart failure<Ca?> with} $deg pulmonary edema<Ed+>$where.",
    ),
    hedges=(
        "{Possible<Ed?>|Probable<Ed?>|Suspected<Ed?>|Likely<Ed+>} $deg $adj pulmonary edema.",
        "{Haziness<LO+>|Prominent interstitial markings<LO+>} in $place {may|could} "
        "{represent|reflect} $deg pulmonary edema<Ed?>.",
    ),
    held_out=(
        "$deg fluid overload of the lungs with edema<Ed+>$where.",
        "Congested vessels{ and Kerley lines|}$at speak for $deg edema<Ed+>.",
    ),
    countable=False,
)

_CARDIOMEGALY = Wording(
    degrees={
        "mild": "{mild*6|borderline|slight|mild-to-moderate}",
        "moderate": "{moderate*6|mild to moderate}",
        "severe": "{severe*4|marked*3|moderate to severe|massive}",
    },
    full=("$deg cardiomegaly<Ca+>",),
    bare=("{cardiomegaly<Ca+>*4|enlargement of the cardiac silhouette<Ca+>}",),
    states=(
        "There is $deg cardiomegaly<Ca+>.",
        "$deg cardiomegaly<Ca+>{ is {present|noted|seen}|*3}.",
        "The {heart|cardiac silhouette|heart size} is $degly enlarged<Ca+>.",
        "$deg enlargement of the {cardiac silhouette|heart}<Ca+>.",
        "$degly enlarged {cardiac silhouette|heart}<Ca+>.",
    ),
    describes=(
        "{Heart size is|Cardiac silhouette is|The cardiac silhouette size is} $degly "
        "enlarged<Ca+>.",
    ),
    sums=("$deg cardiomegaly<Ca+>.",) * 2,
    hedges=(
        "The heart {may be|is possibly|appears} {mildly|borderline|top normal to mildly} "
        "enlarged<Ca?>.",
        "{Possible|Probable} $deg cardiomegaly<Ca?>.",
    ),
    held_out=(
        "The heart shadow is $degly widened<Ca+>.",
        "The cardiothoracic ratio is above normal, as in $deg cardiomegaly<Ca+>.",
    ),
    countable=False,
)

_ATELECTASIS = Wording(
    degrees={
        "mild": "{mild*4|minimal*2|linear*2|subsegmental|minor}",
        "moderate": "{moderate*4|platelike|mild to moderate|}",
        "severe": "{marked*2|severe*2|extensive|substantial|moderate to severe}",
    },
    full=("$deg $adj atelectasis<At+>", "$deg atelectasis<At+> {in|at} $place"),
    bare=("$adj atelectasis<At+>", "atelectasis<At+> {in|at} $place"),
    states=(
        "$deg $adj atelectasis<At+>{ is {seen|noted|present}|*3}.",
        "There is $deg $adj atelectasis<At+>.",
        "$deg atelectasis<At+> {in|at} $place.",
        "{Linear|Streaky|Platelike|Bandlike} {opacity<LO+>|density} {in|at} $place "
        "{consistent with|compatible with|represents|reflects} atelectasis<At+>.",
        "Volume loss {in|at} $place {consistent with|due to|from} $deg atelectasis<At+>.",
    ),
    describes=(
        "{Bandlike|Streaky|Linear|Platelike} opacities<LO+> {in|at} $place are {consistent "
        "with|compatible with|in keeping with} $deg atelectasis<At+>.",
        "{Low lung volumes with|There is volume loss with} $deg $adj atelectasis<At+>.",
    ),
    sums=("$deg $adj atelectasis<At+>.",) * 2,
    hedges=(
        "{Streaky|Linear|Patchy} $adj opacities<LO+>, {likely<At+>|most likely<At+>|"
        "probably<At?>} {atelectasis*4|subsegmental atelectasis}.",
        "{Opacity<LO+>|Streaky density} {in|at} $place {may|could} {represent|reflect} "
        "atelectasis<At?>.",
    ),
    held_out=(
        "$deg partial collapse of the lung tissue$at, as in atelectasis<At+>.",
        "The lung tissue$at is incompletely aerated: $deg atelectasis<At+>.",
    ),
    countable=False,
)

_CONSOLIDATION = Wording(
    degrees={
        "mild": "{small*3|focal*2|small area of|mild}",
        "moderate": "{focal*2|moderate*2|patchy|}",
        "severe": "{dense*4|extensive*2|large|severe}",
    },
    full=("$deg $adj consolidation<Co+>", "$deg consolidation<Co+> {in|of} $place"),
    bare=("$adj consolidation<Co+>", "consolidation<Co+> in $place"),
    states=(
        "$deg consolidation<Co+> in $place.",
        "$deg $adj consolidation<Co+>{ is {seen|noted|present}|*3}.",
        "There is $deg {airspace|} consolidation<Co+> in $place.",
        "$deg {airspace|parenchymal|} consolidation<Co+> {involving|within} $place.",
    ),
    describes=(
        "$deg consolidation<Co+> with air bronchograms {is seen|is present} in $place.",
        "$place {is consolidated<Co+>|shows $deg consolidation<Co+>|demonstrates $deg "
        "consolidation<Co+>}.",
    ),
    sums=("$deg consolidation<Co+> in $place.", "$deg $adj consolidation<Co+>."),
    hedges=(
        "{Possible|Probable|Suspected} {focal|early|developing|} consolidation<Co?> in $place.",
        "{Dense area|Opacity<LO+>} in $place may {represent|reflect} consolidation<Co?>.",
    ),
    held_out=(
        "$deg area$at where the airspaces are filled, as in consolidation<Co+>.",
        "The airspaces$at are replaced by $deg consolidation<Co+>.",
    ),
    countable=False,
)

_OPACITY = Wording(
    degrees={
        "mild": "{faint*3|subtle*2|hazy*2|ill-defined|vague}",
        "moderate": "{hazy*3|patchy*3|ill-defined*2|moderate}",
        "severe": "{extensive*2|large*2|confluent|dense|diffuse hazy}",
    },
    full=("$deg $adj opacit$ies<LO+>", "$deg opacit$ies<LO+> in $place"),
    bare=("$adj opacit$ies<LO+>", "opacit$ies<LO+> in $place"),
    states=(
        "$deg opacit$ies<LO+> in $place.",
        "$deg $adj opacit$ies<LO+>{ $is {seen|noted|present}|*3}.",
        "There $is $a $deg {opacit$ies|ground-glass opacit$ies}<LO+> in $place.",
        "$deg opacit$ies<LO+> {projecting|} over $place.",
        "{Nonspecific|Hazy|Ill-defined|Patchy} $adj {opacification*2|haziness}<LO+>.",
    ),
    describes=(
        "$a $deg opacit$ies<LO+> $is {seen|demonstrated|identified} {in|projecting over} $place.",
        "$place $pis hazier than expected, with $a $deg opacit$ies<LO+>.",
    ),
    sums=(
        "$deg opacit$ies<LO+> in $place, {nonspecific|of uncertain etiology|indeterminate}.",
        "$deg $adj opacit$ies<LO+>.",
        "$deg opacit$ies<LO+> in $place.",
    ),
    hedges=(
        "{Possible|Questionable} {faint|subtle|hazy|} $adj opacit$ies<LO?>.",
        "$deg $adj opacit$ies<LO+>, {which may|may|could} {represent|reflect} {aspiration|"
        "asymmetric edema<Ed?>|atelectasis<At?>|an inflammatory process|early infection<Pn?>}.",
    ),
    held_out=(
        "$a $deg shadow of high density$at<LO+>.",
        "Loss of normal lucency$at with $deg opacification<LO+>.",
    ),
)

_PNEUMONIA = Wording(
    degrees={
        "mild": "{mild*2|early*2|subtle|}",
        "moderate": "{patchy*2|moderate|focal|*2}",
        "severe": "{extensive*3|severe*2|dense}",
    },
    full=("$adj pneumonia<Pn+>", "pneumonia<Pn+> {in|of} $place"),
    bare=("$adj pneumonia<Pn+>", "pneumonia<Pn+> in $place"),
    states=(
        "$adj pneumonia<Pn+>.",
        "Findings {consistent with|compatible with} pneumonia<Pn+> in $place.",
        "Findings {suggesting<Pn+>|suggestive of<Pn+>|concerning for<Pn?>} pneumonia in $place.",
        "{Patchy|Airspace|Patchy airspace|Hazy|Focal} opacity<LO+> in $place, {consistent "
        "with|compatible with} pneumonia<Pn+>.",
        "{Patchy|Airspace|Ill-defined|Confluent|Focal} opacity<LO+> in $place, {concerning "
        "for<Pn?>|worrisome for<Pn?>|suspicious for<Pn?>|suggesting<Pn+>|suggestive of<Pn+>|"
        "likely<Pn+>} pneumonia.",
        "$adj {opacity|airspace opacity|infiltrate}<LO+> {consistent with pneumonia<Pn+>*2|"
        "concerning for pneumonia<Pn?>*2|worrisome for infection<Pn?>|compatible with "
        "infection<Pn+>}.",
        "There is $adj pneumonia<Pn+>.",
    ),
    describes=(
        "{Patchy|Heterogeneous|Ill-defined|Hazy} {airspace|} opacities<LO+> in $place {are "
        "suspicious for|are concerning for|raise concern for} {pneumonia<Pn?>*3|infection<Pn?>}.",
        "$deg airspace {opacity|disease}<LO+> in $place is {consistent with|compatible with} "
        "{pneumonia<Pn+>*3|an infectious process<Pn+>}.",
        "Ill-defined opacity<LO+> with air bronchograms in $place suggests {pneumonia<Pn+>*3|"
        "bronchopneumonia<Pn+>}.",
    ),
    sums=(
        "$adj pneumonia<Pn+>.",
        "Findings {consistent with|compatible with} {the diagnosis of|} $adj pneumonia<Pn+>.",
        "Findings {suggesting<Pn+>|suggestive of<Pn+>|concerning for<Pn?>} $adj pneumonia.",
        "Findings {suggesting<Pn+>*2|suggestive of<Pn+>|concerning for<Pn?>} pneumonia in $place.",
        "Findings {suggesting*2|suggestive of} pneumonia<Pn+> on $sidenoun.",
        "{Evidence of|Radiographic evidence of} {acute|} pneumonia<Pn+> in $place.",
        "{Acute|} pneumonia<Pn+> {in|involving} $place.",
        "{Findings|Appearances} {consistent with|in keeping with} $deg pneumonia<Pn+> in $place.",
    ),
    hedges=(
        "{Possible<Pn?>|Probable<Pn?>|Suspected<Pn?>|Likely<Pn+>} $adj pneumonia.",
        "{Faint|Subtle|Patchy} opacity<LO+> in $place {may represent|could represent|may "
        "reflect} {early|developing|} pneumonia<Pn?>.",
        "{Early|Developing} pneumonia<Pn?> in $place {is possible|cannot be excluded|should "
        "be considered}.",
    ),
    held_out=(
        "$deg pneumonic infiltrate<Pn+>$at.",
        "An infection with $deg pneumonia<Pn+> has settled$at.",
    ),
    countable=False,
)

_LESION = Wording(
    degrees={
        "mild": "{small*3|subcentimeter|8 mm|6 mm|1.0 cm}",
        "moderate": "{1.5 cm|2.1 cm|rounded*2|well-circumscribed|1.8 cm|3.2 cm}",
        "severe": "{large*3|4.1 cm|dominant|5.2 cm}",
    },
    full=("$deg $adj $lesion<LL+>", "$deg $lesion<LL+> in $place"),
    bare=("$adj $lesion<LL+>", "$lesion<LL+> in $place"),
    states=(
        "$deg $lesion<LL+> in $place.",
        "$deg $adj {pulmonary|} $lesion<LL+>.",
        "There is $a $deg $lesion<LL+> {in|projecting over} $place.",
    ),
    describes=(
        "$a $deg nodular opacity<LO+> in $place {represents|is compatible with} a "
        "pulmonary $lesion<LL+>.",
    ),
    sums=("$deg $adj $lesion<LL+>{, CT is recommended|, recommend chest CT|*3}.",),
    hedges=(
        "{Possible|Questionable} $deg $lesion<LL?> in $place.",
        "A nodular opacity<LO+><LL+> in $place may represent a {pulmonary|lung|} $lesion<LL?>.",
    ),
)

_FRACTURE = Wording(
    degrees={"mild": "", "moderate": "{minimally displaced|}", "severe": "displaced"},
    full=("$deg $healing $side rib fracture<Fr+>", "$healing fracture<Fr+> of the $side $nth rib"),
    bare=("$side rib fracture<Fr+>",),
    states=(
        "$deg $healing fracture<Fr+> of the $side $nth rib.",
        "There is a $deg $healing $side $nth rib fracture<Fr+>.",
        "$deg $healing $side rib fracture<Fr+>{ is {seen|noted|present}|*3}.",
    ),
    describes=(
        "{Cortical irregularity|A step-off} of the $side $nth rib {represents|is consistent "
        "with} a $deg $healing fracture<Fr+>.",
    ),
    sums=("$deg $healing $side $nth rib fracture<Fr+>.",),
    hedges=("{Possible|Questionable} $healing fracture<Fr?> of the $side $nth rib.",),
)

WORDINGS: Mapping[str, Wording] = {
    "Atelectasis": _ATELECTASIS,
    "Cardiomegaly": _CARDIOMEGALY,
    "Consolidation": _CONSOLIDATION,
    "Edema": _EDEMA,
    "Fracture": _FRACTURE,
    "Lung Lesion": _LESION,
    "Lung Opacity": _OPACITY,
    "Pleural Effusion": _EFFUSION,
    "Pneumonia": _PNEUMONIA,
    "Pneumothorax": _PNEUMOTHORAX,
}
#: Words of a finding that are those of its place as well: (observation, zone).
_LOCATED: Mapping[tuple[str, str], Wording] = {("Pleural Effusion", "lateral"): _LOCULATED}
ALL_WORDINGS = (*WORDINGS.values(), *_LOCATED.values())


def wording_of(name: str, zone: str) -> Wording:
    """The words for an observation in a zone."""
    return _LOCATED.get((name, zone), WORDINGS[name])
