"""Helpers of all rules: the validated configuration, and paths that follow from it.

`run` is the validated configuration (cxrflow.config.Config). Nothing here writes a file.
"""

import gc
import json
import os
import re
import shlex
import sys
import uuid
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.pathvars import Pathvars

# Objects of the configuration and the graph live to the end: to look among them for what does not,
# as often as Python does, takes a sixth of the time of planning.
gc.freeze()
gc.set_threshold(100_000, 50, 100)

SOURCE = Path(workflow.basedir, "workflow_scripts")
SOURCES = [str(SOURCE), *map(str, sorted(SOURCE.glob("cxr-*")))]
sys.path[:0] = SOURCES

from cxr_files.attempts import FOLDER as REFUSED
from cxrflow.benchmarks.settings import CurationSettings, PairedTestSettings
from cxrflow.kinds import TRUSTED
from cxr_files.settings import deciding_settings
from cxr_files.yaml_file import read_yaml
from cxrflow.config import make_config, parts
from cxrflow.config.cost import Job
from cxrflow.config.held_out import external_notes, overlap_notes
from cxrflow.config.weights import weights_files
from cxrflow.console.plan import Plan
from cxrflow.data.layouts import LAYOUTS, layout as layout_of
from cxr_files.errors import InputError
from cxr_files.atomic import fingerprint
from cxr_files.csv_table import find_file
from cxr_files.outputs import open_to_others
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
    # Overlays lie over config.yaml, whatever order Snakemake lists them in.
    files = dict.fromkeys(os.path.relpath(file) for file in workflow.configfiles)
    CONFIG_FILES = sorted(files, key=lambda file: file != "config.yaml")
    for file in CONFIG_FILES:  # of a key that stands twice Snakemake keeps the last
        read_yaml(file)
    run = make_config(config, CONFIG_FILES, typed=workflow.config_settings.config)
    MODELS = {name: run.model(name) for name in run.models_in_use}
    # The configuration names this code, so jobs may import it where a model folder names it too.
    os.environ[TRUSTED] = ",".join(run.outside_modules)
except InputError as error:
    raise WorkflowError(str(error)) from None

# Snakemake has taken them from the files as they are written, with their `${NAME}` and `~`.
workflow.pathvars.update(Pathvars.from_config({"pathvars": {"results": run.results}}))
DATASETS = run.datasets_in_use()

# A run with papers of the user's has a page of its own, beside that of the demonstration.
OWN_PAPERS = [paper for paper in run.chosen if run.library.source(paper) != paper]
REPORT = os.path.join("<results>", "report", *filter(None, ["+".join(OWN_PAPERS)]))


def plan():
    """The jobs of this run, as the console reckons the time left of (cxrflow.console)."""
    jobs = {
        workflow.dag.jobid(job): Job.of(
            job.rule.name, str(job.benchmark), job.input, job.output, job.priority, job.threads
        )
        for job in workflow.dag.needrun_jobs()
    }
    # On a cluster they wait in its queue, and the times on record are of the demonstration.
    reckoned = workflow.local_exec and run.scale == "demo"
    return Plan.of(jobs, workflow.cores if workflow.local_exec else workflow.nodes, reckoned)


onstart:
    exposed = None if run.data.drawn(*DATASETS) else open_to_others(Path(run.results))
    if exposed is not None:
        print(exposed, file=sys.stderr)
    for name in run.data.absent:
        root = run.datasets[name].root
        print(
            f"{name}: no folder {root}; what needs it is left out of this run", file=sys.stderr
        )
    logger.info("", extra={"plan": plan()})


GIVEN_LABELS = {(given.dataset, given.reference): given for given in run.label_comparisons()}


def one_of(names):
    """A wildcard constraint: one of these names, or nothing at all when there are none."""
    return "|".join(sorted(map(re.escape, names))) or "(?!)"


def with_part(part):
    """The data sets that have this part: reports, documents."""
    return [name for name in DATASETS if getattr(run.data.layout(name), part)]


def cohorts_of(*kinds):
    """The cohorts of these kinds."""
    return [name for name in run.cohorts_in_use if run.known_cohorts[name].recipe.kind in kinds]


def trained_by(rule):
    """The models whose programs a rule runs; imported ones are made of published weights."""
    trained = [name for name in MODELS if not run.imported(name)]
    return [name for name in trained if MODELS[name].recipe.kind.rule == rule]


def tasks_with(models):
    """The tasks that score models, or those that are measured on the data themselves."""
    return [name for name in run.tasks_in_use if bool(run.task(name).benchmark.needs) == models]


