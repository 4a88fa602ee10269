"""Words of easy data augmentation (text/eda.py)."""

from typing import Final

# Never replaced by synonyms. They may be swapped, deleted, and chosen for insertion.
_FUNCTION_WORDS: Final = """
    i me my myself we our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself
    they them their theirs themselves
    what which who whom this that these those when where why how here there
    am is are was were be been being have has had having do does did doing
    can will should a an the and but if or because as until while than so nor
    of at by for with about against between into through during before after
    above below to from up down in out on off over under
    again further then once now just too very only same own
    all any both each few more most other some such no not s t don
"""
FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORDS.split())

# Ours: the words that each name in `protect` covers.
_PROTECTED: Final = {
    "negation": """
        no not nor neither none never without cannot absent absence negative free
        resolved
    """,
    "side": """
        left right bilateral bilaterally unilateral both either
    """,
    "number": """
        one two three four five six seven eight nine ten eleven twelve first second
        third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth
    """,
}
PROTECTED: Final = {name: frozenset(words.split()) for name, words in _PROTECTED.items()}

# Ours: words of reports that may stand for each other, a group a line. WordNet has "gush" for
# effusion and nothing for pneumonia.
_SYNONYMS: Final = """
    opacity, opacification
    opacities, opacifications
    effusion, fluid collection
    effusions, fluid collections
    atelectasis, volume loss
    edema, oedema
    congestion, engorgement
    nodule, nodular density
    fracture, break
    abnormality, anomaly
    abnormalities, anomalies
    normal, unremarkable
    enlarged, increased in size
    large, big
    mild, slight
    mildly, slightly
    moderate, medium
    severe, marked
    severely, markedly
    diffuse, widespread
    focal, localized
    significant, substantial
    prominent, conspicuous
    overt, frank
    basilar, basal
    bibasilar, bibasal
    chest, thorax
    silhouette, contour, outline
    spine, vertebral column
    catheter, line
    tip, end
    terminates, ends
    placed, positioned
    seen, visible, visualized, identified, noted
    demonstrates, shows, reveals
    evidence, sign
    likely, probably
    possibly, perhaps
    consistent, compatible
    reflect, represent
    reflects, represents
    unchanged, stable
    remains, stays
    improved, better
    worsened, progressed
    interval, intervening
    prior, previous, earlier
    study, examination, exam
    radiograph, film
    patient, subject
    compared, relative
    limits, bounds
"""
_GROUPS: Final = [line.strip().split(", ") for line in _SYNONYMS.strip().splitlines()]
SYNONYMS: Final = {
    word: [synonym for synonym in group if synonym != word] for group in _GROUPS for word in group
}
