"""Cohorts as flow charts: the counts that each filter keeps and drops, with reasons.

Steps are grouped by what they count (images, studies, samples), since filters on images and
filters on studies are two streams. The page adds a check of its own: what comes out of a step, plus
what it dropped, must be what went in.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from cxr_files.notes import without_examples
from cxrflow.show.page.inputs import RunFolder
from cxrflow.show.page.learnt_pictures import learnt_pictures


def lanes(steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Steps by unit, in order, each with its input count and the remaining share of the first."""
    steps_by_unit: dict[str, list[dict[str, Any]]] = {}
    for step in steps:
        lane = steps_by_unit.setdefault(step["unit"], [])
        lost = sum(drop["count"] for drop in step["dropped"])
        came = lane[-1]["kept"] if lane else step["kept"] + lost
        start = lane[0]["came"] if lane else came
        lane.append(
            {
                "name": step["name"],
                "kept": step["kept"],
                "dropped": sorted(step["dropped"], key=lambda drop: -drop["count"]),
                "came": came,
                "silent": came - step["kept"] - lost,
                "share": step["kept"] / start if start else 0.0,
            }
        )
    return [{"unit": unit, "steps": lane} for unit, lane in steps_by_unit.items()]


def sums_check(charts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Check that no step lets out more than went in; fewer is shown in the chart itself."""
    wrong = [
        f"'{step['name']}' keeps {step['kept']} and drops "
        f"{step['came'] - step['kept'] - step['silent']} of {step['came']} {lane['unit']}"
        for lane in charts
        for step in lane["steps"]
        if step["silent"] < 0
    ]
    return {
        "name": "counts add up",
        "passed": not wrong,
        "detail": "; ".join(wrong) or "no step keeps and drops more than came in",
    }


def _splits(splits: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    order = [name for name in ("train", "validate", "test") if name in splits]
    order += [name for name in splits if name not in order]
    units = list(dict.fromkeys(unit for name in order for unit in splits[name]))
    first = units[0] if units else ""
    for unit in ("studies", "samples"):
        if unit in units:
            first = unit
    total = sum(splits[name].get(first, 0) for name in order)
    units.sort(key=lambda unit: (unit != first, unit == "with_prior", unit))
    return {
        "unit": first,
        "units": units,
        "rows": [
            {
                "name": name,
                "counts": [splits[name].get(unit, 0) for unit in units],
                "share": splits[name].get(first, 0) / total if total else 0.0,
            }
            for name in order
        ],
    }


def cohort(run: RunFolder, name: str, flow: Mapping[str, Any] | None) -> dict[str, Any]:
    """The page's content about a cohort; without ``flow`` only that it is missing."""
    models = [entry for entry in run.needs.models if run.config.models[entry].recipe.cohort == name]
    recipes = run.config.library.tasks
    tasks = [
        entry
        for entry in run.needs.tasks
        if name in (recipes[entry].cohort, recipes[entry].training)
    ]
    content: dict[str, Any] = {
        "name": name,
        "dataset": run.config.cohorts[name].dataset,
        "trains": models,
        "tests": tasks,
        "flow": flow,
        "failed": 0,
    }
    if flow is None:
        return content
    charts = lanes(flow["steps"])
    ids = run.permits("text", bool(flow["synthetic"]))
    pictures = learnt_pictures(run, name, ids)
    checks = [*flow["checks"], sums_check(charts), *([pictures] if pictures else [])]
    priors = flow.get("priors") or {}
    studies = priors.get("found", 0) + sum(entry["count"] for entry in priors.get("none", []))
    return content | {
        "lanes": charts,
        "checks": checks,
        "failed": sum(not check["passed"] for check in checks),
        "splits": _splits(flow["splits"]),
        "held_out": flow.get("held_out") or [],
        "priors": priors if studies else None,
        "prior_share": priors.get("found", 0) / studies if studies else 0.0,
        "categories": flow.get("categories") or flow.get("labels") or {},
        # Notes may name ids in brackets; real ones are not for every reader of the page.
        "notes": [
            *(note if ids else without_examples(note) for note in flow.get("notes", [])),
            *shared_picture_notes(run.shared_pictures(name)),
        ],
        "examples": _examples(flow) if ids else [],
        "hidden_ids": not ids,
    }


def shared_picture_notes(counts: Mapping[str, Any] | None) -> list[str]:
    """Return a sentence for equal and for nearly equal pictures of several patients."""
    words = {"equal": "equal to", "nearly_equal": "nearly equal to"}
    return [
        f"{numbers['of_several_patients']} images are {likeness} one of another patient, "
        f"{numbers['in_two_parts']} of them to one in another part of the split"
        for kind, likeness in words.items()
        if counts and (numbers := counts[kind])["of_several_patients"]
    ]


def _examples(flow: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"step": step["name"], "reason": drop["reason"], "ids": drop["examples"]}
        for step in flow["steps"]
        for drop in step["dropped"]
        if drop.get("examples")
    ]
