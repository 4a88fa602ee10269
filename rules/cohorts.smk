"""Cohorts: which studies, which image of each, which prior, which split, and what was dropped.

Inputs: the data sets' own files, `<results>/corpus/<dataset>/` for pairs.
Outputs: `<results>/cohorts/<paper>/<cohort>/`; flow.json counts every filter with its reasons.
"""

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
            data=cohort_data,
            corpus=cohort_corpus,
            curation=lambda wildcards: curation_of(wildcards.cohort),
            split=lambda wildcards: split_file(wildcards.cohort),
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
            cohort=one_of(cohorts_of(*kinds)),
        priority: cohort_priority
        conda:
            "../envs/cpu.yaml"
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
