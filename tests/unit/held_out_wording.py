"""Reports in a wording of their own, with the labels that they state: a held-out grammar.

The synthetic hospital's own reports and the labeller's rules come from one project, so that good
scores of one on the other prove little. This grammar was written without a look at either: its
templates stand in ``held_out_wording.tsv``, and here they are filled, joined, slipped with the pen
and laid out as reports. What is found follows the hospital's patients, so the mix of findings is
the same. The conventions for labels are those of ``label_sentences/README.md``.
Two templates of the uncertain Pleural Other were reworded after a first run, because their labels
were open to doubt; nothing else was changed after the labeller had been seen at work.
"""

import csv
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cxrflow.phantom.patient import Study

NAMES = {
    "ECM": "Enlarged Cardiomediastinum", "CM": "Cardiomegaly", "LL": "Lung Lesion",
    "LO": "Lung Opacity", "ED": "Edema", "CO": "Consolidation", "PN": "Pneumonia",
    "AT": "Atelectasis", "PT": "Pneumothorax", "PE": "Pleural Effusion", "PO": "Pleural Other",
    "FX": "Fracture", "SD": "Support Devices",
}  # fmt: skip
CODES = {name: code for code, name in NAMES.items()}
SIGNS = {"+": 1, "-": 0, "?": -1}
STATES = {"present": "+", "absent": "-", "uncertain": "?"}
TEMPLATES_FILE = Path(__file__).with_suffix(".tsv")

SLOTS: Mapping[str, Sequence[str]] = {
    "side": ("left", "right"),
    "lobe": (
        "right upper lobe", "right middle lobe", "right lower lobe", "left upper lobe",
        "left lower lobe", "lingula",
    ),
    "base": ("left base", "right base", "left lung base", "right lung base"),
    "size": ("small", "tiny", "moderate", "large", "moderate-sized"),
    "grade": ("minimal", "mild", "moderate", "severe", "mild to moderate"),
    "gradely": ("mildly", "slightly", "moderately", "severely"),
    "mm": ("4 mm", "7 mm", "1.2 cm", "9-mm", "___ mm", "2.5 x 3 cm"),
    "cm": ("3 cm", "4.5 cm", "approximately 5 cm", "___ cm"),
    "rib": ("fourth", "fifth", "sixth", "seventh", "8th", "9th"),
    "date": ("___", "the prior study", "the previous exam", "yesterday", "XXXX"),
    "same": ("is unchanged", "is stable", "has not changed", "shows no change", "persists"),
    "worse": ("has increased", "has worsened", "has progressed", "is more extensive"),
    "more": ("has increased", "is larger", "has enlarged", "is slightly bigger"),
    "less": ("has decreased", "is smaller", "has improved", "is less conspicuous"),
    "eases": ("has improved", "is improving", "has decreased", "is resolving"),
    "seen": ("is seen", "is present", "is identified", "is evident", "is demonstrated"),
}  # fmt: skip
# Words that de-identification may have blanked without a change of meaning.
BLANKED = {"size", "grade"}

