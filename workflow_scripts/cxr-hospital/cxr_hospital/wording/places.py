"""Radiologists' names of a side and a zone of the lungs.

``noun`` stands after "in" ("the left lung base"), ``adjective`` before the finding's name
("left basilar opacity"), ``laterality`` where the zone is understood. Sides are the patient's.
"""

_ZONE_OF = {"base": "lower", "": "whole", "heart": "whole"}

_ONE_SIDE_NOUN = {
    "upper": "the $side {upper lobe*5|upper lung*4|upper lung zone|upper zone}",
    "middle": "the $side {mid lung*4|mid lung zone|midlung|mid zone}",
    "lower": "the $side {lower lobe*5|lung base*4|lower lung*3|base*2|lower lung zone}",
    "apex": "the $side {apex*3|lung apex*2|apical region}",
    "hilum": "the $side {hilum*2|perihilar region*2|hilar region}",
    "lateral": "the $side {lateral chest wall*2|lateral pleural surface}",
    "pleural base": "the $side {lung base*2|base}",
    "whole": "the $side lung",
}
_BOTH_SIDES_NOUN = {
    "upper": "{both upper lobes*2|both upper lungs|the upper lungs bilaterally|the upper lobes}",
    "middle": "{both mid lungs*2|the mid lungs bilaterally|the mid lung zones bilaterally}",
    "lower": "{both lung bases*4|the lung bases*3|both lower lobes*2|the lung bases bilaterally*2"
    "|the lower lungs bilaterally}",
    "apex": "{both apices|the lung apices}",
    "hilum": "{both perihilar regions|the perihilar regions bilaterally}",
    "lateral": "{both lateral chest walls|the lateral pleural surfaces bilaterally}",
    "pleural base": "{both lung bases|the lung bases}",
    "whole": "{both lungs*3|the lungs bilaterally}",
}
_ONE_SIDE_ADJECTIVE = {
    "upper": "$side {upper lobe*4|upper lung*2|upper zone}",
    "middle": "$side {mid lung*4|midlung*2|mid zone}",
    "lower": "$side {lower lobe*4|basilar*3|lower lung*2|basal|base}",
    "apex": "$side apical",
    "hilum": "$side {perihilar*2|hilar}",
    "lateral": "$side lateral",
    "pleural base": "$side {basilar*2|basal}",
    "whole": "$side {|-sided|lung}",
}
_BOTH_SIDES_ADJECTIVE = {
    "upper": "{bilateral upper lobe*3|biapical|bilateral upper lung*2}",
    "middle": "{bilateral mid lung*3|bilateral midlung}",
    "lower": "{bibasilar*6|bilateral lower lobe*3|bilateral basilar*2|bibasal}",
    "apex": "biapical",
    "hilum": "{bilateral perihilar*2|perihilar}",
    "lateral": "bilateral lateral",
    "pleural base": "{bibasilar|bilateral basilar}",
    "whole": "bilateral",
}


def noun(side: str, zone: str) -> str:
    """Template of a place after "in the"; "lungs" where the side is not given."""
    zone = _ZONE_OF.get(zone, zone)
    if side == "both":
        return _BOTH_SIDES_NOUN[zone]
    if side in ("left", "right"):
        return _ONE_SIDE_NOUN[zone].replace("$side", side)
    return "the lungs"


def adjective(side: str, zone: str) -> str:
    """Template of a place before the finding's name; empty where the side is not given."""
    zone = _ZONE_OF.get(zone, zone)
    if side == "both":
        return _BOTH_SIDES_ADJECTIVE[zone]
    if side in ("left", "right"):
        return _ONE_SIDE_ADJECTIVE[zone].replace("$side ", f"{side} ").replace(" -sided", "-sided")
    return ""


def laterality(side: str) -> str:
    """Template of the side alone, before the finding's name."""
    if side == "both":
        return "bilateral"
    if side in ("left", "right"):
        return f"{{{side}*6|{side}-sided}}"
    return ""
