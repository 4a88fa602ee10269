"""What MedCutMix mixes, beside the truth of the synthetic hospital (ours).

Pairs of two positive images are drawn as the term of that name draws them (Wang et al. 2026, Eq. 1
to 4). A trained model says which region of the source its diagnostic sentences attend to. Of each
pair is asked:

- ``sentence_correct``: the share of the diagnostic sentences that say the finding is present;
- ``attention_in_box``: the share of the region C that lies in the finding's box in the source, and
  beside it ``box_share``, the box's share of the image, which a region of chance has;
- ``source_region``: whether the mixed image shows the source's finding, that is whether at least
  half of its box is the source's; ``target_region``: likewise the target's own, in its box;
- ``side_contradiction``: whether the mixed image shows the finding on a side that the pasted
  sentences do not name; of pairs whose sentences name a side and whose image shows the finding.

Shapes: N images, K pairs, h x w grid, W words, P joint space.
"""

import re
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from cxr_files.errors import InputError
from cxr_hospital.truth import read_truth
from cxr_labels.present import positive_findings
from cxrflow.benchmarks.grounding.patches import annotated_cells
from cxrflow.benchmarks.grounding.settings import MixedPairsSettings
from cxrflow.benchmarks.inputs import drop_rows, read_frames
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.model_pixels import stored_squares
from cxrflow.benchmarks.result import CountedStatistic, Predictions, means, slug
from cxrflow.data.true_boxes import read_true_boxes
from cxrflow.metrics.intervals import Floats
from cxrflow.objectives.cutmix import sentence_regions
from cxrflow.similarity.words import WordReader
from cxrflow.text.cleaned_reports import cleaned_sentences, cleaned_words
from cxrflow.text.diagnostic_sentences import DiagnosticSentences, ReadReport, read_report
from cxrflow.text.report_batch import ReportSentence, cut_sentences
from cxrflow.text.sentences import sentences_of
from cxrflow.text.tokenizer import VocabularyInfo
from cxrflow.training.positive_pairs import PositivePair, draw_pairs

COLUMNS = ("subject_id", "study_id", "image_id", "split", "labels", "findings", "impression")
MEASURES = (
    *("sentence_correct", "attention_in_box", "box_share", "source_region", "target_region"),
    "side_contradiction",
)
SHOWN = 0.5  # share of a box that is mixed in from where its finding then shows
_SIDE = re.compile(r"\b(left|right|bilateral\w*|both|bi(?:basilar|basal|apical))\b")


class Truth(NamedTuple):
    """What the hospital knows, by study or image and class."""

    sentences: dict[tuple[str, str], set[str]]  # that say the finding is present
    boxes: dict[tuple[str, str], list[list[float]]]  # x, y, w, h in pixels of the image


def truth_of(inputs: ModelInputs, settings: MixedPairsSettings) -> Truth:
    """Read the two tables; sentences are cut as those of the reports, and their words cleaned."""
    keys = ["study_id", "observation"]
    sentences = read_truth(inputs.options.truth, "sentences", (*keys, "sentence"))
    stated: dict[tuple[str, str], set[str]] = {}
    for study, name, sentence in sentences[[*keys, "sentence"]].itertuples(index=False):
        statements = (
            [s.cleaned for s in cleaned_sentences([sentence])] if settings.cleaned else [sentence]
        )
        stated.setdefault((str(study), name), set()).update(map(cleaned_words, statements))
    return Truth(stated, read_true_boxes(inputs.options.truth))


def read_reports(
    table: pd.DataFrame, model: Any, vocabulary: VocabularyInfo, settings: MixedPairsSettings
) -> list[ReadReport]:
    """The sentences of each report, up to the longest text, and what each is diagnostic of."""
    missing = sorted(set(settings.sections) - set(table))
    if missing:
        raise InputError(f"pairs.parquet: column '{missing[0]}' is missing")
    if settings.cleaned:
        sections = zip(*(table[name] for name in settings.sections), strict=True)
        reports = [
            [(s.cleaned, s.written) for s in cleaned_sentences(report)] for report in sections
        ]
    else:
        by_section = (sentences_of(table, name) for name in settings.sections)
        reports = [
            [(s, s) for section in report for s in section]
            for report in zip(*by_section, strict=True)
        ]
    distinct = list(dict.fromkeys(sentence for report in reports for sentence, _ in report))
    encoded = model.tokenizer.encode_batch_fast(distinct, add_special_tokens=False)
    tokens = {
        s: np.array(encoding.ids, np.int32) for s, encoding in zip(distinct, encoded, strict=True)
    }
    finder = positive_findings if settings.sentences == "labeller" else None
    diagnostic = DiagnosticSentences(settings.classes, finder)
    texts = []
    for report in reports:
        sentences = (ReportSentence(written, tokens[sentence]) for sentence, written in report)
        kept_sentences = cut_sentences(sentences, settings.length)
        texts.append(read_report(kept_sentences, diagnostic, vocabulary.continues))
    return texts