# What a list of findings calls them: absent or in doubt, and present.
BARE: Mapping[str, Sequence[str]] = {
    "ECM": ("mediastinal widening",),
    "CM": ("cardiomegaly",),
    "LL": ("pulmonary mass", "lung nodule"),
    "LO": ("infiltrate", "airspace disease", "focal opacity"),
    "ED": ("pulmonary edema", "edema", "interstitial edema"),
    "CO": ("consolidation", "focal consolidation", "airspace consolidation"),
    "PN": ("pneumonia", "infection"),
    "AT": ("atelectasis", "lobar collapse"),
    "PT": ("pneumothorax",),
    "PE": ("pleural effusion", "effusion", "pleural fluid"),
    "PO": ("pleural thickening", "fibrosis"),
    "FX": ("rib fracture", "acute fracture", "displaced fracture"),
}
THING: Mapping[str, Sequence[str]] = {
    "ECM": ("a widened mediastinum", "mediastinal widening"),
    "CM": ("{grade} cardiomegaly", "an enlarged heart"),
    "LL": ("a {mm} nodule in the {lobe}", "a {lobe} mass", "a {side} lung nodule"),
    "LO": ("a {lobe} opacity", "an infiltrate at the {base}", "bilateral airspace disease"),
    "ED": ("{grade} pulmonary edema", "interstitial edema"),
    "CO": ("{lobe} consolidation", "dense consolidation at the {base}"),
    "PN": ("{lobe} pneumonia", "a pneumonia at the {base}"),
    "AT": ("bibasilar atelectasis", "{grade} atelectasis at the {base}", "{lobe} collapse"),
    "PT": ("a {size} {side} pneumothorax", "a {side} apical pneumothorax"),
    "PE": ("a {size} {side} pleural effusion", "bilateral effusions", "a trace {side} effusion"),
    "PO": ("{side} pleural thickening", "pulmonary fibrosis"),
    "FX": ("a {side} {rib} rib fracture", "a fracture of the {side} clavicle"),
    "SD": ("an endotracheal tube", "a {side} chest tube", "a {side} PICC", "a pacemaker"),
}
# Joint sentences; a, b, c and d are absent, p and q present, u and v in doubt.
JOINT = (
    "no {a} or {b}", "no {a}, {b}, or {c}", "no evidence of {a}, {b} or {c}",
    "there is no {a}, {b}, {c}, or {d}", "neither {a} nor {b} is seen", "no {a} and no {b}",
    "negative for {a}, {b}, and {c}", "{a}, {b}, and {c} are absent",
    "no acute process: no {a}, no {b}, no {c}", "the chest is free of {a} and {b}",
    "there is {p} and {q}", "there is {p} with {q}", "{p}, {q}", "again seen are {p} and {q}",
    "there is {p} without {a}", "{p} and {q} without {a}", "there is {p}, but no {a}",
    "{p}; no {a} or {b}", "although there is {p}, no {a} or {b} is seen",
    "no {a}, but there is {p}", "no {a} or {b}; however, there is {p}",
    "note is made of {p}, with no evidence of {a}", "except for {p}, there is no {a} or {b}",
    "there is {p}; {u} cannot be excluded", "{p}, and possible {u}", "no {a}; possible {u}",
    "there is no {a}, although {u} cannot be excluded", "findings may represent {u} or {v}",
    "{u} versus {v}", "either {u} or {v}", "questionable {u}, without {a}",
)  # fmt: skip
# Findings that can stand for each other when a reader is in doubt.
PARENCHYMAL = {"LO", "ED", "CO", "PN", "AT", "PE"}
HEADS = {
    **dict.fromkeys(("LL", "LO", "ED", "CO", "PN", "AT"), "Lungs"),
    **dict.fromkeys(("PT", "PE", "PO"), "Pleura"),
    "CM": "Heart", "ECM": "Mediastinum", "FX": "Bones", "SD": "Lines and tubes",
}  # fmt: skip
OPENINGS = (
    "compared to {date}, ", "in comparison with {date}, ", "as compared to the film of ___, ",
    "relative to {date}, ",
)  # fmt: skip
INDICATIONS = ("Cough and dyspnea.", "___ year old with chest pain.", "Preoperative study.", "___.")
# The chances of each habit of writing.
TYPO, BLANK_WORD, OPENING, HEADED, JOINED, NUMBERED = 0.05, 0.06, 0.08, 0.12, 0.5, 0.5


@dataclass(frozen=True)
class Sentence:
    """One sentence, its labels as (observation, value), and the templates that made it."""

    text: str
    labels: tuple[tuple[str, int], ...]
    templates: tuple[str, ...]


@dataclass(frozen=True)
class HeldOutReport:
    """A report's text, the sentences of both sections, and the labels that it states as a whole.

    ``labels`` maps an observation to 1, 0 or -1; what is not mentioned is missing.
    """

    text: str
    findings: tuple[Sentence, ...]
    impression: tuple[Sentence, ...]
    labels: dict[str, int]


def read_codes(codes: str) -> tuple[tuple[str, int], ...]:
    """``"PE+ PT-"`` as (observation, value) pairs; ``"none"`` as nothing."""
    if codes == "none":
        return ()
    return tuple((NAMES[code[:-1]], SIGNS[code[-1]]) for code in codes.split())


def read_templates() -> dict[str, list[tuple[str, str]]]:
    """By first code (``"PE+"``, ``"none"``), the codes and the template of each line."""
    found = defaultdict(list)
    with TEMPLATES_FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            found[row["labels"].split()[0]].append((row["labels"], row["template"]))
    return dict(found)


