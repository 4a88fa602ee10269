"""Helpers of all rules: the validated configuration, and paths that follow from it.

`run` is the validated configuration (cxrflow.config.Config). Nothing here writes a file.
"""

import json
import os
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

SOURCE = Path(workflow.basedir, "workflow_scripts")
sys.path.insert(0, str(SOURCE))

from cxrflow.config import make_config
from cxrflow.config.benchmarks import BENCHMARK_ROLES
from cxrflow.config.ms_cxr_statistics import statistics_datasets
from cxrflow.config.row_comparisons import row_comparisons
from cxrflow.config.weights import vocabulary_model, weights_files, weights_kind
from cxrflow.data import layouts
from cxrflow.errors import InputError
from cxrflow.source_files import source_files

# Programs always run from this checkout, whatever else is installed in a rule's environment.
shell.prefix("export PYTHONPATH=%s${{PYTHONPATH:+:$PYTHONPATH}}; " % shlex.quote(str(SOURCE)))

try:
    # Overlays lie over config.yaml, whatever order Snakemake lists them in.
    files = dict.fromkeys(os.path.relpath(file) for file in workflow.configfiles)
    CONFIG_FILES = sorted(files, key=lambda file: file != "config.yaml")
    run = make_config(config, CONFIG_FILES)
    MODELS = {name: run.model(name) for name in run.recipes if run.trainable(name)}
except InputError as error:
    raise WorkflowError(str(error)) from None

REPORT_SETS = [n for n in run.datasets_in_use() if layouts.layout(run.datasets[n].layout).reports]
TEXT_SETS = [n for n in run.datasets_in_use() if layouts.layout(run.datasets[n].layout).documents]
VOCABULARIES = run.vocabularies_in_use()
GIVEN_LABELS = {(given.dataset, given.reference): given for given in run.label_comparisons()}


def one_of(names):
    """A wildcard constraint: one of these names, or nothing at all when there are none."""
    return "|".join(sorted(names)) or "(?!)"


wildcard_constraints:
    benchmark=one_of(BENCHMARK_ROLES),
    cohort=one_of(run.cohorts),
    dataset=one_of(run.datasets),
    figure=one_of(name for paper in run.papers for name in run.figures(paper)),
    geometry=run.pixels.geometry,
    model=one_of(MODELS),
    paper=one_of(run.papers),
    reference=one_of(reference for _, reference in GIVEN_LABELS),
    seed=one_of(map(str, run.seeds)),
    table=one_of(name for paper in run.papers for name in run.tables(paper)),
    vocabulary=one_of(VOCABULARIES),


def source(*names):
    """The files of the package that define a stage's result, as paths from the working directory.

    A name is a program (`pretrain.text`: its module and all that it imports), or a pattern of
    files that a program reads (`reports/rules/*.yaml`). Settings are left out: they reach the
    stage as parameters, defaults included.
    """
    return [os.path.relpath(file) for file in source_files(*names)]


def readers(part, *datasets):
    """What `source` takes for the readers of data sets: no import of a program leads to them."""
    known = [layouts.layout(layout(name)) for name in dict.fromkeys(datasets)]
    return [name for one in known for name in one.source(part)]


def as_json(values):
    """Settings as one line of JSON, what `--settings` takes; equal settings, equal text."""
    return json.dumps(values, sort_keys=True, ensure_ascii=False)


def need(name):
    """The threads, memory, minutes and GPUs of a job, and its retries (`resources:`)."""
    return run.resources_of(name)


def spread(rule):
    """The processes and nodes of a training, and what Slurm is asked for when it has several."""
    found = need(rule)
    several = {"tasks": found.nodes, "mpi": "srun"} if found.nodes > 1 else {}
    return {"processes": found.processes, "nodes": found.nodes, **several}


def root(dataset):
    """The folder that holds a data set's files."""
    found = run.datasets[dataset]
    return f"{run.results}/phantom/{found.layout}" if found.synthetic else found.root


def marker(*datasets):
    """What a job that reads these data sets waits for: nothing, for real ones."""
    found = [run.datasets[name] for name in dict.fromkeys(datasets)]
    return [f"<results>/phantom/{one.layout}/MANIFEST.json" for one in found if one.synthetic]


def layout(dataset):
    """Whose files a data set has."""
    return run.datasets[dataset].layout


def stanza_resources():
    """The splitter model that report processing waits for: ours, if no folder is configured."""
    trained_here = run.reports.splitter == "stanza" and run.reports.stanza_folder is None
    return ["<results>/stanza/phantom/resources.json"] if trained_here else []


def pictures_are_used(phantom):
    """Whether a cohort's images lie in this copy of MIMIC-CXR-JPG; else its tables are enough."""
    layouts = [run.datasets[n].layout for n in run.datasets_in_use() if run.cohorts_pictured_in(n)]
    return phantom == "mimic_cxr_jpg" and phantom in layouts


def stanza_option():
    """`--stanza FOLDER`, when sentences are split by stanza."""
    if run.reports.splitter != "stanza":
        return []
    return ["--stanza", run.reports.stanza_folder or f"{run.results}/stanza/phantom"]


