"""How often patients come again, and how often reports speak of change (BioViL-T Appendix B).

No model: counted are the studies of all patients as listed, and those of them whose scene graph in
Chest ImaGenome compares any finding with the image before. metrics.json holds ``subjects``,
``studies``, ``several_studies`` (per cent of subjects with two studies or more), ``studies/<k>``
(per cent of subjects with k studies, Figure B.1; the last counts all beyond), and ``progression``
(per cent of studies with a progression label of any finding).
"""

import logging
from argparse import Namespace

import pandas as pd

from cxrflow.benchmarks.data.settings import CourseStatisticsSettings
from cxrflow.benchmarks.result import Result
from cxrflow.data.layouts import layout
from cxrflow.data.readers import chest_imagenome
from cxrflow.data.readers.common_tables import Request
from cxrflow.files.atomic import fingerprint, is_synthetic
from cxrflow.files.drops import Tally
from cxrflow.metrics.intervals import Estimate

log = logging.getLogger("cxrflow")

MOST = 10  # studies that are told apart


def count(studies: pd.DataFrame, compared: pd.Series) -> dict[str, Estimate]:
    """All metrics of ``study_id``, ``subject_id`` and, by study, whether it is compared."""
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


def score(given: Namespace, settings: CourseStatisticsSettings) -> Result:
    images, relations, damage = chest_imagenome.scene_graphs(given.root, given.threads)
    step = Tally("scene graphs", "files", len(images), damage)
    step.require_few(given.root, settings.max_failed_share)
    request = Request(given.threads, headers=False)
    studies = layout(given.studies_layout).read(given.studies_root, request).studies
    study_of = images.set_index("image_id")["study_id"]
    compared = relations["image_id"].map(study_of).drop_duplicates()
    metrics = count(studies, compared)
    rows = studies[["study_id", "subject_id"]].assign(compared=studies["study_id"].isin(compared))
    data = {
        "name": given.dataset,
        "synthetic": is_synthetic(given.root),
        "fingerprint": fingerprint(rows.to_csv(index=False)),
        "dropped": [drop.as_json() for drop in step.drops],
    }
    several, told = (metrics[name].value for name in ("several_studies", "progression"))
    log.info("%.0f %% of patients come again, %.0f %% of reports compare", several, told)
    protocol = settings.model_dump(mode="json")
    return Result("course_statistics", data, protocol, metrics, rows)
