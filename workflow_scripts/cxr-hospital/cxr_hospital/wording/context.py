"""Sentences about absences, about change since the prior study, and about normal anatomy.

An absence may be written only where none of ``BLOCKERS`` is present in the study: "No evidence of
pneumonia" never stands beside an unexplained opacity.
"""

from collections.abc import Mapping

NO_ACUTE_PROCESS = (
    "No {acute cardiopulmonary process*4|acute cardiopulmonary abnormality*3|acute intrathoracic "
    "process|acute cardiopulmonary disease|acute chest abnormality}.",
    "No {radiographic|} evidence of acute {cardiopulmonary|intrathoracic} {process|disease|"
    "abnormality}.",
    "{Normal chest radiograph|Normal chest|Unremarkable chest radiograph|Normal chest "
    "radiographs}<NF+>.",
)

#: The whole IMPRESSION of many normal studies, the commonest first.
STOCK = (
    "{No acute cardiopulmonary process*6|No acute cardiopulmonary abnormality*4|No acute "
    "cardiopulmonary disease*2|No acute intrathoracic process|Normal chest radiograph<NF+>}."
)

#: The names of absent observations after "no".
ABSENT: Mapping[str, str] = {
    "Atelectasis": "{atelectasis<At->|lobar atelectasis<At->}",
    "Cardiomegaly": "{cardiomegaly<Ca->|cardiac enlargement<Ca->}",
    "Consolidation": "{focal consolidation<Co->*4|consolidation<Co->*2|airspace "
    "consolidation<Co->|confluent consolidation<Co->}",
    "Edema": "{pulmonary edema<Ed->*4|edema<Ed->|overt pulmonary edema<Ed->|pulmonary vascular "
    "congestion<Ed->|interstitial edema<Ed->}",
    "Fracture": "{acute fracture<Fr->|displaced rib fracture<Fr->|rib fracture<Fr->}",
    "Lung Lesion": "{pulmonary nodule<LL->|suspicious nodule or mass<LL->|lung nodule<LL->|"
    "suspicious pulmonary nodule<LL->}",
    "Lung Opacity": "{focal opacity<LO->*2|airspace opacity<LO->|parenchymal opacity<LO->}",
    "Pleural Effusion": "{pleural effusion<PE->*5|effusion<PE->|large pleural effusion<PE->|"
    "pleural fluid<PE->}",
    "Pneumonia": "{pneumonia<Pn->*6|acute pneumonia<Pn->|focal pneumonia<Pn->|lobar "
    "pneumonia<Pn->|active infection<Pn->}",
    "Pneumothorax": "{pneumothorax<Px->*6|visible pneumothorax<Px->}",
    "Support Devices": "{indwelling line or tube<SD->|support device<SD->}",
}
_OTHERS = {
    "Consolidation": {"Pneumonia"},
    "Lung Opacity": {"Consolidation", "Pneumonia", "Atelectasis", "Lung Lesion", "Edema"},
    "Pneumonia": {"Consolidation", "Lung Opacity"},
}
#: Observation -> observations that forbid its negation: itself, and others.
BLOCKERS = {name: frozenset({name, *_OTHERS.get(name, ())}) for name in ABSENT}
#: Observations that the words "no acute process" deny.
ACUTE = frozenset(ABSENT) - {"Cardiomegaly", "Support Devices"} | {"Enlarged Cardiomediastinum"}
ONE_ABSENT = (
    "No evidence of $x.",
    "No $x.",
    "There is no {evidence of|} $x.",
    "No {radiographic|definite|convincing} evidence of $x.",
    "No $x is {seen|identified|detected|demonstrated}.",
)
TWO_ABSENT = (
    "No $x or $y.",
    "No evidence of $x or $y.",
    "There is no $x or $y.",
    "No $x or $y is {seen|identified|detected|present}.",
    "There is no evidence of $x or $y.",
    "Neither $x nor $y is {seen|present}.",
)
THREE_ABSENT = (
    "No $x, $y, or $z.",
    "There is no $x, $y or $z.",
    "No evidence of $x, $y or $z{ is seen|*2}.",
    "There is no evidence of $x, $y, or $z.",
)
#: Hedged mentions of absent observations, as radiologists write to be safe.
EXCLUSIONS: Mapping[str, tuple[str, ...]] = {
    "Pneumonia": (
        "{Early|Superimposed} {pneumonia<Pn?>|infection<Pn?>} cannot be {entirely|completely|} "
        "excluded.",
    ),
    "Pleural Effusion": ("A trace pleural effusion<PE?> cannot be excluded.",),
    "Edema": ("Minimal interstitial edema<Ed?> is difficult to exclude.",),
    "Pneumothorax": ("A tiny pneumothorax<Px?> cannot be excluded.",),
}

