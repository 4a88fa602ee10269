"""Cohorts: which studies, which image of each, which prior, which split, and what was dropped.

Inputs: the data sets' own files, `<results>/corpus/<dataset>/` for pairs.
Outputs: `<results>/cohorts/<paper>/<cohort>/`; flow.json counts every filter with its reasons.
"""


rule build_pairs:
    """Pair each study's image with its report; hold evaluation patients out."""
    input:
        data=lambda wildcards: marker(*run.known_cohorts[wildcards.cohort].sources),
        corpus=cohort_corpus,
        curation=lambda wildcards: curation_of(wildcards.cohort),
        split=lambda wildcards: split_file(wildcards.cohort),
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
        cohort=one_of(cohorts_of("pairs")),
    priority: cohort_priority
    retries: need("build_pairs").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("build_pairs").threads
    resources:
        **job("build_pairs"),
    params:
        **settings_of(lambda wildcards: run.known_cohorts[wildcards.cohort].recipe.settings()),
        code=lambda wildcards: code_digest(
            "data.cohorts.cohort",
            *readers("tables", *run.known_cohorts[wildcards.cohort].sources),
            *(["data.cohorts.validation"] if draws_validation(wildcards.cohort) else []),
            *published_readers(wildcards.cohort),
        ),
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


use rule build_pairs as build_samples with:
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
        cohort=one_of(cohorts_of("grounding", "classification", "nli", "progression")),


use rule build_samples as build_retrieval with:
    output:
        samples="<results>/cohorts/{cohort}/samples.parquet",
        queries="<results>/cohorts/{cohort}/queries.parquet",
        images="<results>/cohorts/{cohort}/images.parquet",
        split="<results>/cohorts/{cohort}/split.csv",
        flow="<results>/cohorts/{cohort}/flow.json",
    log:
        "<logs>/build_retrieval/{cohort}.log",
    benchmark:
        "<timings>/build_retrieval/{cohort}.tsv"
    wildcard_constraints:
        cohort=one_of(cohorts_of("retrieval")),
