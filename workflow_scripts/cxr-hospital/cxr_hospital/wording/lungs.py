"""Words for findings of the lungs, and for broken ribs (see ``wording``)."""

from cxr_hospital.wording.wording import Wording

ATELECTASIS = Wording(
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

CONSOLIDATION = Wording(
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

OPACITY = Wording(
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

PNEUMONIA = Wording(
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

LESION = Wording(
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

FRACTURE = Wording(
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