def combine(sentences: Iterable[Sentence]) -> dict[str, int]:
    """The labels of several sentences: positive outranks uncertain outranks negative."""
    labels: dict[str, int] = {}
    for name, value in (pair for sentence in sentences for pair in sentence.labels):
        if labels.get(name) != 1 and (value or name not in labels):
            labels[name] = value
    return labels


def slip(rng: np.random.Generator, text: str) -> str:
    """One slip inside one long word: two letters swapped, one dropped or one doubled."""
    words = [match for match in re.finditer(r"[A-Za-z]{7,}", text)]
    if not words:
        return text
    word = words[int(rng.integers(len(words)))]
    at = word.start() + int(rng.integers(2, len(word.group()) - 2))
    kind = int(rng.integers(3))
    middle = (text[at + 1] + text[at], text[at + 1], text[at] * 2 + text[at + 1])[kind]
    return text[:at] + middle + text[at + 2 :]


def states_of(study: Study, rng: np.random.Generator) -> dict[str, str]:
    """The hospital's findings of a study as states, with what else a reader may remark on.

    Resolved findings are absent. The rest is absent, uncertain or not mentioned by chance, and
    the two observations that the hospital does not draw are now and then present.
    """
    there = {f.name for f in study.findings if f.kind != "sternal wires"}
    gone = {f.name for f in study.resolved if f.kind != "sternal wires"} - there
    states = {}
    for code, name in NAMES.items():
        drawn = rng.random()
        if name in there or (code in ("ECM", "PO") and drawn > 0.92):
            states[name] = "present"
        elif name in gone or drawn < (0.05 if code == "SD" else 0.4):
            states[name] = "absent"
        elif drawn < 0.5 and code != "SD":
            states[name] = "uncertain"
        else:
            states[name] = "not mentioned"
    return states


