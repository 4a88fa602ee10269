"""Next steps after a run: commands to copy, and pages of the documentation."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from cxrflow.names import short_name
from cxrflow.show.page.inputs import RunFolder
from cxrflow.show.page.paper_tables import certificate
from cxrflow.show.tables.text import displayed

METHOD = """# mine.yaml
models:
  mine: {extends: biovil/biovil, settings: {terms: {global_alignment: {temperature: 0.2}}}}
tables:
  table5: {extends: biovil/table5, rows: [{label: Mine, model: mine}]}
headline:
  - {table: table5, rows: ["BioViL: CXR-BERT, global loss", Mine]}

snakemake --cores all --config 'papers=[mine.yaml]'"""


@dataclass(frozen=True)
class NextStep:
    """A suggestion: a title, the reason, the command and its documentation."""

    title: str
    why: str
    code: str
    docs: str | None = None


def next_steps(run: RunFolder, leading: str | None) -> Iterator[NextStep]:
    """The steps that fit this run: not its own scale again, no finished controls."""
    config = run.config
    again = same_overlays(run)
    snakemake = "snakemake --cores all"
    partly = [name for name, extent in run.papers.items() if extent == "headline"]
    if partly:
        yield NextStep(
            "Every row of every table",
            "This page shows the headline rows. Finished models and scores are not made again.",
            "\n".join(f"{snakemake} {name}{again}" for name in partly),
            "docs/configuration.md",
        )
    missing = [
        name
        for paper in run.papers
        for name in config.results[paper].controls
        if config.tasks.of_model(name)
        and any(run.training(name, seed) is None for seed in config.models.seeds_of(name))
    ]
    if missing:
        names = ", ".join(map(short_name, missing))
        yield NextStep(
            "Run the controls",
            f"Models that must fail ({names}): if one scores well, the benchmark is measuring "
            "something else. They join this page when it is made again.",
            f"{snakemake} controls{again}\n{snakemake} --forcerun make_page{again}",
        )
    repeated = [name for name in run.needs.models if config.models[name].recipe.seeds == "each"]
    if len(config.seeds) < 3 and repeated:
        yield NextStep(
            "Three training seeds",
            "Tables then show mean and standard deviation over seeds. Only models trained "
            "once a seed are trained again.",
            f"{snakemake} --config 'seeds=[0,1,2]'{again}",
        )
    yield NextStep(
        "One stage or one table",
        "Everything is addressed by its file; what it needs is made first.",
        _one_table(run) + again,
        "results/README.md",
    )
    if config.data.drawn(*config.datasets):
        yield NextStep(
            "Real data, public",
            "BioViL trained on the radiographs and reports of Open-I, and scored by the terms "
            "that people gave them and by RSNA's boxes.",
            "make real CXR_REAL_DATA=folder",
            "docs/real_data.md",
        )
    yield NextStep(
        "Your own hospital",
        "A folder of radiographs and their reports is enough: BioViL is trained on it, and "
        "scored by which report belongs to which image and by the findings that reports name.",
        f"CXR_HOSPITAL=/data/my_hospital {snakemake} --configfile hospital.yaml",
        "docs/own_hospital.md",
    )
    if config.values.scale != "paper":
        yield NextStep(
            "The papers' own sizes, on a cluster",
            "Real data and full settings; every stage is a Slurm job that resumes after it "
            "was cut off.",
            "CXR_DATA=/path/to/data \\\n"
            f"  snakemake {' '.join(run.papers)} --profile slurm --configfile paper.yaml",
            "docs/slurm.md",
        )
    if certificate(run) is None:
        yield NextStep(
            "The published weights",
            "This project had none at hand, so what they score here is not known. With those "
            "of BioViL, BioViL-T and CXR-BERT in local folders, named under `weights:`, every "
            "published cell that needs no training is measured, and gets a verdict.",
            f"{snakemake} released{again}",
            "docs/weights.md",
        )
    yield NextStep(
        "Add a method as a row",
        "A paper of your own, named in `papers:` by its file, takes what it does not change "
        "from another. Models that are trained already are not trained again.",
        METHOD + again,
        "docs/extending.md",
    )
    if leading is not None:
        folder = (
            f"{config.values.results}/models/{leading}/seed{config.models.seeds_of(leading)[0]}"
        )
        yield NextStep(
            "Take a model elsewhere",
            "One folder holds both encoders; the text encoder loads in plain transformers too.",
            "import cxrflow\n"
            f'model = cxrflow.load("{folder}", "cpu")\n'
            'model.encode_text(["Left pleural effusion."])',
            "docs/weights.md",
        )


def same_overlays(run: RunFolder) -> str:
    """The overlays of a run as the last option, since it takes all that follows."""
    if not run.overlays:
        return ""
    return " --configfile " + " ".join(shlex.quote(displayed(file)) for file in run.overlays)


def _one_table(run: RunFolder) -> str:
    """The command that makes one table with numbers of this run, Table 5 if possible."""
    config = run.config
    tables = [
        (paper, table)
        for paper in run.papers
        for table in config.library.chosen[paper].tables
        if config.results[paper].cells(table)
    ]
    if not tables:
        return "snakemake --cores all -n"
    paper, table = next((entry for entry in tables if entry[1] == "table5"), tables[0])
    return f"snakemake --cores all {config.values.results}/tables/{paper}/{table}.html"