wildcard_constraints:
    cohort=one_of(run.cohorts_in_use),
    dataset=one_of(run.data.present),
    external=one_of(run.external),
    figure=one_of(name for paper in run.chosen for name in run.figures(paper)),
    geometry=one_of({geometry for _, geometry in run.stores}),
    model=one_of(MODELS),
    paper=one_of(run.chosen),
    reference=one_of(reference for _, reference in GIVEN_LABELS),
    seed=one_of(map(str, run.seeds)),
    table=one_of(
        name
        for paper in run.chosen
        for extent in ("all", "headline")
        for name in run.table_names(paper, extent)
    ),
    task=one_of(run.tasks_in_use),
    vocabulary=one_of(run.vocabularies_in_use),


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
    return run.resources.get(benchmark, run.resources.get(rule, parts.Resources()))


def job(rule):
    """The resources of a rule's jobs as Snakemake takes them; of trainings also how they are spread."""
    asked = need(rule)
    resources = {"mem_mb": asked.mem_mb, "runtime": asked.runtime, "gpu": asked.gpu}
    if rule.startswith("pretrain_"):
        resources |= {"processes": asked.processes, "nodes": asked.nodes}
        resources |= {"tasks": asked.nodes, "mpi": "srun"} if asked.nodes > 1 else {}
    return resources


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


# --- data -------------------------------------------------------------------------------------------


def layout(dataset):
    """Whose files a data set has."""
    return run.data.layout(dataset).name


def root(dataset):
    """The folder that holds a data set's files."""
    found = run.data.present[dataset]
    return f"{run.results}/phantom/{layout(dataset)}" if found.is_drawn else found.root


def marker(*datasets):
    """The manifests of the data sets that are drawn."""
    drawn = [name for name in dict.fromkeys(datasets) if run.data.present[name].is_drawn]
    return [f"<results>/phantom/{layout(name)}/MANIFEST.json" for name in drawn]


def data_of(uses, *datasets):
    """What a job waits for that reads these data sets: drawn copies, of real ones the lists."""
    files = [file for name in datasets for file in run.data.list_files(name, *uses)]
    return [*marker(*datasets), *dict.fromkeys(files)]


def readers(part, *datasets):
    """What `code_digest` takes for the readers of data sets: no import leads to them."""
    return [name for one in dict.fromkeys(datasets) for name in run.data.layout(one).source(part)]


def stanza_models(kind, trained):
    """(what a job waits for, its folder) of stanza's models: the user's, or ours."""
    folder = (run.reports if kind == "splitter" else run.reports.entities).stanza_folder
    here = [] if folder else [f"<results>/stanza/{trained}/resources.json"]
    return here, folder or f"{run.results}/stanza/{trained}"


def documents(dataset, paper):
    """The documents of a data set; those of reports know their patients' split."""
    cohort = run.document_cohort(dataset, paper)
    if cohort is not None:
        return f"<results>/cohorts/{cohort}/documents.parquet"
    return f"<results>/corpus/{dataset}/documents.parquet"


def draws_validation(cohort):
    """Whether a cohort's validation part is drawn from what its publisher trains on."""
    return run.known_cohorts[cohort].recipe.splits.validation is not None


def published_readers(cohort):
    """The reader of a data set in its published parts, for a cohort that keeps these."""
    recipe, dataset = run.known_cohorts[cohort].recipe, run.known_cohorts[cohort].dataset
    kept = recipe.kind == "classification" and recipe.split_method == "official"
    return readers("published", dataset) if kept else []


def cohort_options(wildcards):
    """Where the data of a cohort lie."""
    found = run.known_cohorts[wildcards.cohort]
    options = ["--dataset", found.dataset, "--layout", layout(found.dataset)]
    options += ["--root", root(found.dataset)]
    for name in found.held_out:
        options += ["--held-out", f"{name}:{layout(name)}={root(name)}"]
    if found.training is not None:
        options += ["--training", f"{layout(found.training)}={root(found.training)}"]
    if found.holder != found.dataset:
        options += ["--images-layout", layout(found.holder), "--images-root", root(found.holder)]
    if found.recipe.curation is not None:
        options += ["--curation", f"{run.results}/curation/{wildcards.cohort}/curation.parquet"]
    return options


def pixels(cohort, model):
    """The pixel store that holds the images of a cohort as a model sees them."""
    return f"<results>/pixels/{cohort}/{MODELS[model].geometry}/store.json"


# --- models -----------------------------------------------------------------------------------------


def model_run(model, seed):
    """What a finished training leaves last."""
    return f"<results>/models/{model}/seed{seed}/run.json"


def model_runs(models):
    """The runs of models, one a seed."""
    return [model_run(name, seed) for name in models for seed in run.seeds_of(name)]


def state(wildcards):
    """Where a training keeps what it needs to go on."""
    return f"{run.results}/state/{wildcards.model}/seed{wildcards.seed}"


def model_vocabulary(model):
    """The vocabulary of a text model, which is also that of the model it starts from."""
    imported = run.vocabulary_model(model)
    if imported is not None:
        return model_run(imported, run.seeds_of(imported)[0])
    return f"<results>/vocabulary/{run.vocabulary_of(model)}/vocabulary.json"
