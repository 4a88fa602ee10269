"""Score any model by prompts alone on a public data set, under one stated protocol.

    cxrflow zero_shot --model results/models/biovil/biovil/seed0 \\
        --dataset nih --root /data/ChestX-ray14 --output zero_shot/nih

Takes a model folder of a run, an exported one, or published weights. The data set's own test
images are scored for its classes (``data/protocols/``), by a published set of prompts
(``data/prompts.py``). Prints AUROC and F1 with 95 % intervals over patients, of each class and
their mean, the numbers of positives and negatives, and the protocol. Where a data set names no
patients, intervals are over images, and it says so. Everything lies in the output folder: cohort,
pixels, features, and the result as a benchmark writes one. Pixels that are there are not decoded
again.
"""

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from cxr_files.atomic import read_object
from cxr_files.errors import InputError
from cxr_files.notes import without_examples
from cxr_files.outputs import claim_folder
from cxr_files.parquet import read_table
from cxr_files.program import parser, run, thread_count
from cxrflow.data.layouts import LAYOUTS, layout
from cxrflow.data.prompts import PROMPT_SETS, WORDS
from cxrflow.data.protocols import PROTOCOLS, Protocol, protocol
from cxrflow.metrics.rare_classes import FEW_WORDS, counts_text
from cxrflow.metrics.record import read_metrics
from cxrflow.models.run_record import UNNAMED_DATA, read_run
from cxrflow.programs.registry import PROGRAMS

TASK = "zero_shot_classification"
IMPORTED = "model"  # folder of published or exported weights, in the output folder


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, score the model and print the table."""
    arguments = parser(__doc__, settings=False)
    arguments.add_path("--model", "model folder, exported model, or published weights")
    arguments.add_argument("--image", type=Path, help="published image weights, if elsewhere")
    arguments.add_argument("--dataset", required=True, choices=PROTOCOLS, help="what is scored")
    arguments.add_path("--root", "folder of the data set, as published")
    arguments.add_argument(
        "--prompts", choices=sorted(PROMPT_SETS), default="chexzero", help="(default: chexzero)"
    )
    classes = arguments.add_mutually_exclusive_group()
    classes.add_argument("--classes", nargs="+", help="of the data set (default: the protocol's)")
    classes.add_argument("--without", nargs="+", help="classes of the protocol to leave out")
    arguments.add_argument(
        "--threshold",
        choices=("best_f1", "best_mcc"),
        default="best_f1",
        help="of F1: by class, on the scored images (default: best_f1)",
    )
    arguments.add_argument("--threads", type=thread_count, default=1, help="decoding processes")
    arguments.add_path("--output", "folder of the work and the result", Path("zero_shot"))
    options = arguments.parse_args(argv)
    claim_folder(options.output, "zero-shot work")
    rules = protocol(options.dataset)
    result = score(options, rules)
    print("\n".join(lines(result, rules, options)))


def score(options: Namespace, rules: Protocol) -> dict[str, Any]:
    """Make what the benchmark reads, run it, and return its metrics.json."""
    work: Path = options.output
    model = _model(options.model, options.image, work / IMPORTED)
    geometry = _geometry(model)
    cohort, pixels, features = work / "cohort", work / "pixels" / geometry, work / "features"
    root = {"root": options.root, "threads": options.threads}
    kind = json.dumps({"kind": "classification", **rules.cohort})
    _stage("build_cohort", **root, layout=options.dataset, settings=kind, output=cohort)
    classes = _classes(options, rules, cohort / "flow.json")
    images = cohort / "images.parquet"
    _stage("store_pixels", **root, images=images, geometry=geometry, output=pixels)
    inputs = {"model": model, "cohort": cohort}
    _stage("extract_features", **inputs, pixels=pixels, output=features)
    settings = {
        "prompts": options.prompts,
        "prompt_pairs": [],
        "threshold": options.threshold,
        "metrics": ["auroc", "f1", "threshold"],
        **rules.settings,
        **({} if classes is None else {"classes": classes}),
    }
    result = work / f"{options.prompts}_{options.threshold}"
    about = {"features": features, "settings": json.dumps(settings), "output": result}
    _stage("evaluate", TASK, **inputs, **about)
    metrics = read_metrics(result / "metrics.json")
    return {
        **metrics,
        "resampled": _resampled(result / "predictions.parquet"),
        "not_stored": read_object(pixels / "store.json", ("dropped",))["dropped"],
    }


def _resampled(predictions: Path) -> str:
    """What intervals are over: patients, as far as they are known."""
    is_unknown = read_table(predictions, ("subject_id",))["subject_id"].isna()
    if is_unknown.all():
        return "images, as patients are not known"
    if is_unknown.any():
        return f"patients; that of {is_unknown.sum()} samples is not known, each stands for one"
    return "patients"


def _classes(options: Namespace, rules: Protocol, path: Path) -> list[str] | None:
    """The classes that are scored; None: the protocol's.

    Raises:
        InputError: the cohort lacks a class, said before its pixels are decoded.
    """
    present = read_object(path, ("classes",))["classes"]
    listed = layout(options.dataset).listed  # without some that no image has
    for key, known in (("classes", present), ("without", (*present, *listed))):
        for name in getattr(options, key) or ():
            if name not in known:
                raise InputError(
                    f"--{key} {name}: {path} has no such class, but {', '.join(present)}"
                )
    if options.without is None:
        return options.classes
    scored = rules.settings.get("classes") or present
    return [name for name in scored if name not in options.without]


def _stage(name: str, *first: str, **options: object) -> None:
    """Run a program by its name, with its options."""
    stated = [text for key, value in options.items() for text in (f"--{key}", str(value))]
    import_module(f"cxrflow.{PROGRAMS[name]}").main([*first, *stated])


def _model(path: Path, image: Path | None, imported: Path) -> Path:
    """The model as a folder of ours; published weights are imported into one."""
    from cxrflow.encoders.released.published import is_released, kind_of

    if not path.exists():
        raise InputError(f"{path}: not found; expected a model folder or published weights")
    if image is None and not is_released(path):
        return path
    about = {"model": path.name, "seed": 0, "output": imported}
    beside = {} if image is None else {"image": image}
    _stage("import_weights", kind=kind_of(path, image), weights=path, **beside, **about)
    return imported


def _geometry(model: Path) -> str:
    """The pixels that the model expects.

    Raises:
        InputError: a half is missing, or the geometry is not known.
    """
    for name in ("config.json", "image/config.json"):
        if not (model / name).is_file():
            raise InputError(f"{model}: {name} is missing; expected a model with both encoders")
    geometry = (read_run(model).get("data") or {}).get("geometry")
    if geometry is None:
        raise InputError(f"{model / 'run.json'}: field data.geometry is missing")
    return str(geometry)


def lines(result: Mapping[str, Any], rules: Protocol, options: Namespace) -> Iterator[str]:
    """The table and the protocol, as they are printed."""
    metrics = result["metrics"]
    yield f"{'':26} {'AUROC':24} {'F1':24} positives, negatives"
    # With a single class there are further values, against each kind of negatives.
    several = "classes" in metrics
    names = [n.removeprefix("auroc/") for n in metrics if several and n.startswith("auroc/")]
    for name in names:
        yield _row(name, metrics.get(f"auroc/{name}"), metrics.get(f"f1/{name}"))
    yield _row("mean of the classes" if names else options.dataset, metrics["auroc"], metrics["f1"])
    data, record = result["data"], result["protocol"]
    scored = f"{data['samples']:,} {'synthetic ' if data.get('synthetic') else ''}samples"
    scored += f" (as published: {rules.published})"
    if several:
        complete = round(metrics["classes"]["value"])
        scored += f"; {complete} of {len(names)} classes have both labels and are in the mean"
    yield ""
    yield f"data       {options.dataset}: {rules.source}"
    yield f"scored     {scored}"
    flow = read_object(options.output / "cohort" / "flow.json", ("steps", "notes"))
    for unit, drop in _dropped(flow["steps"]):
        yield f"left out   {drop['count']} {unit}: {drop['reason']}"
    for drop in data.get("dropped", ()):
        yield f"left out   {drop['count']} images: {drop['reason']}"
    # Why the pixel store lacks images.
    for drop in result["not_stored"]:
        yield f"not stored {drop['count']} images: {drop['reason']}"
    for note in flow["notes"]:
        yield f"note       {without_examples(note)}"
    prompts = PROMPT_SETS[options.prompts]
    yield f"prompts    {options.prompts}: {prompts.source}"
    words = {**WORDS, **prompts.words}
    spellings = [f"{name} as {words[name]}" for name in data.get("classes", ()) if name in words]
    if spellings:
        yield f"asked      {', '.join(spellings)}"
    yield f"score      {record['score']}"
    yield f"F1 at      {record['threshold_rule']}"
    yield f"intervals  95 %, over {result['resampled']}; {FEW_WORDS}"
    yield f"people     {_people(options, bool(data.get('synthetic')))}"


def _dropped(steps: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the cohort left out, by damage or by choice, each with its unit."""
    for step in steps:
        # The tables are of all parts; files are looked at in the scored one alone.
        unit = f"{step['unit']} of all parts" if step["name"].endswith(" listed") else step["unit"]
        yield from ((unit, drop) for drop in step["dropped"])


