"""Names of tubes, lines and other devices; ``Finding.kind`` chooses."""

from collections.abc import Mapping

#: kind -> (noun phrase templates, position templates that may follow "with its tip").
DEVICES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "endotracheal tube": (
        ("endotracheal tube<SD+>", "ET tube<SD+>", "ETT<SD+>", "endotracheal tube<SD+>"),
        (
            "{terminating|ending|} {3.2|3.8|4.1|4.5|5|2.7} cm above the carina",
            "in {standard|satisfactory|appropriate} position",
        ),
    ),
    "central venous catheter": (
        (
            "$lat {internal jugular|subclavian} {central venous catheter|line|central line}<SD+>",
            "$lat {PICC line|PICC}<SD+>",
            "$lat {central venous catheter|central line}<SD+>",
        ),
        (
            "{terminating|with tip|ending} in the {mid|low|lower|upper|} SVC",
            "{terminating|with tip} at the cavoatrial junction",
        ),
    ),
    "pacemaker": (
        (
            "$lat {chest wall|pectoral|} {pacemaker|pacemaker device|cardiac pacemaker}<SD+>",
            "$lat {dual lead|dual-chamber|single lead} {pacemaker|pacer}<SD+>",
        ),
        (
            "with leads in the {expected positions|right atrium and right ventricle}",
            "in {satisfactory|standard} position",
        ),
    ),
    "chest tube": (
        ("$lat {chest tube|pleural drain|thoracostomy tube|pigtail catheter}<SD+>",)
        + ("$lat chest tube<SD+>",),
        ("in place", "{projecting over|directed towards} the $side {hemithorax|lung}"),
    ),
    "nasogastric tube": (
        (
            "{nasogastric tube|NG tube|enteric tube|orogastric tube}<SD+>",
            "{Dobbhoff|feeding} tube<SD+>",
        ),
        (
            "{coursing|passing} below the diaphragm",
            "{with tip|terminating} in the stomach",
            "with side port below the {GE|gastroesophageal} junction",
        ),
    ),
    "sternal wires": (
        (
            "{median sternotomy wires|sternotomy wires|sternal wires}",
            "median sternotomy wires",
        ),
        ("{intact|aligned}", "in {expected|normal} alignment"),
    ),
}

PLURAL = frozenset({"sternal wires"})

STATES = (
    "$device $position.",
    "The $device $is $position.",
    "$device {noted|in place|$is present}.",
    "$adevice $is {seen|noted|present|in place}, $position.",
)
CHANGES: Mapping[str, tuple[str, ...]] = {
    "new": (
        "{New|Interval placement of|Newly placed} $device, $position.",
        "There has been interval placement of $adevice.",
    ),
    "stable": (
        "{Unchanged|Stable} {position of|} $device.",
        "The $device $is {unchanged|stable|in unchanged position}.",
    ),
}
RESOLVED = (
    "{Interval removal of|Status post removal of} the $device.",
    "The $device $has been removed{ in the interval|*2}.",
)
