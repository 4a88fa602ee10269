"""``metrics.json``: its schema, and the range of each metric; whoever reads one reads it here.

A number that could not be, or an interval without its value, is refused where it is read, before it
stands in a table.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
)

from cxr_files.atomic import read_json
from cxr_files.errors import InputError
from cxr_files.settings import explain, shown
from cxrflow.kinds import is_outside

Over = Literal["samples", "runs and samples", "seeds and samples", "seeds"]
#: Metrics whose value is a text.
TEXTS: Final = {"spelling"}
#: Counts behind a metric that stand together, or not at all.
SIDES: Final = ("positives", "negatives", "positive_patients", "negative_patients")
ROUNDING: Final = 1e-9  # of floating point, relative
_SHARES = (
    *("accuracy", "agreement", "attention_in_box", "auroc", "auroc_common", "auroc_rare"),
    *("average_precision", "balanced_accuracy", "bleu_2", "bleu_4", "box_share", "chance"),
    *("change_auroc", "change_auroc_other_prior", "current_in_box", "dice", "direction_auroc"),
    *("direction_auroc_other_prior", "f1", "in_box", "iou", "label_f1_macro", "label_f1_weighted"),
    *("macro_accuracy", "majority", "mask_accuracy", "miou", "miou_micro"),
    *("most_frequent_accuracy", "nem", "precision", "query_auroc", "recall", "rouge_l"),
    *("rouge_l_coco", "sensitivity", "sentence_correct", "side_contradiction", "source_region"),
    *("specificity", "target_region", "tem", "verbatim", "verbatim_reference"),
    *("decided", "other_patch", "prior_share", "ranked", "rejected", "same_place", "several_boxes"),
    *("several_phrases", "stands", "uniform", "unknown", "wrong"),
    *(
        f"{mean}_{score}{of}"
        for mean in ("micro", "macro")
        for score in ("precision", "recall", "f1")
        for of in ("", "_without_no_finding")
    ),
)
_DIFFERENCES = (
    *("correlation", "kappa", "macro_kappa", "margin", "rare_less_common"),
    *("tau_all", "tau_significant"),
)
_PERCENT = (
    *("disagreement", "improving", "multiple_experts", "one_expert", "progression"),
    *("several_studies", "stable", "women_percent", "worse", "worsening"),
)
_POSITIVE = (
    *("age", "classes", "cnr", "cnr_micro", "corner", "corner_90", "cross_entropy", "hours"),
    *("images", "median_rank", "pairs", "pieces", "samples", "samples_per_second", "size"),
    *("studies", "subjects", "tokens", "women", "words"),
)
#: The least and the greatest value of a metric, by its name up to the first ``/``.
RANGES: Final[Mapping[str, tuple[float, float]]] = {
    **dict.fromkeys(_SHARES, (0.0, 1.0)),
    **dict.fromkeys(_DIFFERENCES, (-1.0, 1.0)),
    **dict.fromkeys(_PERCENT, (0.0, 100.0)),
    **dict.fromkeys(_POSITIVE, (0.0, float("inf"))),
}


def possible_part(name: str, value: float, low: float, high: float) -> tuple[float, float]:
    """The part of an interval of a metric that the metric can have: Student's knows no ends.

    It covers as often. A ``value`` out of the range is another's metric of that name.

    >>> possible_part("auroc/effusion", 0.07, -0.04, 0.19)
    (0.0, 0.19)
    """
    least, greatest = RANGES.get(name.partition("/")[0], (-float("inf"), float("inf")))
    if not least <= value <= greatest:
        return low, high
    return max(low, least), min(high, greatest)


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class Metric(_Read):
    """A value with its interval, and the samples behind it; beside them counts of positives."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, NonNegativeInt] = Field(init=False)
    value: Any
    low: FiniteFloat | None
    high: FiniteFloat | None
    n: NonNegativeInt


class _External(_Read):
    missing: NonNegativeInt = 0


class _Data(_Read):
    name: StrictStr
    synthetic: StrictBool
    classes: list[str] = []
    external: _External = _External()


class _Intervals(_Read):
    level: float = Field(0.95, gt=0, lt=1)


class _Protocol(_Read):
    interval_over: Over = "samples"
    intervals: _Intervals = _Intervals()
    rare: list[str] | None = None
    rows_missing: dict[str, NonNegativeInt] = {}


class _Record(_Read):
    task: StrictStr
    benchmark: StrictStr
    model: StrictStr
    seed: StrictInt = Field(ge=0)
    learnt: StrictBool | None
    drawn: StrictBool = False
    data: _Data
    protocol: _Protocol
    metrics: dict[str, Metric]


def _require_possible(name: str, metric: Metric, is_ours: bool) -> None:
    """ValueError if a metric is no number, out of its range, or outside of its interval.

    ``is_ours``: the range is that of the name; another's benchmark has names of its own.
    """
    value, stem = metric.value, name.partition("/")[0]
    lacking = [side for side in SIDES if side not in (metric.__pydantic_extra__ or {})]
    if 0 < len(lacking) < len(SIDES):
        raise ValueError(f"'{lacking[0]}' is missing; expected {', '.join(SIDES)}, or none")
    if value is None or (isinstance(value, str) and stem in TEXTS):
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"value is {shown(value)}; expected a number")
    least, greatest = RANGES.get(stem, (-float("inf"), float("inf"))) if is_ours else (value, value)
    if is_ours and stem.endswith("_sd"):
        least = 0.0
    slack = ROUNDING * max(1.0, abs(value))
    if not least - slack <= value <= greatest + slack:
        bounds = f"{least:g} or more" if math.isinf(greatest) else f"{least:g} to {greatest:g}"
        raise ValueError(f"value is {value:g}; expected {bounds}")
    low, high = (value if end is None else end for end in (metric.low, metric.high))
    if not low - slack <= value <= high + slack:
        raise ValueError(
            f"low, value and high are {low:g}, {value:g} and {high:g}; expected low ≤ value ≤ high"
        )


def read_metrics(path: str | Path) -> dict[str, Any]:
    """Read a ``metrics.json``.

    Raises:
        InputError: it is missing or damaged, a key stands twice, or a value cannot be; it names the
            field, the value and what was expected.
    """
    content = read_json(path, strict=True)
    try:
        record = _Record.model_validate(content)
    except ValidationError as error:
        reason = explain(error, str(path)).partition("\n")[0]
        raise InputError(reason.replace(": key ", ": field ", 1)) from None  # of an object of JSON
    for name, metric in record.metrics.items():
        try:
            _require_possible(name, metric, not is_outside(record.benchmark))
        except ValueError as error:
            raise InputError(f"{path}: metric '{name}': {error}") from None
    fields: dict[str, Any] = content
    return fields
