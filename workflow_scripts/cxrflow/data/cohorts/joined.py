"""Rows of several data sets as one cohort: pairs, or progressions, with the splits that each has.

Patients, studies and images keep their names, by which training and tests are compared, so the data
sets may have no name in common. Paths of images are from the folder that holds all data sets.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from cxr_files.atomic import atomic_folder, file_digest, fingerprint, read_json, write_json
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxrflow.data.cohorts import pairs, progression
from cxrflow.data.cohorts.flow import CohortTables, Flow, Unit
from cxrflow.kinds import MARK

PATHS = ("image_path", "prior_image_path")
NAMES = ("subject_id", "study_id", "image_id")
#: The table of each kind of cohort that can be joined, and its columns.
TABLES = {"pairs": ("pairs", pairs.COLUMNS), "progression": ("samples", progression.COLUMNS)}


def join(cohorts: Sequence[Path], roots: Sequence[Path], common: str, output: Path) -> None:
    """Write the folder of a cohort with the rows of all ``cohorts``.

    Args:
        cohorts: folders of finished cohorts, all of kind pairs or all of kind progression.
        roots: of each the folder that its paths of images are from.
        common: the folder that they are from in the result.
        output: the folder to write.

    Raises:
        InputError: a patient, a study or an image has the same name in two, one is synthetic and
            another is not, or they are of different kinds or have labels of different classes.
    """
    flows = [read_json(folder / "flow.json") for folder in cohorts]
    kinds = sorted({flow["kind"] for flow in flows})
    if len(kinds) > 1 or kinds[0] not in TABLES:
        raise InputError(
            f"{output}: its cohorts are of kind {' and '.join(kinds)}; expected one of "
            f"{', '.join(TABLES)}"
        )
    if len({bool(flow["synthetic"]) for flow in flows}) > 1:
        drawn = next(flow["dataset"] for flow in flows if flow["synthetic"])
        real = next(flow["dataset"] for flow in flows if not flow["synthetic"])
        raise InputError(
            f"{output}: {drawn} is synthetic and {real} is not; expected data sets of one kind, as "
            "of synthetic ones images and texts are shown"
        )
    name, columns = TABLES[kinds[0]]
    tables = [read_table(folder / f"{name}.parquet", columns) for folder in cohorts]
    pictures = [read_table(folder / "images.parquet") for folder in cohorts]
    # The split names patients without a row, too, and the images those of priors alone.
    splits = [
        pd.read_csv(folder / "split.csv", dtype="str", keep_default_na=False) for folder in cohorts
    ]
    for column in NAMES:
        for kind in (tables, pictures, splits):
            if column in kind[0]:
                _require_apart(cohorts, kind, column)
    classes = {tuple(flow.get("classes", ())) for flow in flows}
    if len(classes) > 1:
        class_lists = "; ".join(", ".join(names) or "none" for names in sorted(classes))
        raise InputError(
            f"{output}: its data sets have labels of different classes ({class_lists}); expected "
            "`labels: reports`, or none"
        )
    rows = _under(common, roots, tables)
    images = _under(common, roots, pictures)
    split = pd.concat(splits)
    unit: Unit = "samples"
    if name == "pairs":
        unit = "images" if flows[0]["settings"]["unit"] == "image" else "studies"
    flow = Flow(output, 1.0)
    # Filters of pairs count images as well as studies, which cannot be added up.
    dropped = _dropped(flows) if name == "samples" else []
    flow.step(f"{name} of all data sets", unit, len(rows), dropped)
    for column in NAMES:
        flow.check(f"{column} in one data set", f"{rows[column].nunique()} names, each in one")
    notes = [
        f"{len(table)} rows are of {each['dataset']} ({folder.name}/flow.json)"
        for folder, each, table in zip(cohorts, flows, tables, strict=True)
    ]
    sizes = CohortTables(rows, images, split["split"], unit).split_sizes()
    with atomic_folder(output, "cohort") as folder:
        rows.to_parquet(folder / f"{name}.parquet", index=False)
        images.to_parquet(folder / "images.parquet", index=False)
        if name == "pairs":
            documents = pd.concat(read_table(each / "documents.parquet") for each in cohorts)
            documents.to_parquet(folder / "documents.parquet", index=False)
        split.sort_values("subject_id").to_csv(folder / "split.csv", index=False)
        digests = {path.name: file_digest(path) for path in sorted(folder.iterdir())}
        account = {"fingerprint": fingerprint(digests), "splits": sizes, **_account(flows)}
        written = {"steps": flow.steps, "checks": flow.checks, "notes": notes}
        write_json(folder / "flow.json", {"cohort": output.name, **account, **written})


def _require_apart(cohorts: Sequence[Path], tables: Sequence[pd.DataFrame], column: str) -> None:
    """Refuse a name that stands in two cohorts."""
    owner: dict[str, Path] = {}
    for folder, table in zip(cohorts, tables, strict=True):
        names = table[column].dropna().unique()
        common = sorted(str(name) for name in names if name in owner)
        if common:
            raise InputError(
                f"{folder}: {len(common)} values of {column} are those of {owner[common[0]]}, too "
                f"(e.g. {', '.join(common[:3])}); expected data sets that have none in common"
            )
        owner |= dict.fromkeys(names, folder)


def _under(common: str, roots: Sequence[Path], tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables one below the other, with paths of images from the ``common`` folder."""
    moved = []
    for root, table in zip(roots, tables, strict=True):
        before = os.path.join(os.path.relpath(os.path.abspath(root), common), "")
        moved.append(
            table.assign(**{name: before + table[name] for name in PATHS if name in table})
        )
    return pd.concat(moved, ignore_index=True)


