"""Tasks: benchmarks on their cohorts, one rule for all that score a model (docs/protocols.md).

Inputs: a model, the cohort of a task, what of its images the benchmark reads; for a task that needs
no model the data themselves. Outputs: `<results>/benchmarks/<paper>/<task>/<model>/seed<k>/`.
"""


rule extract_features:
    """Encode the images of a cohort with a model, once for all that start from them."""
    input:
        model="<results>/models/{model}/seed{seed}/run.json",
        cohort="<results>/cohorts/{cohort}/samples.parquet",
        pixels=lambda wildcards: pixels(wildcards.cohort, wildcards.model),
    output:
        features="<results>/features/{model}/seed{seed}/{cohort}/features.safetensors",
        index="<results>/features/{model}/seed{seed}/{cohort}/index.parquet",
        source="<results>/features/{model}/seed{seed}/{cohort}/features.json",
    log:
        "<logs>/extract_features/{model}.seed{seed}.{cohort}.log",
    benchmark:
        "<timings>/extract_features/{model}.seed{seed}.{cohort}.tsv"
    retries: need("extract_features").retries
    conda:
        "../envs/gpu.yaml"
    threads: need("extract_features").threads
    resources:
        **job("extract_features"),
    params:
        code=lambda wildcards: code_digest("benchmarks.features", *run.trunk_of(wildcards.model)),
        settings=as_json(run.features),
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
            --settings {params.settings:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule evaluate:
    """Score a model in a task."""
    input:
        unpack(task_inputs),
        tagger=task_tagger,
        model="<results>/models/{model}/seed{seed}/run.json",
    output:
        metrics="<results>/benchmarks/{task}/{model}/seed{seed}/metrics.json",
        predictions="<results>/benchmarks/{task}/{model}/seed{seed}/predictions.parquet",
    log:
        "<logs>/evaluate/{task}/{model}.seed{seed}.log",
    benchmark:
        "<timings>/evaluate/{task}/{model}.seed{seed}.tsv"
    wildcard_constraints:
        task=one_of(tasks_with(models=True)),
    retries: need("evaluate").retries
    conda:
        "../envs/gpu.yaml"
    threads: evaluation_need("threads")
    resources:
        mem_mb=evaluation_need("mem_mb"),
        runtime=evaluation_need("runtime"),
        gpu=evaluation_need("gpu"),
    params:
        code=lambda wildcards: code_digest(
            *(f"benchmarks.{one.program}" for one in run.task(wildcards.task).computed),
            *run.trunk_of(wildcards.model),
        ),
        benchmark=benchmark_of,
        settings=lambda wildcards: deciding(run.task(wildcards.task).settings),
        given=lambda wildcards, output: as_json(run.task(wildcards.task).settings),
        model=subpath(input.model, parent=True),
        data=task_options,
        state=benchmark_state,
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.evaluate {params.benchmark:q} \
            --task {wildcards.task:q} \
            --model {params.model:q} \
            {params.data:q} \
            {params.state:q} \
            --settings {params.given:q} \
            --seed {wildcards.seed} \
            --output {params.folder:q} \
            >>{log:q} 2>&1
        """


rule score_reference:
    """Score what has learnt nothing: a reference row of a benchmark (docs/references.md)."""
    input:
        cohort=lambda wildcards: cohort_table(run.library.tasks[wildcards.task].cohort),
        pixels=reference_pixels,
        training=task_reports,
        tagger=task_tagger,
    output:
        metrics="<results>/benchmarks/{task}/reference/{name}/seed0/metrics.json",
        predictions="<results>/benchmarks/{task}/reference/{name}/seed0/predictions.parquet",
    log:
        "<logs>/score_reference/{task}/{name}.log",
    benchmark:
        "<timings>/score_reference/{task}/{name}.tsv"
    wildcard_constraints:
        task=one_of(t for t in tasks_with(models=True) if run.task(t).benchmark.references),
        name="[a-z_]+",
    retries: need("score_reference").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("score_reference").threads
    resources:
        **job("score_reference"),
    params:
        code=lambda wildcards: code_digest(
            f"benchmarks.{run.task(wildcards.task).benchmark.reference_program}"
        ),
        benchmark=benchmark_of,
        settings=lambda wildcards: as_json(run.task(wildcards.task).settings),
        cohort=subpath(input.cohort, parent=True),
        pixels=subpath(input.pixels, parent=True),
        reports=lambda wildcards, input: option("--training", *folders(input.training)),
        tagger=task_tagger_options,
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.score_reference {params.benchmark:q} {wildcards.name:q} \
            --task {wildcards.task:q} \
            --cohort {params.cohort:q} \
            --pixels {params.pixels:q} \
            {params.reports:q} \
            {params.tagger:q} \
            --settings {params.settings:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule compare_vocabularies:
    """Compare a paper's vocabularies on report text (BioViL Tables 1 and 3)."""
    input:
        vocabularies=lambda wildcards: [
            f"<results>/vocabulary/{name}/vocabulary.json"
            for name in run.vocabularies_of(wildcards.task)
        ],
        pairs=lambda wildcards: cohort_table(run.library.tasks[wildcards.task].cohort),
    output:
        metrics="<results>/benchmarks/{task}/metrics.json",
    log:
        "<logs>/compare_vocabularies/{task}.log",
    benchmark:
        "<timings>/compare_vocabularies/{task}.tsv"
    wildcard_constraints:
        task=one_of(t for t in run.tasks_in_use if run.library.tasks[t].benchmark == "vocabulary"),
    retries: need("vocabulary").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("vocabulary").threads
    resources:
        **job("vocabulary"),
    params:
        code=code_digest("benchmarks.language.vocabulary"),
        vocabularies=lambda wildcards: [
            f"{short_name(name)}={run.results}/vocabulary/{name}"
            for name in run.vocabularies_of(wildcards.task)
        ],
        settings=lambda wildcards: as_json(run.task(wildcards.task).settings),
        cohort=subpath(input.pairs, parent=True),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.compare_vocabularies \
            --task {wildcards.task:q} \
            --vocabulary {params.vocabularies:q} \
            --cohort {params.cohort:q} \
            --settings {params.settings:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule count_ms_cxr:
    """Count phrases, images and patients, and who the patients are (BioViL Table C.1)."""
    input:
        data=lambda wildcards: marker(*run.statistics_datasets(wildcards.task)),
    output:
        metrics="<results>/benchmarks/{task}/metrics.json",
        predictions="<results>/benchmarks/{task}/predictions.parquet",
    log:
        "<logs>/count_ms_cxr/{task}.log",
    benchmark:
        "<timings>/count_ms_cxr/{task}.tsv"
    wildcard_constraints:
        task=one_of(t for t in run.tasks_in_use if counts(t) == "ms_cxr_statistics"),
    retries: need("ms_cxr_statistics").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("ms_cxr_statistics").threads
    resources:
        **job("ms_cxr_statistics"),
    params:
        code=lambda wildcards: code_digest(
            "benchmarks.data.ms_cxr_statistics",
            *readers("tables", *run.statistics_datasets(wildcards.task)),
        ),
        settings=lambda wildcards: as_json(run.task(wildcards.task).settings),
        data=lambda wildcards: statistics_options(*run.statistics_datasets(wildcards.task)),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.count_ms_cxr \
            --task {wildcards.task:q} \
            --settings {params.settings:q} \
            {params.data:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule count_courses:
    """Count how often patients come again and reports speak of change (BioViL-T Appendix B)."""
    input:
        data=lambda wildcards: marker(*run.statistics_datasets(wildcards.task)),
    output:
        metrics="<results>/benchmarks/{task}/metrics.json",
        predictions="<results>/benchmarks/{task}/predictions.parquet",
    log:
        "<logs>/count_courses/{task}.log",
    benchmark:
        "<timings>/count_courses/{task}.tsv"
    wildcard_constraints:
        task=one_of(t for t in run.tasks_in_use if counts(t) == "course_statistics"),
    retries: need("count_courses").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("count_courses").threads
    resources:
        **job("count_courses"),
    params:
        code=lambda wildcards: code_digest(
            "benchmarks.data.course_statistics",
            *readers("tables", *run.statistics_datasets(wildcards.task)),
        ),
        settings=lambda wildcards: as_json(run.task(wildcards.task).settings),
        data=lambda wildcards: statistics_options(*run.statistics_datasets(wildcards.task)),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.count_courses \
            --task {wildcards.task:q} \
            --settings {params.settings:q} \
            {params.data:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule count_rows:
    """Count the rows of a cohort by kind (BioViL-T Tables C.1, C.2 and F.2)."""
    input:
        cohort=lambda wildcards: cohort_table(run.library.tasks[wildcards.task].cohort),
    output:
        metrics="<results>/benchmarks/{task}/metrics.json",
        predictions="<results>/benchmarks/{task}/predictions.parquet",
    log:
        "<logs>/count_rows/{task}.log",
    benchmark:
        "<timings>/count_rows/{task}.tsv"
    wildcard_constraints:
        task=one_of(t for t in tasks_with(models=False) if run.task(t).benchmark.counts == "rows"),
    retries: need("count_rows").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("count_rows").threads
    resources:
        **job("count_rows"),
    params:
        code=lambda wildcards: code_digest(
            f"benchmarks.{run.task(wildcards.task).benchmark.program}"
        ),
        benchmark=benchmark_of,
        settings=lambda wildcards: as_json(run.task(wildcards.task).settings),
        cohort=subpath(input.cohort, parent=True),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.count_rows {params.benchmark:q} \
            --task {wildcards.task:q} \
            --cohort {params.cohort:q} \
            --settings {params.settings:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule measure_registration:
    """Hold registration against the synthetic hospital's truth (BioViL-T F.7; ours)."""
    input:
        unpack(registration_inputs),
        truth=lambda wildcards: marker(registered_images(wildcards)),
    output:
        metrics="<results>/benchmarks/{task}/metrics.json",
        predictions="<results>/benchmarks/{task}/predictions.parquet",
    log:
        "<logs>/measure_registration/{task}.log",
    benchmark:
        "<timings>/measure_registration/{task}.tsv"
    wildcard_constraints:
        task=one_of(task for task, _, _ in run.registered),
    retries: need("measure_registration").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("measure_registration").threads
    resources:
        **job("measure_registration"),
    params:
        code=code_digest("benchmarks.temporal.registration_error"),
        settings=lambda wildcards: as_json(run.task(wildcards.task).settings),
        cohort=subpath(input.cohort, parent=True),
        pixels=subpath(input.pixels, parent=True),
        registration=subpath(input.registration, parent=True),
        truth=lambda wildcards: root(registered_images(wildcards)),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.measure_registration \
            --task {wildcards.task:q} \
            --cohort {params.cohort:q} \
            --pixels {params.pixels:q} \
            --registration {params.registration:q} \
            --truth {params.truth:q} \
            --settings {params.settings:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule compare_labels:
    """Precision, recall, F1 and kappa of our report labels, and the sentences where they differ."""
    input:
        corpus="<results>/corpus/{dataset}/corpus.json",
        labels=lambda wildcards: (
            marker(given_labels(wildcards).holder)
            if given_labels(wildcards).holder
            else [given_labels(wildcards).file]
        ),
    output:
        metrics="<results>/benchmarks/label_agreement/{dataset}/{reference}/metrics.json",
        agreement="<results>/benchmarks/label_agreement/{dataset}/{reference}/agreement.csv",
        confusion="<results>/benchmarks/label_agreement/{dataset}/{reference}/confusion.csv",
        predictions="<results>/benchmarks/label_agreement/{dataset}/{reference}/predictions.parquet",
        disagreements="<results>/benchmarks/label_agreement/{dataset}/{reference}/disagreements.parquet",
    log:
        "<logs>/compare_labels/{dataset}.{reference}.log",
    benchmark:
        "<timings>/compare_labels/{dataset}.{reference}.tsv"
    retries: need("label_agreement").retries
    conda:
        "../envs/gpu.yaml"
    threads: need("label_agreement").threads
    resources:
        **job("label_agreement"),
    params:
        code=code_digest(
            "benchmarks.data.label_agreement",
            "data/open_i_terms.yaml",
            "reports/rules/scope/*.yaml",
        ),
        settings=lambda wildcards: as_json(given_labels(wildcards).settings),
        labels=given_labels_place,
        corpus=subpath(input.corpus, parent=True),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.compare_labels \
            --corpus {params.corpus:q} \
            --labels {params.labels:q} \
            --reference {wildcards.reference:q} \
            --settings {params.settings:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
