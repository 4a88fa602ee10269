"""Counts of patients' repeated studies and of reports that compare (BioViL-T Appendix B).

No model. Counted are the studies of all patients, and those whose scene graph in Chest ImaGenome
compares a finding with the image before. metrics.json has ``subjects``,
``studies``, ``several_studies`` (per cent of subjects with two studies or more), ``studies/<k>``
(per cent of subjects with k studies, Figure B.1; the last counts all beyond), and ``progression``
(per cent of studies with a progression label of any finding).
"""

import pandas as pd

from cxr_files.atomic import fingerprint, is_synthetic
from cxr_files.drops import Tally
from cxrflow.benchmarks.data.settings import CourseStatisticsSettings
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request
from cxrflow.data.readers.progressions import chest_imagenome
from cxrflow.metrics.intervals import Estimate

MOST = 10  # studies of a subject; more count as this many (Figure B.1)


def count(studies: pd.DataFrame, compared: pd.Series) -> dict[str, Estimate]:
    """Return all metrics; ``compared``: ids of the studies with a progression label."""
    per_subject = studies.groupby("subject_id")["study_id"].nunique()
    subjects, visits = len(per_subject), len(studies)
    values = {
        "subjects": (subjects, subjects),
        "studies": (visits, visits),
        "several_studies": (100 * (per_subject >= 2).mean(), subjects),
        "progression": (100 * studies["study_id"].isin(compared).mean(), visits),
    }
    for number in range(1, MOST + 1):
        share = (per_subject.clip(upper=MOST) == number).mean()
        values[f"studies/{number}"] = (100 * share, subjects)
    return {name: Estimate.counted(value, n) for name, (value, n) in values.items()}


def predict(inputs: Inputs, settings: CourseStatisticsSettings) -> Predictions:
    """Count the studies and comparisons of all patients."""
    options = inputs.options
    images, relations, damage = chest_imagenome.scene_graphs(options.root, options.threads)
    step = Tally("scene graphs", "files", len(images), damage)
    step.require_few(options.root, settings.max_failed_share)
    request = Request(options.threads, headers=False)
    studies = layout(options.studies_layout).read(options.studies_root, request).studies
    study_of = images.set_index("image_id")["study_id"]
    compared = relations["image_id"].map(study_of).drop_duplicates()
    metrics = count(studies, compared)
    rows = studies[["study_id", "subject_id"]].assign(compared=studies["study_id"].isin(compared))
    data = {
        "name": options.dataset,
        "synthetic": is_synthetic(options.root),
        "fingerprint": fingerprint(rows.to_csv(index=False)),
        "dropped": [drop.as_json() for drop in step.drops],
    }
    return Predictions(rows, None, data, estimates=metrics)
