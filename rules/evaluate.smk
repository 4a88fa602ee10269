"""Tasks: benchmarks on their cohorts, in one rule for models, reference rows and the data alone.

Inputs: a model, or a file of what one predicted elsewhere; the cohort of a task, what of its images
the benchmark reads; for a task that needs no model the data themselves. Outputs:
`<results>/benchmarks/<paper>/<task>/<model>/seed<k>/`.
"""


def row_of(wildcards):
    """The model or other row that a job scores; None where data are measured alone."""
    if wildcards.get("name"):
        return f"reference/{wildcards.name}"
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
        is_oracle=wildcards.get("name") in task.benchmark.oracles,
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
    of_findings = task.benchmark.truth == "findings" or reference in task.benchmark.oracles
    return marker(cohort.dataset if of_findings else cohort.holder)


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
        return [*options, "--external", input.external, "--name", wildcards.external]
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


def task_places(wildcards):
    """What a task reads that is no file of this run: data sets, the user's models of stanza."""
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


rule extract_features:
    """Encode the images of a cohort with a model, once for all that start from them."""
    input:
        model="<results>/models/{model}/seed{seed}/run.json",
        cohort="<results>/cohorts/{cohort}/samples.parquet",
        pixels=lambda wildcards: (
            f"<results>/pixels/{{cohort}}/{run.models[wildcards.model].geometry}/store.json"
        ),
    output:
        features="<results>/features/{model}/seed{seed}/{cohort}/features.safetensors",
        index="<results>/features/{model}/seed{seed}/{cohort}/index.parquet",
        source="<results>/features/{model}/seed{seed}/{cohort}/features.json",
    log:
        "<logs>/extract_features/{model}.seed{seed}.{cohort}.log",
    benchmark:
        "<timings>/extract_features/{model}.seed{seed}.{cohort}.tsv"
    conda:
        "../envs/gpu.yaml"
    params:
        **settings_of(lambda wildcards: run.values.features),
        code=lambda wildcards: code_digest(
            "benchmarks.features", *run.models[wildcards.model].parts
        ),
        model=subpath(input.model, parent=True),
        cohort=subpath(input.cohort, parent=True),
        pixels=subpath(input.pixels, parent=True),
        folder=subpath(output.features, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.extract_features \
            --model {params.model:q} \
            --cohort {params.cohort:q} \
            --pixels {params.pixels:q} \
            --settings {params.given:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule evaluate:
    """Score a model in a task."""
    input:
        unpack(task_inputs),
    output:
        metrics="<results>/benchmarks/{task}/{model}/seed{seed}/metrics.json",
        predictions="<results>/benchmarks/{task}/{model}/seed{seed}/predictions.parquet",
    log:
        "<logs>/evaluate/{task}/{model}.seed{seed}.log",
    benchmark:
        "<timings>/evaluate/{task}/{model}.seed{seed}.tsv"
    wildcard_constraints:
        task=one_of(tasks_with(models=True)),
    conda:
        "../envs/gpu.yaml"
    threads: task_need("evaluate", "threads")
    resources:
        mem_mb=task_need("evaluate", "mem_mb"),
        runtime=task_need("evaluate", "runtime"),
        gpu=task_need("evaluate", "gpu"),
    params:
        **settings_of(lambda wildcards: run.tasks[wildcards.task].settings),
        code=lambda wildcards: code_digest("benchmarks.runner", *task_code(wildcards)),
        benchmark=lambda wildcards: run.tasks[wildcards.task].task.benchmark,
        places=task_places,  # compared, as settings are
        data=task_options,
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.evaluate {params.benchmark:q} \
            --task {wildcards.task:q} \
            {params.data:q} \
            --settings {params.given:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >>{log:q} 2>&1
        """


# What has learnt nothing: a reference row of a benchmark (docs/references.md).
use rule evaluate as score_reference with:
    output:
        metrics="<results>/benchmarks/{task}/reference/{name}/seed0/metrics.json",
        predictions="<results>/benchmarks/{task}/reference/{name}/seed0/predictions.parquet",
    log:
        "<logs>/score_reference/{task}/{name}.log",
    benchmark:
        "<timings>/score_reference/{task}/{name}.tsv"
    wildcard_constraints:
        task=one_of(t for t in tasks_with(models=True) if run.tasks[t].benchmark.references),
        name="[a-z_]+",
    conda:
        "../envs/cpu.yaml"
    threads: need("score_reference").threads
    resources:
        **job("score_reference"),


# What was run elsewhere: a file of scores, vectors, reports or maps (docs/external_models.md).
use rule evaluate as score_external with:
    output:
        metrics="<results>/benchmarks/{task}/{external}/seed0/metrics.json",
        predictions="<results>/benchmarks/{task}/{external}/seed0/predictions.parquet",
    log:
        "<logs>/score_external/{task}/{external}.log",
    benchmark:
        "<timings>/score_external/{task}/{external}.tsv"
    wildcard_constraints:
        task=one_of(task for one in run.library.external.values() for task in one.files),
    conda:
        "../envs/cpu.yaml"
    threads: need("score_external").threads
    resources:
        **job("score_external"),


# What needs no model: data sets, cohorts, vocabularies, registration.
use rule evaluate as measure_data with:
    output:
        metrics="<results>/benchmarks/{task}/metrics.json",
        predictions="<results>/benchmarks/{task}/predictions.parquet",
    log:
        "<logs>/measure_data/{task}.log",
    benchmark:
        "<timings>/measure_data/{task}.tsv"
    wildcard_constraints:
        task=one_of(tasks_with(models=False)),
    conda:
        "../envs/cpu.yaml"
    threads: task_need("measure_data", "threads")
    resources:
        mem_mb=task_need("measure_data", "mem_mb"),
        runtime=task_need("measure_data", "runtime"),
        gpu=task_need("measure_data", "gpu"),
