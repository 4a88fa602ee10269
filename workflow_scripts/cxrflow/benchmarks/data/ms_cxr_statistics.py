"""Statistics of MS-CXR by finding: phrases, images, patients and demographics (BioViL Table C.1).

BioViL Appendix C, "General Overview", "Analysis of Average Phrase Length" and "Patient
Demographics". No model: counted are the files as published, before any cohort filter.
A pair is a phrase with all its boxes on one image. Sex and age come from MIMIC-IV; without it, or
for patients it lacks, they are unknown and left out of shares and means.

metrics.json holds ``<name>/<group>`` for each finding (``pleural_effusion`` …), ``total`` and
``background``, all of MIMIC-CXR: ``subjects``, ``women``, ``women_percent`` (of those whose sex is
known), ``age`` and ``age_sd`` (years, n − 1), ``without_demographics``; for findings and ``total``
also ``pairs``, ``images`` and ``tokens``, the mean length of a phrase, and how far boxes reach
(``box_share``, ``box_share_median``, ``several_boxes``), drawn by finding; for ``total`` the share
of images with ``several_phrases`` (Figure C.1's axes).
"""

import re

import pandas as pd

from cxr_files.atomic import fingerprint, is_synthetic
from cxr_files.drops import Tally
from cxr_files.errors import InputError
from cxrflow.benchmarks.data.box_positions import draw, spread, union_maps
from cxrflow.benchmarks.data.settings import MsCxrStatisticsSettings
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.result import Predictions, slug
from cxrflow.data.layouts import layout
from cxrflow.data.readers import mimic_iv, ms_cxr
from cxrflow.data.readers.common_tables import Request, Tables
from cxrflow.metrics.intervals import Estimate

WORD_OR_MARK = re.compile(r"\w+(?:[-'’/.]\w+)*|[^\w\s]")
# Rows of Table C.1; a finding that the file lacks counts 0.
FINDINGS = (
    *("atelectasis", "cardiomegaly", "consolidation", "edema", "lung_opacity"),
    *("pleural_effusion", "pneumonia", "pneumothorax"),
)
TOTAL, BACKGROUND = "total", "background"


def phrase_length(phrase: str, settings: MsCxrStatisticsSettings) -> int:
    """Return the tokens of a phrase: words, or words and punctuation marks, and its full stop."""
    text = phrase.strip()
    stopped = text.endswith(".")
    if settings.tokens == "words":
        # split() leaves the full stop on the last word; the paper counts it as a token.
        count = len(text.split()) + stopped
    else:
        count = len(WORD_OR_MARK.findall(text))
    return count + (settings.full_stop == "always" and not stopped)


def pairs_of(tables: Tables, settings: MsCxrStatisticsSettings) -> pd.DataFrame:
    """Return a row for each phrase of an image: ids, category, number of tokens and of boxes."""
    keys = ["image_id", "category", "phrase"]
    pairs = tables.boxes.groupby(keys, sort=False).size().rename("boxes").reset_index()
    owners = tables.images.set_index("image_id")
    for name in ("study_id", "subject_id"):
        pairs[name] = pairs["image_id"].map(owners[name])
    pairs["tokens"] = [phrase_length(phrase, settings) for phrase in pairs["phrase"]]
    return pairs.drop(columns="phrase")


def study_years(studies: Tables) -> pd.DataFrame:
    """Return ``study_id``, ``subject_id`` and shifted ``year`` (NaN: unknown) of all studies."""
    images = studies.images[["study_id", "subject_id", "study_time"]]
    years = pd.to_numeric(images["study_time"].str.slice(0, 4), errors="coerce")
    dated = images.assign(year=years).groupby("study_id", sort=False)["year"].min()
    table = studies.studies[["study_id", "subject_id"]]
    return table.assign(year=table["study_id"].map(dated))


