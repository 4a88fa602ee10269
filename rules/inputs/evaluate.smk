"""What the rules of evaluate.smk read, and how it stands on their command lines."""


def row_of(wildcards):
    """The model or other row that a job scores; None where data are measured alone."""
    name = wildcards.get("name")
    if name:
        return f"reference/{name}"
    return wildcards.get("external") or wildcards.get("model")


def task_inputs(wildcards):
    """What a task reads, by the option of `cxrflow evaluate`. Which of it, its benchmark says."""
    task, row, seed = run.tasks[wildcards.task], row_of(wildcards), wildcards.get("seed")
    if task.datasets:
        return {"data": data_of(["tables", "demographics"], *task.datasets)}
    cohort, training, geometry = task.cohort, task.task.training, task.geometry(row)
    external = run.library.external[row].files[task.name] if wildcards.get("external") else []
    files = {
        "model": f"<results>/models/{row}/seed{seed}/run.json",
        "cohort": cohort_table(cohort),  # <results>/cohorts/{cohort}/samples.parquet, or pairs
        "curation": [f"<results>/curation/{cohort}/curation.parquet"],
        "pixels": f"<results>/pixels/{cohort}/{geometry}/store.json",
        "registration": f"<results>/registration/{cohort}/{geometry}/registration.json",
        "features": f"<results>/features/{row}/seed{seed}/{cohort}/features.json",
        "vocabulary": [
            f"<results>/vocabulary/{name}/vocabulary.json"
            for name in run.whole.vocabularies_of(task.name)
        ],
        "training": cohort_table(training) if training else [],
        "truth": truth_of(task, wildcards.get("name")),
        "stanza": TAGGER[0],
        "external": external,
        "lists": [str(file) for file in task.files.values()],
    }
    wanted = task.benchmark.files(
        task.settings,
        # Where data are measured alone there is no row: they are read as the benchmark says.
        without_model=row is not None and not wildcards.get("model"),
        reads_states=wildcards.get("name") in task.benchmark.of_states,
    )
    return {
        name: paths
        for name, paths in files.items()
        if name in wanted or (paths and name in ("external", "lists"))
    }


def truth_of(task, reference):
    """The drawn copy that holds a truth: that of the images, of findings that of the reports."""
    curation = run.cohorts.curation(task.cohort) if task.benchmark.reads == "curation" else None
    cohort = run.cohorts[curation.candidates if curation else task.cohort]
    of_reports = task.benchmark.truth == "findings" or reference in task.benchmark.of_states
    sets = cohort.of_one_set
    return marker(*(each.dataset if of_reports else each.holder for each in sets))


def task_options(wildcards, input):
    """The same as options: the folders they lie in, and where a state and stanza's models do."""
    task = run.tasks[wildcards.task]
    if task.datasets:
        return statistics_options(task)
    files = task_inputs(wildcards)
    apart = ("stanza", "external", "lists")
    options = folder_options([name for name in files if name not in apart], input)
    options += option("--stanza", TAGGER[1]) if "stanza" in files else []
    if wildcards.get("external"):
        options += ["--external", input.external, "--name", wildcards.external, "--or-reason"]
        return [*options, *least_share(wildcards)]
    if wildcards.get("name"):
        return [*options, "--reference", wildcards.name]
    if wildcards.get("model"):
        options += ["--seed", wildcards.seed]
        state = f"{RESULTS}/state/benchmarks/{task.name}/{wildcards.model}/seed{wildcards.seed}"
        options += ["--state", state] if task.benchmark.resumes else []
    return options


def statistics_options(task):
    """Where the data sets lie that statistics are of."""
    annotated, studies, *demographics = task.datasets
    options = ["--dataset", annotated, "--root", root(annotated)]
    options += ["--studies-layout", layout(studies), "--studies-root", root(studies)]
    return [*options, *option("--demographics", *map(root, demographics))]


def least_share(wildcards):
    """What of a task's rows an external file must hold, where that is not all of them."""
    share = run.library.external[wildcards.external].least_share
    return ["--least-share", share] if share < 1 else []


def task_places(wildcards):
    """What decides and is no file of this run: data sets, models of stanza, a file's share."""
    if wildcards.get("external"):
        return least_share(wildcards)
    task = run.tasks[wildcards.task]
    if task.datasets:
        return statistics_options(task)
    return [TAGGER[1]] if "stanza" in task_inputs(wildcards) and not TAGGER[0] else []


def task_code(wildcards):
    """The modules and rules that predict in a task, the trunks, the readers of data sets."""
    task = run.tasks[wildcards.task]
    if wildcards.get("name"):
        return [*task.code, task.benchmark.code(task.benchmark.baselines)]
    if wildcards.get("external"):
        return [*task.code, "benchmarks.rows.external"]
    trunks = run.models[wildcards.model].parts if wildcards.get("model") else []
    return [*task.code, *trunks, *readers("tables", *task.datasets)]


def task_need(rule, what):
    """A resource of a task: its benchmark's, or what all of the rule ask for."""
    return lambda wildcards: getattr(need(rule, run.tasks[wildcards.task].task.benchmark), what)


def tasks_with(models):
    """The tasks that score models, or those that are measured on the data themselves."""
    return [name for name in run.tasks.available if bool(run.tasks[name].benchmark.needs) == models]


def scoring_group(wildcards):
    """On a cluster: features of a model and what is scored with them are one job.

    Not what trains, which may be longer than a job may run, and resumes. `scoring`, of which the
    profile gives a group one, lets its members run one after the other.
    """
    trains = "task" in wildcards.keys() and run.tasks[wildcards.task].benchmark.resumes
    return None if is_local() or trains else "scores"


def reference_group(wildcards):
    """On a cluster: rows that need no model of ours, of which a job takes several."""
    return None if is_local() else "references"
