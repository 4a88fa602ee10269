"""Words for bones: indications, abnormalities, denials; ``$site`` is a bone or joint."""

from collections.abc import Mapping

QUESTIONS = (
    "{pain|fall|trauma|injury|swelling|deformity}",
    "status post {fall|motor vehicle collision|assault|surgery}",
    "{eval for|rule out|evaluate for|assess for} fracture",
    "{chronic|worsening|persistent} pain",
    "{follow up|post reduction|postoperative|hardware check}",
)
DEGREES: Mapping[str, Mapping[str, str]] = {
    "fracture": {
        "mild": "{minimally|mildly} displaced",
        "moderate": "{moderately displaced|displaced}",
        "severe": "{markedly|severely} displaced {and comminuted|comminuted|}",
    },
    "dislocation": {"mild": "{partial|}", "moderate": "", "severe": "{complete|gross|}"},
    "degeneration": {
        "mild": "{mild|early|minimal}",
        "moderate": "{moderate|}",
        "severe": "{severe|advanced|marked}",
    },
    "lytic lesion": {"mild": "{small|}", "moderate": "", "severe": "{large|expansile}"},
    "hardware": {"mild": "{short|}", "moderate": "", "severe": "{long|}"},
}
#: Statements of an abnormality, in FINDINGS.
FOUND: Mapping[str, tuple[str, ...]] = {
    "fracture": (
        "There is a $degree fracture of the $site.",
        "{Acute|} $degree fracture {involving|through} the $site.",
        "A $degree fracture {is seen|is noted|is present} at the $site.",
        "Lucent line through the $site with cortical {step-off|disruption}, a $degree fracture.",
    ),
    "dislocation": (
        "There is a $degree dislocation of the $site.",
        "The $site is {dislocated|not congruent, with dislocation}.",
        "Loss of {congruity|the normal alignment} at the $site, consistent with dislocation.",
    ),
    "degeneration": (
        "There are $degree degenerative changes of the $site.",
        "$degree joint space narrowing {and|with marginal} osteophytes at the $site.",
        "$degree osteoarthritis of the $site {with subchondral sclerosis|}.",
    ),
    "lytic lesion": (
        "There is a $degree lytic lesion in the $site.",
        "$degree {well-defined|geographic} lucent lesion in the $site {with a sclerotic rim|}.",
        "{Expansile|Well-circumscribed} lucency {within|in} the $site.",
    ),
    "hardware": (
        "{Status post fixation with a|There is a} $degree plate and screws along the $site.",
        "$degree {plate and screw|side plate and screw} fixation of the $site.",
        "{Orthopedic|Surgical} hardware along the $site, a plate with {several|multiple} screws.",
    ),
}
#: Further details of it.
FURTHER: Mapping[str, tuple[str, ...]] = {
    "fracture": (
        "{Associated|Overlying|Adjacent} soft tissue swelling {is present|is noted|}.",
        "The distal fragment is {angulated|offset}.",
        "No {extension to|involvement of} the articular surface.",
    ),
    "dislocation": (
        "{Associated|Adjacent} soft tissue swelling {is present|is noted|}.",
        "No {associated|definite} fracture is {seen|identified}.",
    ),
    "degeneration": (
        "Marginal osteophytes {are present|are noted}.",
        "Subchondral sclerosis {is present|is noted}.",
        "No erosions.",
    ),
    "lytic lesion": (
        "No {periosteal reaction|aggressive periosteal reaction}.",
        "The cortex is {thinned|thinned but intact}.",
        "No pathologic fracture.",
    ),
    "hardware": (
        "No {perihardware|periprosthetic} lucency.",
        "The hardware is {intact|intact without evidence of loosening}.",
        "No evidence of hardware {failure|complication}.",
    ),
}
#: Its summary, in IMPRESSION.
SUMMED: Mapping[str, tuple[str, ...]] = {
    "fracture": (
        "$degree fracture of the $site.",
        "{Acute fracture|Fracture} of the $site {as above|}.",
    ),
    "dislocation": ("{Dislocation|$degree dislocation} of the $site.", "Dislocated $site."),
    "degeneration": (
        "$degree {osteoarthritis|degenerative change} of the $site.",
        "{Osteoarthritis|Degenerative changes} of the $site {as above|}.",
    ),
    "lytic lesion": (
        "{Lytic|Lucent} lesion of the $site{, likely benign|, MRI is suggested|}.",
        "$degree lytic lesion in the $site.",
    ),
    "hardware": (
        "{Status post|Post-surgical changes with} plate and screw fixation of the $site.",
        "{Intact|} plate and screws of the $site {without complication|}.",
    ),
}
#: Denials, used only where they are true.
ABSENT: Mapping[str, tuple[str, ...]] = {
    "fracture": (
        "No {acute|displaced|} fracture {is seen|is identified|}.",
        "No fracture line is seen.",
    ),
    "dislocation": (
        "No dislocation {or subluxation|}.",
        "{Alignment is|Joint alignment is} {normal|anatomic}.",
    ),
    "degeneration": (
        "{Joint spaces|The joint spaces} are {preserved|maintained|normal}.",
        "No {significant|} degenerative change.",
    ),
    "lytic lesion": (
        "No {suspicious|destructive|} lytic or {blastic|sclerotic} lesion.",
        "No focal {osseous|bone} lesion.",
    ),
    "hardware": (
        "No radiopaque foreign body.",
        "No {orthopedic hardware|surgical hardware}.",
    ),
}
SOFT_TISSUES = ("{Soft tissues|The soft tissues} are {unremarkable|normal|within normal limits}.",)
MINERALISATION = (
    "{Bone mineralization|Mineralization} is {normal|within normal limits|preserved}.",
)
#: The views, by the number of films.
VIEWS: Mapping[int, tuple[str, ...]] = {
    2: (
        "Two views of the $side $part {were obtained|are provided|}.",
        "{AP|Frontal} and lateral views of the $side $part.",
    ),
    3: (
        "Three views of the $side $part {were obtained|are provided|}.",
        "{AP|Frontal}, oblique and lateral views of the $side $part.",
    ),
}
ADVICE = (
    "If {symptoms persist|pain persists}, {repeat radiographs|MRI} {can|may} be obtained.",
    "{Clinical correlation|Correlation with the site of pain} is recommended.",
)
NORMAL = (
    "No acute {osseous|bony} abnormality of the $side $part.",
    "No {acute|} fracture or dislocation {of the $side $part|}.",
    "{Normal|Unremarkable} {radiographs|examination} of the $side $part.",
    "{Negative|Normal} $side $part {series|radiographs}.",
)