def _row(name: str, *estimates: Mapping[str, Any] | None) -> str:
    cells = [
        "no value"
        if estimate is None or estimate["value"] is None
        else f"{estimate['value']:.3f} ({_ends(estimate)})"
        for estimate in estimates
    ]
    counts = counts_text(estimates[0] or {})
    return f"{name.replace('_', ' '):26} {cells[0]:24} {cells[1]:24} {counts}".rstrip()


def _ends(estimate: Mapping[str, Any]) -> str:
    """The interval; a dash where positives are too few for one."""
    if estimate["low"] is None:
        return "–"
    return f"{estimate['low']:.3f} to {estimate['high']:.3f}"


def _people(options: Namespace, synthetic: bool = False) -> str:
    """Say whether the model was trained or chosen on people of the data set, by its record.

    The record has the last training alone, not what its encoders started from. People who are drawn
    are nobody else's; ``synthetic``: those of the data set are.
    """
    # An exported model's record is in what was imported from it.
    records = map(read_run, (options.model, options.output / IMPORTED))
    record = next(filter(None, records), {}).get("data") or {}
    uses = {"trained": record}
    if record.get("selection"):
        uses["chosen"] = record["selection"]
    clauses = []
    for verb, data in uses.items():
        # Of a selection before it was recorded with its layout the data set is not known.
        name = data.get("name") or data.get("dataset")
        data_layout = data.get("layout") or name
        if data_layout not in LAYOUTS:
            is_said = name not in (None, UNNAMED_DATA)
            clauses.append(
                f"{verb} on data {f'called {name}' if is_said else 'that are not recorded'}"
            )
            continue
        is_synthetic = bool(data.get("synthetic"))
        people = layout(data_layout).people & layout(options.dataset).people
        if is_synthetic != synthetic or not people:
            shared = f", of other people than {options.dataset}"
        else:
            shared = f", which shares people with {options.dataset}: {', '.join(sorted(people))}"
        clauses.append(f"{verb} on {'synthetic ' if is_synthetic else ''}{name}{shared}")
    return "; ".join([*clauses, "what its encoders started from is not recorded"])


if __name__ == "__main__":
    run(main)
