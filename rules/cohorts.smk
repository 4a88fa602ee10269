"""Cohorts: which studies, which image of each, which prior, which split, and what was dropped.

Inputs: the data sets' own files, `<results>/corpus/<dataset>/` for pairs.
Outputs: `<results>/cohorts/<cohort>/`; flow.json counts every filter with its reasons.
"""


rule build_pairs:
    """Pair each study's image with its report; hold evaluation patients out."""
    input:
        code=lambda wildcards: source(
            "data.cohort", *readers("tables", *cohort_sources(wildcards.cohort))
        ),
        data=lambda wildcards: marker(*cohort_sources(wildcards.cohort)),
        corpus=lambda wildcards: f"<results>/corpus/{cohort_dataset(wildcards.cohort)}/corpus.json",
    output:
        pairs="<results>/cohorts/{cohort}/pairs.parquet",
        documents="<results>/cohorts/{cohort}/documents.parquet",
        images="<results>/cohorts/{cohort}/images.parquet",
        split="<results>/cohorts/{cohort}/split.csv",
        flow="<results>/cohorts/{cohort}/flow.json",
    log:
        "<logs>/build_pairs/{cohort}.log",
    benchmark:
        "<timings>/build_pairs/{cohort}.tsv"
    wildcard_constraints:
        cohort=one_of(n for n, c in run.cohorts.items() if c.kind == "pairs"),
    retries: need("build_pairs").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("build_pairs").threads
    resources:
        mem_mb=need("build_pairs").mem_mb,
        runtime=need("build_pairs").runtime,
    params:
        settings=lambda wildcards: as_json(run.cohorts[wildcards.cohort].settings()),
        dataset=lambda wildcards: cohort_dataset(wildcards.cohort),
        layout=lambda wildcards: layout(cohort_dataset(wildcards.cohort)),
        root=lambda wildcards: root(cohort_dataset(wildcards.cohort)),
        corpus=subpath(input.corpus, parent=True),
        others=lambda wildcards: other_sources(wildcards.cohort),
        folder=subpath(output.flow, parent=True),
    shell:
        r"""
        python -m cxrflow.data.cohort \
            --settings {params.settings:q} \
            --dataset {params.dataset:q} \
            --layout {params.layout:q} \
            --root {params.root:q} \
            --corpus {params.corpus:q} \
            {params.others:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule build_samples:
    """List the samples of an evaluation set: phrases and boxes, or images and labels."""
    input:
        code=lambda wildcards: source(
            "data.cohort", *readers("tables", *cohort_sources(wildcards.cohort))
        ),
        data=lambda wildcards: marker(*cohort_sources(wildcards.cohort)),
    output:
        samples="<results>/cohorts/{cohort}/samples.parquet",
        images="<results>/cohorts/{cohort}/images.parquet",
        split="<results>/cohorts/{cohort}/split.csv",
        flow="<results>/cohorts/{cohort}/flow.json",
    log:
        "<logs>/build_samples/{cohort}.log",
    benchmark:
        "<timings>/build_samples/{cohort}.tsv"
    wildcard_constraints:
        cohort=one_of(n for n, c in run.cohorts.items() if c.kind != "pairs"),
    retries: need("build_samples").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("build_samples").threads
    resources:
        mem_mb=need("build_samples").mem_mb,
        runtime=need("build_samples").runtime,
    params:
        settings=lambda wildcards: as_json(run.cohorts[wildcards.cohort].settings()),
        dataset=lambda wildcards: cohort_dataset(wildcards.cohort),
        layout=lambda wildcards: layout(cohort_dataset(wildcards.cohort)),
        root=lambda wildcards: root(cohort_dataset(wildcards.cohort)),
        others=lambda wildcards: other_sources(wildcards.cohort),
        folder=subpath(output.flow, parent=True),
    shell:
        r"""
        python -m cxrflow.data.cohort \
            --settings {params.settings:q} \
            --dataset {params.dataset:q} \
            --layout {params.layout:q} \
            --root {params.root:q} \
            {params.others:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
