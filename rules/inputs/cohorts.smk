"""What the rules of cohorts.smk read, and what a run asks of the cohorts that they build."""


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
    if cohort.recipe.unsaid_views == "predicted":
        modules.append("data.cohorts.predicted_views")
    return [*modules, *published_readers(cohort)]


def cohort_options(wildcards):
    """Where the data of a cohort lie."""
    cohort = run.cohorts[wildcards.cohort]
    options = ["--dataset", cohort.dataset, "--layout", layout(cohort.dataset)]
    options += ["--root", root(cohort.dataset)]
    if run.data.present[cohort.dataset].ids is not None:
        options += ["--ids", run.data.layout(cohort.dataset).ids]
    for name, parts in cohort.held_out.items():
        ids = run.data.present[name].ids
        kind = f"{layout(name)}/{','.join(parts)}" if parts else layout(name)
        numbered = f"@{ids}" if ids else ""
        options += ["--held-out", f"{name}:{kind}{numbered}={root(name)}"]
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


def joined_cohorts(wildcards):
    """The cohorts of one data set that a cohort joins."""
    return [cohort.name for cohort in run.cohorts[wildcards.cohort].joined]


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
    to_build = {w["cohort"] for rule, w in jobs if rule in (*BUILT, *JOINED)}
    for cohort, rows in asked.items():
        needs = [Demand(**each) for each in rows]
        if cohort in to_build:
            note(cohort, needs)
        elif run.selection is None:  # a slice was checked when it was whole
            check(Path(RESULTS, "cohorts", cohort), needs)
    pairs = compared_cohorts(
        run, [(w["task"], w["model"]) for rule, w in jobs if rule == "evaluate"]
    )
    note_compared(pairs)
    if pairs:
        from cxrflow.images.copies import require_none  # numpy and scipy, of real data alone

        require_none(Path(RESULTS), pairs)
