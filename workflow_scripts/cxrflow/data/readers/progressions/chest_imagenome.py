"""Chest ImaGenome 1.0.0: what reports say became of a finding since the image before.

Silver: ``silver_dataset/scene_graph.zip`` (or the folder it unpacks to), a JSON file a frontal
image. A relationship compares a region of the current image (``subject_id``, a word of graphs, not
a patient) with that of a previous one (``object_id``); labels are of regions, and several of them
may speak of one finding. Gold: the comparisons that people have checked, of 500 patients, all of
whose images stand in ``images_to_avoid.csv``.
"""

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pandas as pd

from cxr_files.archives import DAMAGE, names_of, open_zip, read_file, read_member
from cxr_files.csv_table import find_file, read_csv, require_file, require_root
from cxr_files.drops import Drop, Tally
from cxr_files.errors import InputError
from cxr_files.parallel import chunks, ordered_map
from cxr_files.progress import progress
from cxr_files.reading import below, refuse_unwritable
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables, shaped

DIRECTIONS = {"improved": "improving", "no change": "stable", "worsened": "worsening"}
ATTRIBUTES = {
    "anatomicalfinding|yes|consolidation": "Consolidation",
    "anatomicalfinding|yes|pulmonary edema/hazy opacity": "Edema",
    "anatomicalfinding|yes|pleural effusion": "Pleural Effusion",
    "disease|yes|pneumonia": "Pneumonia",
    "anatomicalfinding|yes|pneumothorax": "Pneumothorax",
}
SILVER, GOLD = "silver", "gold"
LISTS = layout("chest_imagenome").lists["tables"]
_COMPARISON = "comparison|yes|"
_FILE = "_SceneGraph.json"
_CHUNK = 500

Record = tuple[Any, ...]


def read(root: Path, request: Request) -> Tables:
    """Read the scene graphs, the gold comparisons and the images to avoid."""
    images, relations, damage = scene_graphs(root, request.threads)
    labels = relations.assign(finding=relations["attribute"].map(ATTRIBUTES), quality=SILVER)
    labels = labels.dropna(subset="finding")
    gold, gold_damage = _gold(root)
    labels = pd.concat([labels, gold]).drop_duplicates(
        ["image_id", "prior_image_id", "finding", "label", "quality"]
    )
    owner = images.set_index("image_id")
    labels = labels.join(owner, on="image_id")
    labels["prior_study_id"] = labels["prior_image_id"].map(owner["study_id"])
    # The patients of the gold data set, which must not be trained on.
    path = require_file(root, *LISTS["avoid"])
    avoided, avoid_damage = read_csv(path, {"subject_id": "bare", "dicom_id": "id"})
    return Tables(
        source=root,
        studies=shaped("studies", images[["study_id", "subject_id"]].drop_duplicates()),
        progressions=shaped("progressions", labels),
        avoid=frozenset(avoided["subject_id"]),
        dropped={"progressions": damage + gold_damage + avoid_damage},
        opened=False,
    )


def scene_graphs(root: Path, threads: int = 1) -> tuple[pd.DataFrame, pd.DataFrame, list[Drop]]:
    """Read all scene graphs.

    Returns:
        ``image_id``, ``study_id``, ``subject_id``; of every comparison ``image_id``,
        ``prior_image_id``, ``region``, ``attribute``, ``label`` (ours), each once; damage.

    Raises:
        InputError: there are none, or the zip is cut off.
    """
    inside = require_root(root) / "silver_dataset"  # or the root is that folder itself
    source, names = _graph_files(inside if inside.is_dir() else root)
    results = ordered_map(
        partial(_read_chunk, source),
        chunks(names, _CHUNK),
        threads if len(names) > _CHUNK else 1,
    )
    images: list[Record] = []
    relations: list[Record] = []
    tally = Tally("scene graphs read", "scene graphs")
    try:
        for chunk in progress(results, len(names), "scene graph", lambda chunk: chunk[0]):
            _, records, compared, damage = chunk
            images += records
            relations += compared
            for drop in damage:
                tally.add(drop)
    finally:
        _opened.cache_clear()
    graphs = pd.DataFrame(images, columns=["image_id", "study_id", "subject_id"], dtype="str")
    again = graphs.duplicated("image_id")
    tally.drop("a second scene graph of an image", graphs.loc[again, "image_id"])
    columns = ["image_id", "prior_image_id", "region", "attribute", "label"]
    comparisons = pd.DataFrame(relations, columns=columns, dtype="str").drop_duplicates()
    return graphs[~again].reset_index(drop=True), comparisons.reset_index(drop=True), tally.drops


