"""The card of an exported model: what it is, what it learnt from, its scores, its limits.

Everything stands in ``run.json`` and in the results beside the model; what is not known is said to
be unknown. No ids of studies or patients are taken over.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from textwrap import indent
from typing import Any

import yaml

from cxr_files.reading import leads_out
from cxrflow.metrics.record import read_metrics
from cxrflow.models.run_record import beside_twins, learnt

SHOWN = 8  # metrics of a task


def results_of(model: Path) -> Path | None:
    """The results that hold a model folder ``models/<paper>/<model>/seed<k>``, if any do."""
    parents = model.resolve().parents
    return parents[3] if len(parents) > 3 and parents[2].name == "models" else None


def score_lines(results: Path | None, name: str, seed: Any) -> Iterator[str]:
    """A row of a table for each main metric of each task that scored the model."""
    files = (
        []
        if results is None or leads_out(name)
        else results.glob(f"benchmarks/*/*/{name}/seed{seed}")
    )
    for folder in sorted(files):
        result = read_metrics(folder / "metrics.json")
        synthetic = " (synthetic)" if result["data"].get("synthetic") else ""
        main = [key for key in result["metrics"] if "/" not in key] or list(result["metrics"])
        for key in main[:SHOWN]:
            score = result["metrics"][key]
            if score["value"] is None:
                continue
            interval = "" if score["low"] is None else f"{score['low']:.3f} to {score['high']:.3f}"
            data = f"{result['data'].get('name', 'unknown')}{synthetic}"
            cells = (result["task"], data, key, f"{score['value']:.3f}", interval, str(score["n"]))
            yield f"| {' | '.join(cells)} |"


def card(model: Path, record: Mapping[str, Any], parameters: Mapping[str, int]) -> str:
    """The text, in Markdown (``card.txt``); ``parameters`` by encoder."""
    data = record.get("data") or {}
    name, seed = record.get("model"), record.get("seed")
    synthetic = data.get("synthetic")
    limits = [
        "For research; not a medical device, and not tested for any clinical use.",
        "Scores hold for the data they name; other hospitals, devices and ways of writing differ.",
    ]
    if synthetic:
        limits.insert(0, "Trained on drawn radiographs and reports: it knows nothing of patients.")
    permuted_pairs = record.get("permuted_pairs") or {}
    if learnt(record) is False:
        limits.insert(0, "It has not learnt: its pairs are told apart no better than untrained.")
    if data.get("notice"):
        limits.insert(0, f"{data['notice']}.")
    rows = list(score_lines(results_of(model), str(name), seed))
    scores = [
        "Value, 95 % interval over the samples, samples; of the task's own protocol.",
        "",
        "| task | data | metric | value | interval | n |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
    ]
    trained = {
        "data set": f"{data['name']}{' (synthetic)' if synthetic else ''}"
        if "name" in data
        else None,
        "training samples": data.get("train_samples"),
        "validation samples": data.get("validation_samples"),
        "pixels": data.get("geometry"),
        "program": record.get("program") or record.get("kind"),
        "epochs": record.get("epochs"),
        "steps": record.get("steps"),
        "seed": seed,
        "validation loss": _losses(permuted_pairs.get("terms") or {}),
        **_twins(record),
        **_chosen_by(data.get("selection") or {}),
        "finished": record.get("finished"),
        "cxrflow": record.get("code_version"),
    }
    training_facts = {key: "unknown" if value is None else value for key, value in trained.items()}
    none = "No results lie beside the model that it was exported from."
    template = Template(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))
    text = template.substitute(
        name=name or model.name,
        trained="\n".join(f"- {key}: {value}" for key, value in training_facts.items()),
        sizes="\n".join(
            f"- {encoder}: {number:,} parameters" for encoder, number in parameters.items()
        ),
        scores="\n".join(scores) if rows else none,
        limits="\n".join(f"- {line}" for line in limits),
        licence=_licence(bool(synthetic)),
        settings=indent(yaml.safe_dump(record.get("settings"), width=90), "    "),
    )
    return text.removesuffix("\n")


def _chosen_by(selection: Mapping[str, Any]) -> dict[str, str]:
    """The task whose score chose the checkpoint; of a validation loss nothing is said."""
    if not selection:
        return {}
    name = selection.get("name") or selection.get("dataset") or "data that are not recorded"
    synthetic_note = " (synthetic)" if selection.get("synthetic") else ""
    return {
        "checkpoint chosen by": f"{selection.get('benchmark', 'a task')} on {name}{synthetic_note}"
    }


def _losses(terms: Mapping[str, Any]) -> str | None:
    texts = []
    for name, term in terms.items():
        text = f"{name} {term['loss']:.3f}"
        if term["permuted"] is not None:
            text += f" (permuted pairs {term['permuted']['value']:.3f})"
        if term["rank"] is not None:
            text += f", rank of the true pair {term['rank']['value']:.2f}"
        texts.append(text)
    return "; ".join(texts) or None


def _twins(record: Mapping[str, Any]) -> dict[str, str]:
    """The ranks of terms beside those of untrained starts, where a training has them."""
    texts = [
        f"{name} {rank:.2f} (untrained starts {min(untrained):.2f} to {max(untrained):.2f})"
        for name, rank, untrained, _ in beside_twins(record)
    ]
    return {"rank of the true pair": "; ".join(texts)} if texts else {}


def _licence(synthetic: bool) -> str:
    if synthetic:
        return "The data were drawn by cxrflow (MIT); who passes the weights on chooses a licence."
    return (
        "Not chosen here: the terms of the data that it was trained on, and of the weights it\n"
        "started from, decide whether and how it may be passed on. Ask before sharing what was\n"
        "trained on credentialed data, such as MIMIC-CXR's."
    )
