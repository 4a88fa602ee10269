"""The validated configuration, and how settings, code and options stand in rules.

`run` is the validated configuration (cxrflow.config.Config). Nothing here writes a file.
"""

import json
import os
import re
import shlex
import sys
import uuid
from pathlib import Path

from snakemake.exceptions import WorkflowError

SOURCE = Path(workflow.basedir, "workflow_scripts")
SOURCES = [str(SOURCE), *map(str, sorted(SOURCE.glob("cxr-*")))]
sys.path[:0] = SOURCES

from cxr_files.attempts import FOLDER as REFUSED
from cxr_files.ids import HIDDEN, IDS
from cxrflow.benchmarks.settings import CurationSettings, PairedTestSettings
from cxrflow.kinds import REHEARSAL, TRUSTED
from cxr_files.settings import deciding_settings
from cxr_files.yaml_file import read_yaml
from cxrflow.config import make_config, parts
from cxrflow.config.cost import Job
from cxrflow.config.demands import asked_rows
from cxrflow.config.rehearsal import sizes
from cxrflow.config.held_out import compared_cohorts, external_notes, overlap_notes
from cxrflow.config.plan import (
    announcement,
    block,
    cells_without,
    require_models,
    table_notes,
)
from cxrflow.config.released import released_cells, released_notes, released_results
from cxrflow.config.weights import weights_files
from cxrflow.console.plan import Plan
from cxrflow.data.cohorts.demands import Demand, check, note
from cxrflow.data.cohorts.join_cohorts import common_folder
from cxr_files.errors import InputError
from cxr_files.atomic import fingerprint
from cxr_files.csv_table import find_file
from cxr_files.outputs import open_to_others
from cxrflow.images.compared import note as note_compared
from cxrflow.names import paper_of
from cxr_hospital.settings import HospitalSettings
from cxrflow.programs.source_code import code_digest

# Programs always run from this checkout, whatever else is installed in a rule's environment.
# A log may lie on a full disk; what ends a job is then said where Snakemake says things. Of a program
# that is killed bash would print the whole command; where the signal has a trap, it prints a word.
shell.prefix(
    "export PYTHONPATH=%s${{PYTHONPATH:+:$PYTHONPATH}} CXRFLOW_TERMINAL=19; exec 19>&2; "
    "trap : KILL SEGV ABRT BUS; " % shlex.quote(":".join(SOURCES))
)

# Where programs note why they refused a job, so that this run does not try it again; its jobs inherit
# the name, those of Slurm as well (cxr_files.attempts).
os.environ.setdefault(REFUSED, os.path.abspath(f".snakemake/refused/{uuid.uuid4().hex}"))

try:
    CONFIG_FILES = overlays()
    for file in CONFIG_FILES:  # of a key that stands twice Snakemake keeps the last
        read_yaml(file)
    run = make_config(config, CONFIG_FILES, typed=typed_values())
    # The configuration names this code, so jobs may import it where a model folder names it too.
    os.environ[TRUSTED] = ",".join(run.outside_modules)
    # Logs and records of jobs name studies where the configuration lets them.
    drawn = run.data.drawn(*run.datasets)
    os.environ[IDS] = "" if run.values.privacy.permits("ids", drawn) else HIDDEN
    # A rehearsal's jobs read a slice of the data; no other run does, whatever its environment says.
    os.environ.pop(REHEARSAL, None)
    if run.selection is not None:
        os.environ[REHEARSAL] = sizes(run).model_dump_json()
except InputError as error:
    raise WorkflowError(str(error)) from None

RESULTS = run.values.results  # as a folder of this machine; in paths of rules it is <results>
put_results_in(RESULTS)

# A run with papers of the user's has a page of its own, beside that of the demonstration.
OWN_PAPERS = [paper for paper in run.results if run.library.source(paper) != paper]
REPORT = os.path.join("<results>", "report", *filter(None, ["+".join(OWN_PAPERS)]))


onstart:
    exposed = None if run.data.drawn(*run.datasets) else open_to_others(Path(RESULTS))
    if exposed is not None:
        print(exposed, file=sys.stderr)
    try:
        if run.values.rehearsal is None:  # which reads slices, and goes on after a failure
            check_cohorts()
    except InputError as error:
        raise WorkflowError(str(error)) from None
    logger.info("", extra={"plan": plan()})


onerror:
    waiting = {(w["task"], row_of(w)) for rule, w in planned() if "task" in w}
    if cells := cells_without(run, waiting):
        print(
            f"cells of tables without a value: {cells}. Mend what failed and type the same "
            "command: it makes them and nothing again.",
            file=sys.stderr,
        )


def one_of(names):
    """A wildcard constraint: one of these names, or nothing at all when there are none."""
    return "|".join(sorted(map(re.escape, names))) or "(?!)"


wildcard_constraints:
    cohort=one_of(run.whole.cohorts),
    dataset=one_of(run.data.present),
    external=one_of(run.library.external),
    figure=one_of(name for results in run.results.values() for name in results.figures()),
    geometry=one_of({geometry for _, geometry in run.whole.stores}),
    model=one_of(run.whole.models),
    paper=one_of(run.results),
    reference=one_of(given.reference for given in run.label_comparisons()),
    seed=one_of(map(str, run.seeds)),
    table=one_of(
        name
        for results in run.results.values()
        for extent in ("all", "headline")
        for name in results.tables(extent)
    ),
    task=one_of(run.tasks.available),
    vocabulary=one_of(run.whole.vocabularies),


# --- settings and resources ---------------------------------------------------------------------


def as_json(values):
    """Settings as one line of JSON, what `--settings` takes; equal settings, equal text."""
    plain = values if isinstance(values, dict) else values.model_dump(mode="json")
    return json.dumps(plain, sort_keys=True, ensure_ascii=False)


def deciding(settings):
    """A record of settings without what changes no result, such as how often a line is logged."""
    return as_json(deciding_settings(settings.record()))


def settings_of(find):
    """What a rule says under `params` of its settings, which `find(wildcards)` gives.

    Snakemake compares `settings` with those of the run before, and reruns the job where they differ.
    The program gets `given`, all values, which depends on `output`: Snakemake does not compare it.
    """
    return {
        "settings": lambda wildcards: deciding(find(wildcards)),
        "given": lambda wildcards, output: as_json(find(wildcards)),
    }


def need(rule, benchmark=None):
    """What one job asks for under `resources`; an evaluation, first under its benchmark."""
    resources = run.values.resources
    return resources.get(benchmark, resources.get(rule, parts.Resources()))


def job(rule):
    """The resources of a rule's jobs as Snakemake takes them."""
    asked = need(rule)
    return {"mem_mb": asked.mem_mb, "runtime": asked.runtime, "gpu": asked.gpu}


# --- options of programs ------------------------------------------------------------------------


def option(name, *values):
    """A command line option with its values, or nothing when there are none."""
    return [name, *map(str, values)] if values else []


def folders(files):
    """The folders that hold these files."""
    return [os.path.dirname(str(file)) for file in files]


def folder_options(names, input):
    """Inputs of a job as options of the same names: the folders that hold them."""
    named = {name: [input[name]] if isinstance(input[name], str) else input[name] for name in names}
    return [word for name, files in named.items() for word in option(f"--{name}", *folders(files))]