def _graph_files(silver: Path) -> tuple[Path, list[str]]:
    """Return the zip or folder of scene graphs and the sorted names of its files."""
    packed, folder = silver / "scene_graph.zip", silver / "scene_graph"
    if packed.is_file():
        with open_zip(packed) as archive:
            return packed, [name for name in names_of(archive)[0] if name.endswith(_FILE)]
    names = sorted(path.name for path in folder.glob(f"*{_FILE}"))
    if not names:
        raise InputError(
            f"{silver}: scene_graph.zip not found, nor scene_graph/*{_FILE}; expected the scene "
            "graphs of Chest ImaGenome"
        )
    return folder, names


def _read_chunk(
    source: Path, names: Sequence[str]
) -> tuple[int, list[Record], list[Record], list[Drop]]:
    """Return the number, images, comparisons and damage of some scene graphs."""
    images: list[Record] = []
    relations: list[Record] = []
    tally = Tally("scene graphs read", "scene graphs")
    for name, data in _contents(source, names):
        try:
            graph = json.loads(data)
            ids = (graph["image_id"], graph["study_id"], graph["patient_id"])
            image, study, patient = (str(value).removesuffix(".dcm") for value in ids)
            records = list(_comparisons(graph["relationships"]))
            refuse_unwritable([image, study, patient, *map(list, records)])
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            tally.drop("scene graph: not valid JSON", [name], failed=True)
        except (KeyError, TypeError, AttributeError, ValueError):
            reason = "scene graph: a field is missing or of another kind"
            tally.drop(reason, [name], failed=True)
        else:
            images.append((image, study, patient))
            relations += [record for record in records if record[0] == image]
            if any(record[0] != image for record in records):
                reason = "scene graph: compares another image than its own"
                tally.drop(reason, [name], failed=True)
    return len(names), images, relations, tally.drops


def _contents(source: Path, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file; the content of a damaged file is empty."""
    archive = None if source.is_dir() else _opened(source)
    for name in names:
        try:
            content = read_member(archive, name) if archive else read_file(below(source, name))
        except DAMAGE:
            content = b""
        yield name, content


@lru_cache(maxsize=1)
def _opened(source: Path) -> ZipFile:
    """The archive of a process: to open it means to read the names of all 243,000 graphs."""
    return open_zip(source)


def _comparisons(relationships: Sequence[dict[str, Any]]) -> Iterator[Record]:
    """Yield current image, prior image, region, attribute and direction of each comparison."""
    for relationship in relationships:
        current, _, region = relationship["subject_id"].partition("_")
        prior = relationship["object_id"].partition("_")[0]
        for name in relationship["relationship_names"]:
            label = DIRECTIONS.get(name.removeprefix(_COMPARISON))
            for attribute in relationship["attributes"] if label else ():
                yield current, prior, region, attribute, label


def _gold(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Read the gold comparisons; several directions of a row are joined by ``;;``."""
    path = find_file(root, *LISTS["gold"])
    columns = ["image_id", "prior_image_id", "finding", "label", "quality"]
    if path is None:
        return pd.DataFrame(columns=columns, dtype="str"), []
    rows, damage = read_csv(
        path,
        {
            **{"current_image_id": "id", "previous_image_id": "id"},
            **{"comparison": "id", "attribute": "id"},
        },
        separator="\t",
        together=("current_image_id", "previous_image_id", "attribute"),
    )
    rows = rows.assign(comparison=rows["comparison"].str.split(";;")).explode("comparison")
    label = rows["comparison"].str.removeprefix(_COMPARISON).map(DIRECTIONS)
    comparisons = pd.DataFrame(
        {
            "image_id": rows["current_image_id"].str.removesuffix(".dcm"),
            "prior_image_id": rows["previous_image_id"].str.removesuffix(".dcm"),
            "finding": rows["attribute"].map(ATTRIBUTES),
            "label": label,
            "quality": GOLD,
        }
    )
    return comparisons.dropna(subset=["finding", "label"]), damage
