"""The inputs of the programs of this folder: a paper, metrics.json files, paired tests."""

from argparse import Namespace
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxr_files.errors import InputError
from cxr_files.program import Parser, parser
from cxrflow.metrics.record import read_metrics
from cxrflow.papers import Paper, load_paper
from cxrflow.papers.table import Result, cells_of

NOT_RUN = "not run in this configuration"
NOT_IN_HEADLINE = "not in the headline"


@dataclass(frozen=True)
class Results:
    """All metrics.json of a table, by task and model; ``left_out``: reasons of missing ones."""

    runs: Mapping[tuple[str, str], list[dict[str, Any]]]
    left_out: Mapping[Result, str]

    @property
    def synthetic(self) -> bool:
        """True if they were measured on synthetic data (never a mixture, see read_results)."""
        return any(run["data"].get("synthetic") for runs in self.runs.values() for run in runs)

    @property
    def datasets(self) -> list[str]:
        """Names of the data they were measured on."""
        return sorted({str(run["data"]["name"]) for runs in self.runs.values() for run in runs})

    def of(self, result: Result | None) -> list[dict[str, Any]]:
        """The runs behind a cell, one a seed; without a model: all runs of the task."""
        if result is None:
            return []
        task, model = result
        if model is not None:
            return self.runs.get((task, model), [])
        return [run for (name, _), runs in self.runs.items() if name == task for run in runs]


def read_results(files: Sequence[Path], left_out: Mapping[Result, str] | None = None) -> Results:
    """Read metrics.json files; refuse what must not stand in one table.

    InputError: as :func:`.read_metrics`; or one seed of a model comes twice, the seeds of a model
    followed different protocols, or synthetic and real data are mixed.
    """
    runs: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    sources: dict[bool, Path] = {}
    for file in files:
        run = read_metrics(file)
        sources.setdefault(bool(run["data"].get("synthetic")), file)
        if len(sources) == 2:
            raise InputError(
                f"{sources[True]} is on synthetic data and {sources[False]} on real data: "
                "they cannot stand in one table"
            )
        of_model = runs[str(run["task"]), str(run["model"])]
        for earlier in of_model:
            if earlier["seed"] == run["seed"]:
                raise InputError(f"{file}: seed {run['seed']} of {run['model']} is given twice")
            if _stated(earlier) != _stated(run):
                raise InputError(
                    f"{file}: field 'protocol' differs from that of seed {earlier['seed']}; "
                    "expected one protocol for all seeds of a model"
                )
        of_model.append(run | {"file": file})
    return Results(dict(runs), left_out or {})


def _stated(run: Mapping[str, Any]) -> dict[str, Any]:
    """A protocol without the solution of a probe's solver, which differs between trainings."""
    return {name: value for name, value in run["protocol"].items() if name != "solution"}


def left_out(paper: Paper) -> dict[Result, str]:
    """The results outside a paper's headline, each with the command that makes it."""
    headline_results = set(cells_of(paper.tables, paper.headline))
    why = f"{NOT_IN_HEADLINE}; `snakemake --cores all {paper.name}` makes it"
    return {
        result: why for result in cells_of(paper.tables, None) if result not in headline_results
    }


def read_paper(options: Namespace) -> Paper:
    """The paper that is asked for."""
    same, stand_ins = (
        dict(pair.split("=", 1) for pair in pairs) for pairs in (options.same, options.stand_ins)
    )
    paper = load_paper(options.paper).with_rows_of(map(load_paper, options.beside))
    return paper.with_models(same, stand_ins)


def results_parser(description: str | None) -> Parser:
    """The options that the programs share."""
    arguments = parser(description, settings=False)
    arguments.add_argument("--paper", required=True, help="name of a paper of ours, or a YAML file")
    arguments.add_argument(
        "--beside", nargs="*", default=[], metavar="PAPER", help="papers with rows in its tables"
    )
    arguments.add_argument(
        "--same",
        nargs="*",
        default=[],
        metavar="NAME=MODEL",
        help="models whose results are those of another, as their trainings are the same",
    )
    arguments.add_argument(
        "--stand-ins",
        nargs="*",
        default=[],
        metavar="NAME=WEIGHTS",
        help="models and vocabularies that have stand-ins, and of what weights",
    )
    arguments.add_argument(
        "--metrics", type=Path, nargs="*", default=[], help="metrics.json of any models and seeds"
    )
    arguments.add_argument(
        "--tests",
        type=Path,
        nargs="*",
        default=[],
        help="JSON files that `cxrflow compare_rows` wrote of the same results",
    )
    return arguments
