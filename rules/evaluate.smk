"""Tasks: benchmarks on their cohorts, in one rule for models, reference rows and the data alone.

Inputs: a model, or a file of what one predicted elsewhere; the cohort of a task, what of its images
the benchmark reads; for a task that needs no model the data themselves. Outputs:
`<results>/benchmarks/<paper>/<task>/<model>/seed<k>/`.
"""


include: "inputs/evaluate.smk"


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
    priority: features_priority
    group:
        scoring_group
    conda:
        "../envs/gpu.yaml"
    resources:
        **job("extract_features"),
        scoring=1,
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
    priority: score_priority
    group:
        scoring_group
    conda:
        "../envs/gpu.yaml"
    threads: task_need("evaluate", "threads")
    resources:
        mem_mb=task_need("evaluate", "mem_mb"),
        runtime=task_need("evaluate", "runtime"),
        gpu=task_need("evaluate", "gpu"),
        scoring=1,
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
    group:
        reference_group
    conda:
        "../envs/cpu.yaml"
    threads: need("score_reference").threads
    resources:
        **job("score_reference"),
        scoring=1,


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
    group:
        reference_group
    conda:
        "../envs/cpu.yaml"
    threads: need("score_external").threads
    resources:
        **job("score_external"),
        scoring=1,


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
    group:
        None
    conda:
        "../envs/cpu.yaml"
    threads: task_need("measure_data", "threads")
    resources:
        mem_mb=task_need("measure_data", "mem_mb"),
        runtime=task_need("measure_data", "runtime"),
        gpu=task_need("measure_data", "gpu"),
