"""Pictures that are scored in one data set and learnt from in another.

Ids of two data sets cannot be compared, pictures can: by the checksums of the squares in pixel
stores of one geometry. Collections copy from one another (RSNA's images are NIH's). Pictures that
were saved anew have other checksums, and are not noticed.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from cxr_files.drops import EXAMPLES
from cxr_files.parquet import read_table
from cxrflow.images.equal_pictures import patients_of
from cxrflow.show.page.inputs import RunFolder

NAME = "pictures of other data sets"


def learnt_pictures(run: RunFolder, cohort: str, names: bool) -> dict[str, Any] | None:
    """Check that no image that is scored is one that a model has learnt from elsewhere.

    ``names``: ids may be shown. None where there are no stores to compare.
    """
    scored = _pictures(run, cohort, ("test",))
    compared, shared = [], []
    for other, models in learners(run, cohort).items():
        learnt = _pictures(run, other, ("train", "validate"))
        geometries = scored.keys() & learnt.keys()
        if not geometries:
            continue
        compared.append(other)
        equal = pd.concat(
            scored[geometry][scored[geometry]["sha256"].isin(learnt[geometry]["sha256"])]
            for geometry in sorted(geometries)
        )["image_id"].drop_duplicates()
        if len(equal):
            examples = f" ({', '.join(map(str, equal.head(EXAMPLES)))})" if names else ""
            shared.append(
                f"{len(equal)} image(s) equal to images of {other}{examples}, from which "
                f"{', '.join(models)} learnt"
            )
    if not compared:
        return None
    detail = "; ".join(shared) or f"none of the images that are scored is in {', '.join(compared)}"
    return {"name": NAME, "passed": not shared, "detail": detail}


def learners(run: RunFolder, cohort: str) -> dict[str, list[str]]:
    """Cohorts of other data sets, with the models that learnt from them and are scored here."""
    config = run.config
    dataset, models = config.cohorts[cohort].dataset, dict[str, list[str]]()
    for name in dict.fromkeys(_scored_models(run, cohort)):
        for ancestor in config.models[name].ancestors:
            other = (
                None if config.models[ancestor].imported else config.models[ancestor].recipe.cohort
            )
            if other is not None and config.cohorts[other].dataset != dataset:
                models.setdefault(other, [])
                models[other] += [ancestor] * (ancestor not in models[other])
    return models


def _scored_models(run: RunFolder, cohort: str) -> Iterator[str]:
    for paper, extent in run.papers.items():
        for task, model in run.config.results[paper].all(extent):
            if model in run.config.models and run.config.library.tasks[task].cohort == cohort:
                yield str(model)


def _pictures(run: RunFolder, cohort: str, parts: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    """``image_id`` and ``sha256`` of the images in these parts of the split, by geometry."""
    folders = [
        run.root / "pixels" / name / kind
        for name, kind in run.config.whole.stores
        if name == cohort
    ]
    tables = {
        folder.name: read_table(folder / "index.parquet", ("image_id", "sha256"))
        for folder in folders
        if (folder / "index.parquet").is_file()
    }
    if not tables:  # a cohort of texts has no images to name
        return {}
    rows = patients_of([run.root / "cohorts" / cohort])
    ids = set(rows.loc[rows["split"].isin(parts), "image_id"])
    return {
        geometry: index.loc[index["image_id"].isin(ids), ["image_id", "sha256"]]
        for geometry, index in tables.items()
    }
