"""Benchmarks outside of the package (``module:Class``), and the entry that a class stands for."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pydantic import TypeAdapter, ValidationError, ValidationInfo, model_validator

from cxr_files.settings import RECORD, explain
from cxrflow.benchmarks.benchmark import NEEDS, Benchmark
from cxrflow.benchmarks.metric_names import METRICS
from cxrflow.benchmarks.settings import BenchmarkSettings
from cxrflow.kinds import is_outside, outside_class, outside_settings, require_kept, require_trusted

if TYPE_CHECKING:
    from cxrflow.benchmarks.result import Predictions

BASE: Final = "cxrflow.benchmarks.outside:OutsideBenchmark"
# What the class is or has, and does not describe.
OWN: Final = {"program", "settings", "statistic", "clusters", "metrics", "outside"}


class OutsideBenchmarkSettings(BenchmarkSettings):
    """Of a benchmark outside of the package; a result keeps them, and rows are tested by them."""

    @model_validator(mode="after")
    def _are_kept(self, info: ValidationInfo) -> Self:
        if info.context != RECORD:
            require_kept(self)
        return self


class OutsideBenchmark(ABC):
    """A measurement: its settings by annotation, its description, and its functions.

    ``description``: what entries of the registry say of a benchmark, by the same names: ``kind``
    of its cohort, what it ``needs`` of a model, ``reads``, and so on; its ``baselines`` are the
    package's, or a class of its own. ``metrics``: their names, up to the first ``/``. ``COLUMNS``:
    those that it needs of the cohort's table. Beside ``predict`` a class may have the functions
    that modules of the package have: ``statistic(table, settings)``, by which intervals are made
    and rows are tested against each other, and ``clusters(table, unit)``.
    """

    settings: OutsideBenchmarkSettings
    description: ClassVar[Mapping[str, Any]]
    metrics: ClassVar[tuple[str, ...]]
    COLUMNS: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    @abstractmethod
    def predict(inputs: Any, settings: Any) -> "Predictions":
        """A row a sample, and the statistic of it."""


@cache
def outside_benchmark(name: str) -> Benchmark:
    """The entry of the class ``module:Class``.

    Raises:
        ValueError: there is no such class, or it says less or something else than it must.
    """
    cls = outside_class(name, BASE)
    description, metrics = getattr(cls, "description", None), getattr(cls, "metrics", ())
    if not isinstance(description, Mapping) or "kind" not in description:
        raise ValueError(f"{name!r}: expected a mapping `description` of the class, with its kind")
    are_names = isinstance(metrics, tuple | list) and all(isinstance(each, str) for each in metrics)
    if not metrics or not are_names:
        raise ValueError(f"{name!r}: expected `metrics` of the class, names of what it measures")
    known_fields = {field.name for field in fields(Benchmark)} - OWN
    strange = [*(key for key in description if key not in known_fields)]
    strange += [each for each in description.get("needs", ()) if each not in NEEDS]
    if strange:
        raise ValueError(
            f"{name!r}: `description` names '{strange[0]}'; expected some of "
            f"{', '.join(known_fields)}, and needs of {', '.join(NEEDS)}"
        )
    own_fields = {
        "program": cls,
        "settings": outside_settings(cls, OutsideBenchmarkSettings),
        "statistic": "" if hasattr(cls, "statistic") else None,
        **({"clusters": cls.clusters} if hasattr(cls, "clusters") else {}),
        "metrics": tuple(metrics),
        "outside": name,
    }
    try:
        return TypeAdapter(Benchmark).validate_python({**description, **own_fields})
    except ValidationError as error:
        raise ValueError(explain(error, repr(name))) from None


class Benchmarks(dict[str, Benchmark]):
    """The benchmarks of the package by name, and by ``module:Class`` those outside of it."""

    def __missing__(self, name: str) -> Benchmark:
        if is_outside(name):
            return outside_benchmark(name)
        raise KeyError(name)

    def named(self, name: str, recorded: bool = False) -> Benchmark:
        """Return the benchmark of that name; if a file names it (``recorded``), it is trusted.

        Raises:
            ValueError: there is none, or it is outside of the package and not trusted.
        """
        if recorded and is_outside(name):
            require_trusted(name)
        if name not in self and not is_outside(name):
            raise ValueError(f"is '{name}'; expected module:Class or one of {', '.join(self)}")
        return self[name]

    def metrics_of(self, name: str) -> tuple[str, ...] | None:
        """The names of a benchmark's metrics up to the first ``/``; None: the data decide them."""
        # The agreement of labels is measured by a program of its own.
        is_benchmark = name in self or is_outside(name)
        return (self[name].metrics if is_benchmark else None) or METRICS.get(name)

    def measures(self, name: str, metric: str) -> bool:
        """True if a benchmark may have a metric of this name."""
        names = self.metrics_of(name)
        return names is None or metric.split("/")[0].removesuffix("_sd") in names