#: Change since the prior study. Degree words refer to the present study.
CHANGED: Mapping[str, tuple[str, ...]] = {
    "new": (
        "New $np.",
        "Interval development of $a $np.",
        "There is $a new $np.",
        "$np, new {since|compared to} the prior {study|radiograph|exam|examination}.",
        "{Interval appearance of|Newly seen} $np.",
    ),
    "worsened": (
        "{Interval increase in|Interval worsening of|Worsening of|Progression of} the $bare.",
        "The $bare $has {increased|worsened|progressed}{ in the interval| since the prior study|}.",
        "{Worsening|Increased|Increasing} $bare, now $grade.",
        "{Worsening|Increasing|Progressive} $np.",
        "$np, {worse|increased|progressed} {since|compared to} the prior {study|radiograph|exam}.",
    ),
    "improved": (
        "{Interval improvement in|Interval decrease in|Decrease in|Improvement of} the $bare.",
        "The $bare $has {improved|decreased|partially resolved}{ in the interval| since the prior "
        "study|}.",
        "{Improving|Decreased|Improved|Resolving} $bare, now $grade.",
        "{Residual|Improving|Decreasing} $np.",
        "$np, {improved|decreased} {since|compared to|from} the prior {study|radiograph|exam}.",
    ),
    "stable": (
        "{Unchanged|Stable|Persistent|Similar} $np.",
        "The $bare $is {unchanged|stable|not significantly changed|similar to prior}.",
        "No {significant|interval|appreciable} change in the $np.",
        "$np, {unchanged|stable} {since|compared to|from} the prior {study|radiograph|exam}.",
        "$np, similar to the prior {study|radiograph|exam}.",
    ),
}
GRADES: Mapping[str, str] = {
    "mild": "{mild|small in extent}",
    "moderate": "moderate",
    "severe": "{severe|extensive}",
}
RESOLVED = (
    "{Previously seen|Previously noted|Prior} $bare $has {resolved|cleared|completely resolved}.",
    "{Interval resolution of|Resolution of} {the|previously seen} $bare.",
    "The $bare $is no longer {seen|visualized|present}.",
)
NO_CHANGE = (
    "{No significant interval change|No relevant change|No interval change|No appreciable "
    "change}{ since the prior study| compared to ___|}.",
    "{As compared to the previous radiograph|In comparison with the study of ___}, there is no "
    "{relevant|significant} change.",
)

LUNGS_CLEAR = (
    "The lungs are {clear|well expanded and clear|clear bilaterally|clear of focal abnormality}.",
    "Lungs are {clear|well expanded and clear|fully expanded and clear}.",
    "Both lungs are clear.",
)
LUNGS_OTHERWISE = (
    "{The remaining lungs are|The lungs are otherwise|Lungs are otherwise} clear.",
    "The remainder of the {lungs are|lung fields are} {clear|unremarkable}.",
)
VOLUMES_LOW = (
    "{Lung volumes are|The lung volumes are} {low|slightly low|relatively low}.",
    "Low lung volumes {are noted|accentuate the bronchovascular markings}.",
)
VOLUMES_NORMAL = (
    "{Lung volumes are|The lung volumes are} {normal|within normal limits}.",
    "{Good inspiratory effort|Adequate inspiration}.",
)
ROTATION = (
    "The patient is {rotated|slightly rotated} {to the left|to the right|}.",
    "There is {slight|mild} patient rotation.",
)
HEART_NORMAL = (
    "{Heart size is|The heart size is|Cardiac size is} {normal|within normal limits|top "
    "normal}<Ca->.",
    "The heart is {normal in size|of normal size|not enlarged}<Ca->.",
    "The cardiac silhouette is {normal|not enlarged|within normal limits}<Ca->.",
    "The {cardiomediastinal silhouette is {normal<EC->|within normal limits<EC->|unremarkable<EC->|"
    "stable<EC?>}|cardiac and mediastinal silhouette is {normal<EC-><Ca->|within normal "
    "limits<EC-><Ca->|unremarkable<EC-><Ca->|stable<EC?><Ca?>}}.",
)
MEDIASTINUM = (
    "{Mediastinal and hilar contours are|The mediastinal and hilar contours are|Hilar and "
    "mediastinal contours are} {normal<EC->|unremarkable<EC->|within normal limits<EC->|"
    "stable<EC?>}.",
    "The mediastinal contours are {normal|unremarkable}<EC->.",
    "The aorta is {tortuous|mildly tortuous|calcified|unfolded}<OF+>.",
    "Atherosclerotic calcifications<OF+> {are noted|} at the aortic knob.",
)
BONES = (
    "{Osseous structures are|The osseous structures are|Bony structures are} {unremarkable|"
    "intact|grossly intact}.",
    "No acute osseous abnormality{ is {seen|detected|identified}|}.",
    "Imaged osseous structures are {intact|unremarkable}.",
)
SPINE = (
    "{Degenerative changes are {noted|seen} in|There are degenerative changes of}<OF+> the "
    "thoracic spine.",
    "Mild {dextroscoliosis|levoscoliosis}<OF+> of the thoracic spine.",
)
ABDOMEN = (
    "{The imaged upper abdomen|The upper abdomen|Visualized upper abdomen} is unremarkable.",
    "No free air below the right hemidiaphragm{ is seen|}.",
    "There is no free intraperitoneal air.",
    "Gaseous distention of the {stomach|bowel} is {noted|mild}.",
)
RECOMMENDATIONS = (
    "{Recommend follow-up|Follow-up} {chest radiograph|radiographs|imaging} in {4|4 to 6|6|8} "
    "weeks to {document|ensure|confirm} resolution.",
    "{Clinical correlation is recommended|Correlate clinically|Clinical correlation}.",
    "{Dedicated PA and lateral views|Repeat PA and lateral radiographs} {may be helpful|would be "
    "helpful|are suggested} for further evaluation.",
    "{Short-term|Continued} {radiographic|} follow-up is {advised|recommended|suggested}.",
)
NOTIFICATIONS = (
    "The findings were {discussed|communicated} by Dr. ___ {with|to} Dr. ___ {on the telephone|"
    "by telephone|in person} on ___ at {9:20 am|3:45 PM|11:14 AM|10:05 pm|4:32 PM}, {5|10|15|2} "
    "minutes after discovery of the findings.",
    "Findings {were posted|entered} to the {ED dashboard|critical communications dashboard} on "
    "___ at {1:12 PM|8:40 am|5:56 PM}.",
    "Dr. ___ was {paged|informed} at {2:30 PM|11:50 AM|7:15 am} on ___.",
)