def entity_models():
    """The tagger that entity extraction waits for: ours, if no folder is configured."""
    trained_here = run.reports.entities.stanza_folder is None
    return ["<results>/stanza/entities/resources.json"] if trained_here else []


def entity_option():
    """`--stanza FOLDER`, the tagger's models."""
    return ["--stanza", run.reports.entities.stanza_folder or f"{run.results}/stanza/entities"]


def report_entities():
    """The named entities of the reports of this run."""
    return [f"<results>/corpus/{run.report_dataset}/entities.parquet"]


def documents(dataset):
    """The documents of a data set; those of reports know their patients' split."""
    cohort = run.document_cohort(dataset)
    if cohort is not None:
        return f"<results>/cohorts/{cohort}/documents.parquet"
    return f"<results>/corpus/{dataset}/documents.parquet"


def cohort_dataset(cohort):
    """The data set that a cohort is made from."""
    return run.cohorts[cohort].dataset


def cohort_sources(cohort):
    """The data sets a cohort is read from: its own, its images', those it holds out."""
    return [cohort_dataset(cohort), run.holder(cohort), *run.cohorts[cohort].held_out]


def other_sources(cohort):
    """Options that name the held-out sets and, where they lie elsewhere, the images."""
    options = []
    for name in run.cohorts[cohort].held_out:
        options += ["--held-out", f"{name}:{layout(name)}={root(name)}"]
    holder = run.holder(cohort)
    if holder != cohort_dataset(cohort):
        options += ["--images-layout", layout(holder), "--images-root", root(holder)]
    return options


def cohort_file(role, file):
    """A file of the cohort that plays a role."""
    return f"<results>/cohorts/{getattr(run.roles, role)}/{file}"


def grounding_cohort(wildcards):
    """The cohort whose phrases a model grounds."""
    return getattr(run.roles, run.recipes[wildcards.model].grounding)


def pixel_store(role):
    """The pixel store that holds the images of the cohort that plays a role."""
    return cohort_pixels(getattr(run.roles, role))


def cohort_pixels(cohort):
    """The pixel store that holds the images of a cohort."""
    return f"<results>/pixels/{run.holder(cohort)}/{run.pixels.geometry}/store.json"


def model_features(role):
    """The features that a model has for the images of the cohort that plays a role."""
    cohort = getattr(run.roles, role)
    return f"<results>/features/{{model}}/seed{{seed}}/{cohort}/features.json"


def models_by(program):
    """The models that a training program makes; imported ones are made of published weights."""
    able = [name for name, model in MODELS.items() if model.recipe.program == program]
    return [name for name in able if not run.imported(name)]


def imported_by(program):
    """The imported models that stand for what a training program makes."""
    able = [name for name, model in MODELS.items() if model.recipe.program == program]
    return [name for name in able if run.imported(name)]


def published_weights(wildcards):
    """The files of an imported model's weights."""
    found = weights_files(run, wildcards.model)
    return [str(path) for _, path, kind in found if kind == "file"]


def import_options(wildcards):
    """Which weights an imported model is made of."""
    kind = weights_kind(run, wildcards.model)
    weights, image = run.weights[wildcards.model].places(kind)
    return ["--kind", kind, "--weights", weights, *option("--image", *([image] if image else []))]


def model_settings(wildcards):
    """The complete settings of a model: recipe, scale, configuration; or of its import."""
    return as_json(MODELS[wildcards.model].settings.model_dump(mode="json"))


def model_vocabulary(wildcards):
    """The vocabulary of a text model, which is also that of the model it starts from."""
    imported = vocabulary_model(run, wildcards.model)
    if imported is not None:
        return model_run(imported, run.seeds_of(imported)[0])
    return f"<results>/vocabulary/{run.vocabulary_of(wildcards.model)}/vocabulary.json"


def model_tokens(wildcards):
    """The token files that a text model reads, when it is trained on corpora."""
    corpora = run.corpora_of(wildcards.model)
    if not corpora:
        return []
    vocabulary = run.vocabulary_of(wildcards.model)
    return [f"<results>/tokens/{vocabulary}/{name}/tokens.json" for name in corpora]


def model_pairs(wildcards):
    """The pairs that a model is trained on, those of the role its recipe names."""
    role = run.recipes[wildcards.model].pairs
    return [] if role is None else [cohort_file(role, "pairs.parquet")]


def model_pixels(wildcards):
    """The pixel store that holds a model's training images."""
    return pixel_store(run.recipes[wildcards.model].pairs)


def model_run(model, seed):
    """What a finished training leaves last."""
    return f"<results>/models/{model}/seed{seed}/run.json"


def parent_run(option):
    """An input function: the run of the model that `option` (start, text, image) names."""

    def found(wildcards):
        parents = run.parents(wildcards.model, int(wildcards.seed))
        return [model_run(*parents[option])] if option in parents else []

    return found


def state(wildcards):
    """Where a training keeps what it needs to go on."""
    return f"{run.results}/state/{wildcards.model}/seed{wildcards.seed}"


def option(name, *files):
    """A command line option with its files, or nothing when there are none."""
    return [name, *map(str, files)] if files else []


def folders(files):
    """The folders that hold these files."""
    return [os.path.dirname(str(file)) for file in files]
