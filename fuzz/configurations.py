"""Configurations and papers of one's own with a changed key, value, name or byte.

What is accepted is resolved whole, as a run of the workflow does before its first job, and holds no
number that is none.
"""

import json
import os
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from cxr_files.settings import overlay
from cxr_files.yaml_file import read_yaml
from cxrflow.config import load_config
from cxrflow.papers import load_paper, paper_entries, paper_file, paper_names
from fuzz.mutations import damaged
from fuzz.trial import Trial

COUNT = 700
ROOT = Path(__file__).parents[1]
BASE = ROOT / "config.yaml"
# Overlays of this checkout that are typed after another one.
BELOW = {"learning_curve.yaml": "hospital.yaml", "real_curve.yaml": "real.yaml"}
FOLDERS = ("CXR_DATA", "CXR_REAL_DATA", "CXR_HOSPITAL")  # which overlays name; nothing is read
VALUES: tuple[Any, ...] = (
    *(
        None,
        "",
        " ",
        "nan",
        float("nan"),
        float("inf"),
        -1,
        0,
        1,
        0.5,
        10**9,
        -(10**30),
        True,
        [],
        {},
    ),
    *("a\0b", "\u2028", "../evil", "/etc/passwd", "rsna+nih", "a b", "-x", "x" * 5000, "${HOME}"),
    *(
        "${",
        "{x}",
        "{0.__class__}",
        "<results>",
        [1, 2],
        {"a": 1},
        [[]],
        ["biovil/biovil"],
        "train",
    ),
    *("biovil/biovil", "biovil/rsna", "reference/chance", "mimic_cxr", "1e5", "2020-01-01", "*"),
)
# What a YAML file may hold that no value of a key can.
TEXTS = (
    *("seeds: [&a [*a]]", "datasets: &a {x: *a}", "a: &a [x]\nb: [*a, *a, *a]\n", "<<: {a: 1}"),
    *("? [a, b]\n: 1", "scale: !!python/object:os.system x", "scale: !!binary aGk=", "- a", "a"),
    *("scale: 0x" + "f" * 5000, "seeds: [" + "9" * 5000 + "]", "scale: 2020-13-45", "scale: .nan"),
    *("scale: " + "[" * 5000 + "]" * 5000, "scale: demo\nscale: demo", "%YAML 9.9\n---\na: 1"),
    "\n".join(
        [
            "a0: &a0 [x, x]",
            *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)),
        ]
    ),
    *("--- {}\n--- {}", "\ufeffscale: demo", "scale: 'demo", "scale:\tdemo", "scale: 1:30:00"),
)


def run(trial: Trial, work: Path) -> None:
    """Each case is a configuration file, beside it perhaps a paper of the user's.

    In turn it is made from each paper of ours and each overlay of this checkout.
    """
    for name in FOLDERS:
        os.environ.setdefault(name, "/data")
    starts = started_from()
    cases = [
        draw(trial.random(n), *starts[n % len(starts)], work / f"{n:05d}")
        for n in range(trial.count)
    ]
    trial.attempt(resolve, cases)


@cache
def started_from() -> list[tuple[dict[str, Any], str]]:
    """The values that cases change, one paper in each: our papers, then our overlays."""
    known = yaml.safe_load(BASE.read_text())
    known |= {key: {} for key in ("tasks", "cohorts", "vocabularies")}
    known |= json.loads(json.dumps(load_config([BASE]).values.model_dump(mode="json")))
    starts = [({**known, "papers": [paper]}, paper) for paper in paper_names()]
    for file in sorted(set(ROOT.glob("[a-z]*.yaml")) - {BASE}):
        values = known
        for name in filter(None, (BELOW.get(file.name), file.name)):
            values = overlay(values, read_yaml(ROOT / name))
        paper = values["papers"][0]
        starts.append(({**values, "papers": [paper]}, paper))
    return starts


def draw(random: Random, known: dict[str, Any], paper: str, folder: Path) -> Path:
    """Write a configuration of one of our papers."""
    folder.mkdir()
    path = folder / f"{folder.name}.yaml"
    values = json.loads(json.dumps(known))
    kind = random.random()
    if kind < 0.1:
        text = random.choice(TEXTS)
        path.write_text(text if random.random() < 0.5 else f"{yaml.safe_dump(values)}\n{text}")
    elif kind < 0.25:
        path.write_bytes(damaged(random, yaml.safe_dump(values).encode()))
    elif kind < 0.55:
        own = json.loads(json.dumps(yaml.safe_load(paper_file(paper).read_text())))
        for _ in range(random.choice((1, 1, 3))):
            _change(random, own)
        name = random.choice((*["mine"] * 30, "my own", "all", "reference", "a+b"))
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(own))
        values["papers"] = [str(folder / f"{name}.yaml")]
        path.write_text(yaml.safe_dump(values))
    else:
        for _ in range(random.choice((1, 1, 1, 4))):
            _overlay(random, values, paper)
        path.write_text(yaml.safe_dump(values))
    return path


def _overlay(random: Random, values: dict[str, Any], paper: str) -> None:
    """A changed key, or one laid over a paper's."""
    kind = random.choice(("models", "tasks", "cohorts", "vocabularies", None, None))
    if kind is None:
        _change(random, values)
        return
    entries = paper_entries(paper_file(paper)).values.get(kind)
    if not entries:  # the paper has none of its own
        _change(random, values)
        return
    name = random.choice(list(entries))
    entry = entries[name]
    own = json.loads(json.dumps(entry.get("settings") or entry))
    _change(random, own)
    if isinstance(values.get(kind), dict):  # else changed before
        values[kind][f"{paper}/{name}"] = own


def _change(random: Random, values: dict[str, Any]) -> None:
    """One change somewhere below: a value, a key, an entry more or less."""
    node: Any = values
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            if isinstance(node, dict):
                node[random.choice(VALUES[16:24])] = random.choice(VALUES)
            else:
                node.append(random.choice(VALUES))
            return
        key = random.choice(keys)
        below = node[key]
        if not isinstance(below, dict | list) or random.random() < 0.25:
            break
        node = below
    change = random.randrange(6)
    if change == 0:
        del node[key]
    elif change == 1 and isinstance(node, dict):
        node[random.choice((f"{key}x", "", "../evil", "a+b", "rsna+nih"))] = node.pop(key)
    elif change == 2 and isinstance(node, list):
        node.append(node[key])
    elif change == 3 and isinstance(below, int | float) and not isinstance(below, bool):
        node[key] = below * random.choice((-1, 0, 1000, 1e-9, 1e12))
    else:
        node[key] = random.choice(VALUES)


def resolve(path: Path) -> None:
    """Everything that is known of a run before its first job."""
    load_paper.cache_clear()
    paper_entries.cache_clear()
    config = load_config([path], check_roots=False)
    config.resolved()
    for results in config.results.values():
        for extent in ("all", "headline"):
            results.all(extent)
            for table in results.tables(extent):
                results.comparisons(table)
    controls = [results.controls for results in config.results.values()]
    text = json.dumps([controls, config.datasets, config.whole.stores])
    text += json.dumps(config.described(), allow_nan=False)
    assert "\0" not in text and "\\u0000" not in text, "a NUL character is accepted"