def people(
    visits: pd.DataFrame, patients: pd.DataFrame | None, settings: MsCxrStatisticsSettings
) -> dict[str, float]:
    """Return statistics of the patients of ``visits`` (``subject_id``, ``year``), each once.

    A patient's age is that at the first of these visits, or the anchor age (``age: anchor``).
    """
    first = visits.groupby("subject_id", sort=False)["year"].min().reset_index()
    subjects = {"subjects": float(len(first))}
    if patients is None:
        return subjects
    demographics = patients.set_index("subject_id")
    gender = first["subject_id"].map(demographics["gender"])
    women, with_sex = int((gender == "F").sum()), int(gender.notna().sum())
    if settings.age == "anchor":
        age = first["subject_id"].map(demographics["anchor_age"]).astype("float64")
    else:
        age = mimic_iv.ages(patients, first["subject_id"], first["year"])
    return subjects | {
        "women": float(women),
        "women_percent": 100 * women / with_sex if with_sex else float("nan"),
        "age": float(age.mean()),
        "age_sd": float(age.std(ddof=1)),
        "without_demographics": float(len(first) - with_sex),
    }


def count(
    pairs: pd.DataFrame,
    years: pd.DataFrame,
    patients: pd.DataFrame | None,
    settings: MsCxrStatisticsSettings,
) -> dict[str, Estimate]:
    """Return all metrics; ``n``: patients, or pairs for the mean length of a phrase."""
    by_study = years.set_index("study_id")["year"]
    dated = pairs.assign(year=pairs["study_id"].map(by_study))
    names = dated["category"].map(slug)
    groups = {name: dated[names == name] for name in dict.fromkeys([*FINDINGS, *names])}
    metrics: dict[str, Estimate] = {}
    for name, group in {**groups, TOTAL: dated, BACKGROUND: years}.items():
        values = people(group, patients, settings)
        size = int(values["subjects"])
        if name != BACKGROUND:
            values |= {"pairs": float(len(group)), "images": float(group["image_id"].nunique())}
            metrics[f"tokens/{name}"] = Estimate.counted(group["tokens"].mean(), len(group))
        metrics |= {f"{key}/{name}": Estimate.counted(value, size) for key, value in values.items()}
    return metrics


def predict(inputs: Inputs, settings: MsCxrStatisticsSettings) -> Predictions:
    """Count the phrases, boxes and patients of the published files."""
    options = inputs.options
    annotated = ms_cxr.read(options.root, Request())
    studies = layout(options.studies_layout).read(options.studies_root, Request(options.threads))
    pairs, years = pairs_of(annotated, settings), study_years(studies)
    limit = settings.max_failed_share
    damaged = [drop for drops in annotated.dropped.values() for drop in drops]
    steps = [Tally("boxes listed", "rows", len(annotated.boxes), damaged)]
    steps[0].require_few(options.root, limit)
    patients = None
    if options.demographics is not None:
        patients, damaged = mimic_iv.read_patients(options.demographics)
        steps.append(Tally("patients listed", "rows", len(patients), damaged))
        steps[1].require_few(options.demographics, limit)
    if pairs.empty:
        raise InputError(f"{options.root}: no phrase is left; see {steps[0].drops}")
    metrics = count(pairs, years, patients, settings)
    maps = union_maps(annotated)
    names = maps["category"].map(slug)
    by_finding = {name: maps[names == name] for name in dict.fromkeys([*FINDINGS, *names])}
    for name, group in {**by_finding, TOTAL: maps}.items():
        metrics |= {
            f"{k}/{name}": Estimate.counted(v, len(group)) for k, v in spread(group).items()
        }
    phrases = maps["image_id"].value_counts()
    metrics[f"several_phrases/{TOTAL}"] = Estimate.counted((phrases > 1).mean(), len(phrases))
    undated = int(pairs["study_id"].map(years.set_index("study_id")["year"]).isna().sum())
    data = {
        "name": options.dataset,
        "synthetic": is_synthetic(options.root),
        "fingerprint": fingerprint(
            [
                pairs.to_csv(index=False),
                years.to_csv(index=False),
                "" if patients is None else patients.to_csv(index=False),
            ]
        ),
        "pairs": len(pairs),
        "pairs_without_study_date": undated,
        "dropped": [drop.as_json() for step in steps for drop in step.drops],
    }
    demographics = "none" if patients is None else "MIMIC-IV, hosp/patients"
    return Predictions(
        pairs,
        None,
        data,
        {"demographics": demographics},
        metrics,
        lambda metrics: [draw(by_finding)],
    )
