"""What the benchmarks of images share: their command line, and the three things it names."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import cxrflow
from cxrflow.benchmarks.inputs import Cohort, Pixels, open_pixels, read_cohort
from cxrflow.benchmarks.settings import BenchmarkSettings
from cxrflow.command import parser
from cxrflow.model import Model
from cxrflow.training.precision import choose_device


def image_benchmark_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the model, the cohort, the pixels and the result folder."""
    made = parser(description)
    made.add_argument("--model", type=Path, required=True, help="results/models/<m>/seed<k>")
    made.add_argument("--cohort", type=Path, required=True, help="results/cohorts/<cohort>")
    made.add_argument("--pixels", type=Path, required=True, help="results/pixels/<d>/<geometry>")
    made.add_argument("--seed", type=int, default=0, help="seed the model was trained with")
    made.add_argument("--output", type=Path, required=True)
    return made


def read_inputs(
    options: argparse.Namespace, columns: Sequence[str], settings: BenchmarkSettings
) -> tuple[Model, Cohort, Pixels]:
    """The model, the samples of the chosen split, and the pixels, in the model's geometry."""
    cohort = read_cohort(options.cohort, "samples.parquet", columns, settings.split)
    model = cxrflow.load(options.model, choose_device(settings.device))
    return model, cohort, open_pixels(options.pixels, model.geometry)