def _dropped(flows: Sequence[Mapping[str, Any]]) -> list[Drop]:
    """What is in no cohort: of labels listed on images of other data sets those that none takes.

    All steps of a progression count labels, so that the drops and the rows make up what was listed.
    """
    dropped: list[Drop] = []
    elsewhere: list[dict[tuple[str, bool], Drop]] = []
    for flow in flows:
        for step in flow["steps"]:
            drops = [
                Drop(drop["reason"], drop["count"], tuple(drop["examples"]), drop["failed"])
                for drop in step["dropped"]
            ]
            if step["name"] == progression.ELSEWHERE:
                elsewhere.append({(drop.reason, drop.failed): drop for drop in drops})
                continue
            dropped += [replace(drop, reason=f"{flow['dataset']}: {drop.reason}") for drop in drops]
    # One file is listed for each of its data sets: what all leave out was left out once.
    first, *others = elsewhere or [{}]
    return [drop for key, drop in first.items() if all(key in each for each in others)] + dropped


def _account(flows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What ``flow.json`` says of the whole; of steps each cohort's own says more."""
    datasets = [flow["dataset"] for flow in flows]
    names = "+".join(name.removeprefix(MARK) for name in datasets)
    cut = any(name.startswith(MARK) for name in datasets)
    first = flows[0]
    account = {
        "dataset": f"{MARK}{names}" if cut else names,
        "joined": datasets,
        "kind": first["kind"],
        "synthetic": first["synthetic"],
        "settings": first["settings"],
        "sets": {flow["dataset"]: flow["splits"] for flow in flows},
    }
    if first["kind"] == "pairs":
        missing = Counter[str]()
        for flow in flows:
            missing.update({each["reason"]: each["count"] for each in flow["priors"]["none"]})
        account |= {
            "priors": {
                "found": sum(flow["priors"]["found"] for flow in flows),
                "none": [Drop(why, count).as_json() for why, count in missing.items()],
            },
            "held_out": [each for flow in flows for each in flow["held_out"]],
            "texts": {name: sum(flow["texts"][name] for flow in flows) for name in first["texts"]},
        }
    if "classes" in first:
        labels = Counter[str]()
        for flow in flows:
            labels.update(flow["labels"])
        account |= {"classes": first["classes"], "labels": dict(sorted(labels.items()))}
    return account
