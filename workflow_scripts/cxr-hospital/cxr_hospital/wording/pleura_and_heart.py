"""Words for fluid and air beside the lungs, edema and the heart (see ``wording``)."""

from cxr_hospital.wording.wording import Wording

EFFUSION = Wording(
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

LOCULATED = Wording(
    degrees=EFFUSION.degrees,
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

PNEUMOTHORAX = Wording(
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

EDEMA = Wording(
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

CARDIOMEGALY = Wording(
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
