"""Cohorts: which studies, which image of each, which prior, which split, and what was dropped.

Inputs: the data sets' own files, `<results>/corpus/<dataset>/` for pairs.
Outputs: `<results>/cohorts/<paper>/<cohort>/`; flow.json counts every filter with its reasons.
"""


def published_readers(cohort):
    """The reader of a data set in its published parts, for a cohort that keeps these."""
    kept = cohort.recipe.kind == "classification" and cohort.recipe.split_method == "official"
    return readers("published", cohort.dataset) if kept else []


def cohort_code(wildcards):
    """What chooses rows, and the readers of the data sets; of published parts their reader."""
    cohort = run.cohorts[wildcards.cohort]
    modules = ["data.cohorts.cohort", *readers("tables", *cohort.sources)]
    if cohort.recipe.splits.validation is not None:  # drawn from what its publisher trains on
        modules.append("data.cohorts.validation")
    return [*modules, *published_readers(cohort)]


def cohort_options(wildcards):
    """Where the data of a cohort lie."""
    cohort = run.cohorts[wildcards.cohort]
    options = ["--dataset", cohort.dataset, "--layout", layout(cohort.dataset)]
    options += ["--root", root(cohort.dataset)]
    for name in cohort.held_out:
        options += ["--held-out", f"{name}:{layout(name)}={root(name)}"]
    if cohort.training is not None:
        options += ["--training", f"{layout(cohort.training)}={root(cohort.training)}"]
    if cohort.holder != cohort.dataset:
        options += ["--images-layout", layout(cohort.holder), "--images-root", root(cohort.holder)]
    if cohort.recipe.curation is not None:
        options += ["--curation", f"{RESULTS}/curation/{wildcards.cohort}/curation.parquet"]
    return options


def cohort_inputs(wildcards):
    """What a cohort is made of: its data sets, reports of pairs, curation, the user's own split."""
    name, cohort = wildcards.cohort, run.cohorts[wildcards.cohort]
    recipe = cohort.recipe
    corpus, curation = f"<results>/corpus/{cohort.dataset}", f"<results>/curation/{name}"
    uses = ["tables", *(["labels"] if recipe.labels == "published" else [])]
    uses += ["published"] if published_readers(cohort) else []
    return {
        "data": data_of(uses, *cohort.sources),
        "corpus": [f"{corpus}/corpus.json"] if recipe.kind == "pairs" else [],
        "curation": [f"{curation}/curation.parquet"] if recipe.curation is not None else [],
        "split": [str(recipe.splits.file)] if recipe.splits.file is not None else [],
    }


# The kinds of cohort that each rule builds, and the tables of these kinds.
BUILT = {
    "build_pairs": (["pairs"], ["pairs", "documents"]),
    "build_samples": (["grounding", "classification", "nli", "progression"], ["samples"]),
    "build_retrieval": (["retrieval"], ["samples", "queries"]),
}

for building, (kinds, tables) in BUILT.items():

    rule:
        """Choose the rows of a cohort, hold evaluation patients out, split the others."""
        name:
            building
        input:
            unpack(cohort_inputs),
        output:
            **{table: f"<results>/cohorts/{{cohort}}/{table}.parquet" for table in tables},
            images="<results>/cohorts/{cohort}/images.parquet",
            split="<results>/cohorts/{cohort}/split.csv",
            flow="<results>/cohorts/{cohort}/flow.json",
        log:
            f"<logs>/{building}/{{cohort}}.log",
        benchmark:
            f"<timings>/{building}/{{cohort}}.tsv"
        wildcard_constraints:
            cohort=one_of(n for n in run.whole.cohorts if run.cohorts[n].recipe.kind in kinds),
        priority: building_priority
        conda:
            "../envs/cpu.yaml"
        params:
            **settings_of(lambda wildcards: run.cohorts[wildcards.cohort].recipe.settings()),
            code=lambda wildcards: code_digest(*cohort_code(wildcards)),
            data=cohort_options,
            corpus=lambda wildcards, input: option("--corpus", *folders(input.corpus)),
            folder=subpath(output.flow, parent=True),
        shell:
            r"""
            python -m cxrflow.data.cohorts.build_cohort \
                --settings {params.given:q} \
                {params.data:q} \
                {params.corpus:q} \
                --threads {threads} \
                --output {params.folder:q} \
                >{log:q} 2>&1
            """


def check_cohorts():
    """Let cohorts answer what this run asks of them: those that are there, others once built.

    No input of a rule, so that a model more builds no cohort again.
    """
    jobs = planned()
    asked = asked_rows(
        run,
        dict.fromkeys(w["model"] for rule, w in jobs if rule in WEIGHTS),
        dict.fromkeys(w["task"] for rule, w in jobs if rule == "evaluate"),
    )
    to_build = {w["cohort"] for rule, w in jobs if rule in BUILT}
    for cohort, rows in asked.items():
        needs = [Demand(**each) for each in rows]
        if cohort in to_build:
            note(cohort, needs)
        else:
            check(Path(RESULTS, "cohorts", cohort), needs)
