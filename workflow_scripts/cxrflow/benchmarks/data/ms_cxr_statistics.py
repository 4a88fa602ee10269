"""What MS-CXR holds, by finding: phrases, images, patients and who they are (BioViL Table C.1).

BioViL Appendix C, "General Overview", "Analysis of Average Phrase Length" and "Patient
Demographics". No model: everything is counted in the files as published, before any cohort filter.
A pair is a phrase with all its boxes on one image. Sex and age come from MIMIC-IV; without it, or
for patients it lacks, they are not known and are left out of shares and means.

metrics.json holds ``<name>/<group>`` for each finding (``pleural_effusion`` …), ``total`` and
``background``, all of MIMIC-CXR: ``subjects``, ``women``, ``women_percent`` (of those whose sex is
known), ``age`` and ``age_sd`` (years, n − 1), ``without_demographics``; for findings and ``total``
also ``pairs``, ``images`` and ``tokens``, the mean length of a phrase, and how far boxes reach
(``box_share``, ``box_share_median``, ``several_boxes``), drawn by finding; for ``total`` the share
of images with ``several_phrases`` (Figure C.1's axes).
"""

import logging
import re
from argparse import Namespace

import pandas as pd

from cxrflow.benchmarks.data.box_positions import draw, spread, union_maps
from cxrflow.benchmarks.data.settings import MsCxrStatisticsSettings
from cxrflow.benchmarks.result import Result, slug
from cxrflow.data.layouts import layout
from cxrflow.data.readers import mimic_iv, ms_cxr
from cxrflow.data.readers.common_tables import Request, Tables
from cxrflow.errors import InputError
from cxrflow.files.atomic import fingerprint, is_synthetic
from cxrflow.files.drops import Tally
from cxrflow.metrics.intervals import Estimate

log = logging.getLogger("cxrflow")

WORD_OR_MARK = re.compile(r"\w+(?:[-'’/.]\w+)*|[^\w\s]")
# Rows of Table C.1; a finding that the file lacks is counted as none.
FINDINGS = (
    *("atelectasis", "cardiomegaly", "consolidation", "edema", "lung_opacity"),
    *("pleural_effusion", "pneumonia", "pneumothorax"),
)
TOTAL, BACKGROUND = "total", "background"


def phrase_length(phrase: str, settings: MsCxrStatisticsSettings) -> int:
    """Tokens of a phrase: words, or words and punctuation marks, and its full stop."""
    text = phrase.strip()
    stopped = text.endswith(".")
    if settings.tokens == "words":
        # The full stop hangs on the last word here, so it is counted by itself.
        count = len(text.split()) + stopped
    else:
        count = len(WORD_OR_MARK.findall(text))
    return count + (settings.full_stop == "always" and not stopped)


def pairs_of(tables: Tables, settings: MsCxrStatisticsSettings) -> pd.DataFrame:
    """One row a phrase and image: image, study, subject, category, phrase length, boxes."""
    keys = ["image_id", "category", "phrase"]
    pairs = tables.boxes.groupby(keys, sort=False).size().rename("boxes").reset_index()
    owners = tables.images.set_index("image_id")
    for name in ("study_id", "subject_id"):
        pairs[name] = pairs["image_id"].map(owners[name])
    pairs["tokens"] = [phrase_length(phrase, settings) for phrase in pairs["phrase"]]
    return pairs.drop(columns="phrase")


def study_years(studies: Tables) -> pd.DataFrame:
    """``study_id``, ``subject_id`` and the shifted ``year`` of every study; NaN where unknown."""
    images = studies.images[["study_id", "subject_id", "study_time"]]
    years = pd.to_numeric(images["study_time"].str.slice(0, 4), errors="coerce")
    dated = images.assign(year=years).groupby("study_id", sort=False)["year"].min()
    listed = studies.studies[["study_id", "subject_id"]]
    return listed.assign(year=listed["study_id"].map(dated))


