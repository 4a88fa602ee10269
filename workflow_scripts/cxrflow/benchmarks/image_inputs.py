"""What the benchmarks of images share: their command line, and the three things it names."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import cxrflow
from cxrflow.benchmarks.inputs import (
    Cohort,
    Pixels,
    model_benchmark_parser,
    open_pixels,
    read_cohort,
)
from cxrflow.benchmarks.settings import BenchmarkSettings
from cxrflow.model import Model
from cxrflow.training.precision import choose_device


def image_benchmark_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the model, the cohort, the pixels and the result folder."""
    made = model_benchmark_parser(description)
    made.add_argument("--cohort", type=Path, required=True, help="results/cohorts/<cohort>")
    made.add_argument("--pixels", type=Path, required=True, help="results/pixels/<d>/<geometry>")
    return made


def read_inputs(
    options: argparse.Namespace, columns: Sequence[str], settings: BenchmarkSettings
) -> tuple[Model, Cohort, Pixels]:
    """The model, the samples of the chosen split, and the pixels, in the model's geometry."""
    cohort = read_cohort(options.cohort, "samples.parquet", columns, settings.split)
    model = cxrflow.load(options.model, choose_device(settings.device))
    return model, cohort, open_pixels(options.pixels, model.geometry)
