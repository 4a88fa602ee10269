"""The command line that the three pretraining programs share."""

import argparse

from cxrflow.command import parser


def training_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the pairs, the run's name and seed, and where its state and model go."""
    made = parser(description)
    made.add_argument("--pairs", required=True, help="pairs.parquet of the cohort")
    made.add_argument("--model", required=True, help="name of this model")
    made.add_argument("--seed", type=int, required=True)
    made.add_argument("--state", required=True, help="folder of the resumable state")
    made.add_argument("--output", required=True, help="model folder to write")
    return made