def people(
    visits: pd.DataFrame, patients: pd.DataFrame | None, settings: MsCxrStatisticsSettings
) -> dict[str, float]:
    """Statistics of the patients of ``visits`` (``subject_id``, ``year``), each counted once.

    A patient's age is that at the first of these visits, or the anchor age (``age: anchor``).
    """
    first = visits.groupby("subject_id", sort=False)["year"].min().reset_index()
    found = {"subjects": float(len(first))}
    if patients is None:
        return found
    known = patients.set_index("subject_id")
    gender = first["subject_id"].map(known["gender"])
    women, listed = int((gender == "F").sum()), int(gender.notna().sum())
    if settings.age == "anchor":
        age = first["subject_id"].map(known["anchor_age"]).astype("float64")
    else:
        age = mimic_iv.ages(patients, first["subject_id"], first["year"])
    return found | {
        "women": float(women),
        "women_percent": 100 * women / listed if listed else float("nan"),
        "age": float(age.mean()),
        "age_sd": float(age.std(ddof=1)),
        "without_demographics": float(len(first) - listed),
    }


def count(
    pairs: pd.DataFrame,
    years: pd.DataFrame,
    patients: pd.DataFrame | None,
    settings: MsCxrStatisticsSettings,
) -> dict[str, Estimate]:
    """All metrics; ``n`` is the number of patients, or pairs for the mean length of a phrase."""
    by_study = years.set_index("study_id")["year"]
    dated = pairs.assign(year=pairs["study_id"].map(by_study))
    names = dated["category"].map(slug)
    groups = {name: dated[names == name] for name in dict.fromkeys([*FINDINGS, *names])}
    metrics: dict[str, Estimate] = {}
    for name, group in {**groups, TOTAL: dated, BACKGROUND: years}.items():
        found = people(group, patients, settings)
        size = int(found["subjects"])
        if name != BACKGROUND:
            found |= {"pairs": float(len(group)), "images": float(group["image_id"].nunique())}
            metrics[f"tokens/{name}"] = Estimate.counted(group["tokens"].mean(), len(group))
        metrics |= {f"{key}/{name}": Estimate.counted(value, size) for key, value in found.items()}
    return metrics


def score(given: Namespace, settings: MsCxrStatisticsSettings) -> Result:
    annotated = ms_cxr.read(given.root, Request())
    studies = layout(given.studies_layout).read(given.studies_root, Request(given.threads))
    pairs, years = pairs_of(annotated, settings), study_years(studies)
    limit = settings.max_failed_share
    listed = [drop for drops in annotated.dropped.values() for drop in drops]
    steps = [Tally("boxes listed", "rows", len(annotated.boxes), listed)]
    steps[0].require_few(given.root, limit)
    patients = None
    if given.demographics is not None:
        patients, lost = mimic_iv.read_patients(given.demographics)
        steps.append(Tally("patients listed", "rows", len(patients), lost))
        steps[1].require_few(given.demographics, limit)
    if pairs.empty:
        raise InputError(f"{given.root}: no phrase is left; see {steps[0].drops}")
    metrics = count(pairs, years, patients, settings)
    maps = union_maps(annotated)
    names = maps["category"].map(slug)
    by_finding = {name: maps[names == name] for name in dict.fromkeys([*FINDINGS, *names])}
    for name, group in {**by_finding, TOTAL: maps}.items():
        metrics |= {
            f"{k}/{name}": Estimate.counted(v, len(group)) for k, v in spread(group).items()
        }
    each = maps["image_id"].value_counts()
    metrics[f"several_phrases/{TOTAL}"] = Estimate.counted((each > 1).mean(), len(each))
    undated = int(pairs["study_id"].map(years.set_index("study_id")["year"]).isna().sum())
    data = {
        "name": given.dataset,
        "synthetic": is_synthetic(given.root),
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
    protocol = {
        **settings.model_dump(mode="json"),
        "demographics": "none" if patients is None else "MIMIC-IV, hosp/patients",
    }
    log.info("%d pairs, %d patients", len(pairs), int(metrics[f"subjects/{TOTAL}"].value))
    return Result("ms_cxr_statistics", data, protocol, metrics, pairs, [draw(by_finding)])