class Writer:
    """Writes reports one after the other; everything follows from the seed.

    Templates are dealt from shuffled decks, so that each is used once before any is used again.
    """

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.templates = {**read_templates(), "joint": [("", text) for text in JOINT]}
        self._decks: dict[str, list[int]] = defaultdict(list)

    def _chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _pick(self, choices: Sequence[str]) -> str:
        return choices[int(self.rng.integers(len(choices)))]

    def _deal(
        self, key: str, fits: Callable[[str], bool] = lambda text: True
    ) -> tuple[str, str] | None:
        """The next template of a deck that fits, or None."""
        cards = self.templates[key]
        for _ in range(2):
            deck = self._decks[key]
            for place, card in enumerate(deck):
                if fits(cards[card][1]):
                    return cards[deck.pop(place)]
            missing = [int(c) for c in self.rng.permutation(len(cards)) if c not in deck]
            self._decks[key] = deck + missing
        return None

    def _fill(self, text: str) -> str:
        def chosen(match: re.Match[str]) -> str:
            slot = match.group(1)
            blank = slot in BLANKED and self._chance(BLANK_WORD)
            return "XXXX" if blank else self._pick(SLOTS[slot])

        while "{" in text:
            text = re.sub(r"\{(\w+)\}", chosen, text)
        return text

    def single(self, key: str) -> Sentence:
        """A sentence from one template of ``key``, such as ``"PE+"`` or ``"none"``."""
        dealt = self._deal(key)
        assert dealt is not None, key
        codes, template = dealt
        text = self._fill(template)
        if key != "none" and self._chance(HEADED):
            text = f"{HEADS[key[:-1]]}: {text}"
        elif key != "none" and self._chance(OPENING):
            text = self._fill(self._pick(OPENINGS)) + text
        return Sentence(text, read_codes(codes), (template,))

    def joint(self, left: dict[str, list[str]]) -> Sentence | None:
        """A sentence on several findings, which are taken out of ``left`` (codes by state)."""
        roles = {"absent": "abcd", "present": "pq", "uncertain": "uv"}

        def fits(text: str) -> bool:
            counts = {
                state: sum(f"{{{role}}}" in text for role in named)
                for state, named in roles.items()
            }
            return all(count <= len(left[state]) for state, count in counts.items()) and (
                counts["uncertain"] < 2
                or sum(code in PARENCHYMAL for code in left["uncertain"]) >= 2
            )

        dealt = self._deal("joint", fits)
        if dealt is None:
            return None
        template = text = dealt[1]
        labels = []
        for state, named in roles.items():
            wanted = [role for role in named if f"{{{role}}}" in text]
            if len(wanted) == 2 and state == "uncertain":
                left[state].sort(key=lambda code: code not in PARENCHYMAL)
            for role in wanted:
                code = left[state].pop(0)
                phrases = THING if state == "present" else BARE
                text = text.replace(f"{{{role}}}", self._pick(phrases[code]))
                labels.append((NAMES[code], SIGNS[STATES[state]]))
        return Sentence(self._fill(text), tuple(labels), (template,))

    def _clauses(self, first: Sentence, second: Sentence) -> Sentence:
        """Two sentences as two clauses of one."""
        values = {dict(s.labels).get(name) for s in (first, second) for name, _ in s.labels}
        plain = {len(first.labels), len(second.labels)} == {1} and ":" not in first.text
        opposed = plain and values == {0, 1} and first.labels[0][1] != second.labels[0][1]
        between = self._pick((", but ", "; ", "; however, ") if opposed else ("; ",))
        return Sentence(
            first.text + between + second.text,
            first.labels + second.labels,
            first.templates + second.templates,
        )

    def _finished(self, sentence: Sentence) -> Sentence:
        text = slip(self.rng, sentence.text) if self._chance(TYPO) else sentence.text
        return Sentence(text[0].upper() + text[1:] + ".", sentence.labels, sentence.templates)

    def section(self, states: Mapping[str, str], remarks: int) -> tuple[Sentence, ...]:
        """Sentences that state ``states``, and ``remarks`` sentences that state nothing."""
        left: dict[str, list[str]] = {state: [] for state in STATES}
        for name, state in states.items():
            if state in STATES:
                left[state].append(CODES[name])
        for codes in left.values():
            self.rng.shuffle(codes)
        absent_device = "SD" in left["absent"]
        if absent_device:  # its absence is told by removals, never in a list
            left["absent"].remove("SD")
        sentences = []
        while self._chance(JOINED) and (made := self.joint(left)):
            sentences.append(made)
        singles = [code + STATES[state] for state, codes in left.items() for code in codes]
        singles += ["SD-"] * absent_device + ["none"] * remarks
        sentences += [self.single(key) for key in singles]
        order = self.rng.permutation(len(sentences))
        sentences = [sentences[place] for place in order]
        done: list[Sentence] = []
        for sentence in sentences:
            room = done and len(done[-1].templates) == 1 and len(sentence.templates) == 1
            tidy = ":" not in sentence.text and not sentence.text.startswith(("comp", "in comp"))
            if room and tidy and self._chance(0.15):
                done[-1] = self._clauses(done[-1], sentence)
            else:
                done.append(sentence)
        return tuple(self._finished(sentence) for sentence in done)

    def write(self, states: Mapping[str, str]) -> HeldOutReport:
        """One report on ``states``: observation to present, absent, uncertain or not mentioned.

        The impression says again most of what is there or in doubt, and little of what is not.
        """
        findings = self.section(states, int(self.rng.integers(3)))
        shares = {"present": 0.85, "uncertain": 0.7, "absent": 0.3, "not mentioned": 0.0}
        again = {name: s for name, s in states.items() if self._chance(shares[s])}
        impression = self.section(again, 0)
        parts = [" EXAMINATION:  Chest radiograph", f" INDICATION:  {self._pick(INDICATIONS)}"]
        if findings:
            parts += [" FINDINGS: ", _wrapped(" ".join(s.text for s in findings))]
        if impression and self._chance(NUMBERED):
            items = (f"{number}. {s.text}" for number, s in enumerate(impression, start=1))
            parts += [" IMPRESSION: ", "\n".join(map(_wrapped, items))]
        elif impression:
            parts += [" IMPRESSION: ", _wrapped(" ".join(s.text for s in impression))]
        text = "\n".join([f"{'FINAL REPORT':>45}", "\n \n".join(parts), ""])
        return HeldOutReport(text, findings, impression, combine(findings + impression))


def _wrapped(text: str) -> str:
    """Lines of at most 78 characters that start with a blank, as in MIMIC-CXR."""
    return textwrap.fill(
        text, 78, initial_indent=" ", subsequent_indent=" ", break_on_hyphens=False
    )