class Sources(NamedTuple):
    """Patches [h * w, P] and words [W, P] of images and their reports, both of length 1."""

    patches: dict[int, Tensor]
    words: dict[int, Tensor]
    grid: tuple[int, int]


@torch.inference_mode()
def encode_sources(
    inputs: ModelInputs,
    table: pd.DataFrame,
    reports: Sequence[ReadReport],
    rows: Sequence[int],
    vocabulary: VocabularyInfo,
    settings: MixedPairsSettings,
) -> Sources:
    """Encode the images and reports of ``rows``, each once."""
    model, pixels = inputs.model, inputs.pixels
    reader = WordReader.of(vocabulary, settings.layers, cls_is_word=False)
    stored = pixels.rows(table["image_id"])
    sources = Sources({}, {}, (0, 0))
    for start in range(0, len(rows), settings.batch_size):
        block = list(rows[start : start + settings.batch_size])
        frames = read_frames(pixels, stored[block])
        patch_BhwP = model.encode_image(frames).projected_patches
        sources = sources._replace(grid=(patch_BhwP.shape[1], patch_BhwP.shape[2]))
        texts = [
            torch.tensor(
                [vocabulary.cls_, *(t for s in r.sentences for t in s.tokens), vocabulary.sep]
            )
            for r in (reports[row] for row in block)
        ]
        ids_BL = pad_sequence(texts, batch_first=True, padding_value=vocabulary.pad)
        mask_BL = pad_sequence([torch.ones_like(text) for text in texts], batch_first=True)
        encoder = model.text_encoder
        states = encoder.last_states(ids_BL.to(model.device), mask_BL, settings.layers)
        words = reader(encoder, states, ids_BL)
        for place, row in enumerate(block):
            sources.patches[row] = patch_BhwP[place].flatten(0, 1).float().cpu()
            word_WP = words.word_BWD[place, : words.lengths[place]]
            sources.words[row] = normalize(word_WP.float(), dim=1).cpu()
    return sources


def region_of(
    pair: PositivePair, report: ReadReport, sources: Sources, settings: MixedPairsSettings
) -> Floats:
    """C of Eq. 2, [h * w]: how much of each patch the pair's sentences attend to."""
    places = report.of(pair.class_number, settings.first)
    is_word_W = torch.from_numpy(np.isin(report.word_sentence, places))
    region_1M = sentence_regions(
        sources.patches[pair.source][None],
        sources.words[pair.source][None],
        is_word_W[None],
        settings.region_temperature,
        settings.region,
    )
    return region_1M[0].double().numpy()


def sides_named(sentences: Sequence[str]) -> set[str]:
    """The patient's sides that sentences name."""
    words = {word for sentence in sentences for word in _SIDE.findall(sentence.lower())}
    return ({"left", "right"} if words - {"left", "right"} else set()) | (words & {"left", "right"})


def sides_of(boxes: Sequence[Sequence[float]], width: int) -> set[str]:
    """The patient's sides that boxes lie on: the patient's right is on the image's left."""
    return {"right" if x + w / 2 < width / 2 else "left" for x, _, w, _ in boxes}


def measure_pair(
    region_M: Floats, inside_source_M: Floats, inside_target_M: Floats
) -> dict[str, float]:
    """The measures of a region by the parts [h * w] of all cells that lie in either box."""

    def share(values_M: Floats, weights_M: Floats) -> float:
        total = weights_M.sum()
        return float((values_M * weights_M).sum() / total) if total > 0 else np.nan

    source, target = share(region_M, inside_source_M), share(1 - region_M, inside_target_M)
    return {
        "attention_in_box": share(inside_source_M, region_M) if source == source else np.nan,
        "box_share": float(inside_source_M.mean()) if source == source else np.nan,
        "source_region": float(source >= SHOWN) if source == source else np.nan,
        "target_region": float(target >= SHOWN) if target == target else np.nan,
    }


def predict(inputs: ModelInputs, settings: MixedPairsSettings) -> Predictions:
    """Draw pairs, mix them as the model would, and compare with the truth."""
    model, truth = inputs.model, truth_of(inputs, settings)
    rows = inputs.rows(settings.split)
    rows = rows.assign(sample_id=rows["image_id"])
    absent = {"image is not in the pixel store": ~inputs.pixels.holds(rows["image_id"].fillna(""))}
    table, dropped = drop_rows(rows, absent)
    classes = inputs.cohort.classes
    strange = [name for name in settings.classes if name not in classes]
    if strange:
        raise InputError(
            f"settings: key 'classes' names '{strange[0]}'; the cohort has {', '.join(classes)}"
        )
    vocabulary = VocabularyInfo.from_tokenizer(model.tokenizer)
    reports = read_reports(table, model, vocabulary, settings)
    labels_NC = np.stack(table["labels"].tolist())[:, [classes.index(c) for c in settings.classes]]
    stated_NC = np.zeros(labels_NC.shape, dtype=bool)
    for row, report in enumerate(reports):
        stated_NC[row, list(frozenset().union(*report.classes))] = True
    patients_N = table["subject_id"].fillna(table["image_id"]).to_numpy("str")
    positive_NC = (labels_NC == 1) & stated_NC
    pairs = draw_pairs(positive_NC, patients_N, settings.pairs, Random(settings.seed))
    if not pairs:
        raise InputError(
            f"{inputs.source}: no class has two patients of split '{settings.split}' that are "
            "positive and whose report has a diagnostic sentence; expected some to pair"
        )
    sources = encode_sources(
        inputs, table, reports, sorted({p.source for p in pairs}), vocabulary, settings
    )
    scored = score_pairs(pairs, table, reports, sources, truth, inputs, settings)
    return Predictions(
        scored,
        statistic(scored, settings),
        {
            "pictures": inputs.pixels.fingerprint,
            "samples": len(scored),
            "pairs": {name: int((scored["category"] == name).sum()) for name in settings.classes},
            "dropped": dropped,
        },
        {"geometry": str(inputs.pixels.geometry), "grid": list(sources.grid)},
    )


def score_pairs(
    pairs: Sequence[PositivePair],
    table: pd.DataFrame,
    reports: Sequence[ReadReport],
    sources: Sources,
    truth: Truth,
    inputs: ModelInputs,
    settings: MixedPairsSettings,
) -> pd.DataFrame:
    """Return a row a pair, of the source's patient."""
    squares = stored_squares(inputs.pixels)
    index = squares.index.set_index("image_id").loc[table["image_id"]]
    heights, widths = (index[f"original_{side}"].to_numpy() for side in ("height", "width"))
    images, studies = (table[name].astype(str).tolist() for name in ("image_id", "study_id"))

    def boxes_of(row: int, name: str) -> list[list[float]]:
        return truth.boxes.get((images[row], name), [])

    def inside(row: int, name: str) -> NDArray[np.float64]:
        size = {"image_height": heights[row], "image_width": widths[row]}
        sample = pd.DataFrame([{**size, "boxes": boxes_of(row, name)}])
        return annotated_cells(sample, squares.geometry, sources.grid, "stored")[0][0]

    scored = []
    for pair in pairs:
        name, (source, target, number) = settings.classes[pair.class_number], pair
        pasted = [
            reports[source].sentences[place].text
            for place in reports[source].of(number, settings.first)
        ]
        true = truth.sentences.get((studies[source], name), set())
        measures = measure_pair(
            region_of(pair, reports[source], sources, settings),
            inside(source, name),
            inside(target, name),
        )
        visible: set[str] = set()
        for row, measure in ((source, "source_region"), (target, "target_region")):
            if measures[measure] == 1:
                visible |= sides_of(boxes_of(row, name), widths[row])
        named_sides = sides_named(pasted)
        scored.append(
            {
                "sample_id": f"{images[source]}>{images[target]}/{slug(name)}",
                "subject_id": table["subject_id"].iloc[source],
                "category": name,
                "sentence_correct": float(np.mean([cleaned_words(s) in true for s in pasted])),
                **measures,
                "side_contradiction": float(bool(visible - named_sides))
                if visible and named_sides
                else np.nan,
            }
        )
    return pd.DataFrame(scored)


def statistic(predictions: pd.DataFrame, settings: MixedPairsSettings) -> CountedStatistic:
    """The mean of each measure over all pairs, and over those of each class."""
    everything = np.ones(len(predictions), dtype=bool)
    groups = {"": everything}
    for name in dict.fromkeys(predictions["category"]):
        groups[f"/{slug(name)}"] = (predictions["category"] == name).to_numpy()
    return means(
        {
            f"{measure}{group}": (predictions[measure].to_numpy("float64"), rows)
            for measure in MEASURES
            for group, rows in groups.items()
        }
    )
