"""Cohorts: which studies, which image of each, which prior, which split, and what was dropped.

Inputs: the data sets' own files, `<results>/corpus/<dataset>/` for pairs.
Outputs: `<results>/cohorts/<paper>/<cohort>/`; flow.json counts every filter with its reasons.
"""


include: "inputs/cohorts.smk"


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
            cohort=one_of(
                name
                for name in run.whole.cohorts
                if run.cohorts[name].recipe.kind in kinds and not run.cohorts[name].joined
            ),
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


# The kinds of cohort that may be of several data sets, by the rule that joins them, likewise.
JOINED = {
    "join_pairs": (["pairs"], ["pairs", "documents"]),
    "join_samples": (["progression"], ["samples"]),
}

for joining, (kinds, tables) in JOINED.items():

    rule:
        """Put the rows of several data sets together."""
        name:
            joining
        input:
            rows=lambda wildcards: [cohort_table(each) for each in joined_cohorts(wildcards)],
        output:
            **{table: f"<results>/cohorts/{{cohort}}/{table}.parquet" for table in tables},
            images="<results>/cohorts/{cohort}/images.parquet",
            split="<results>/cohorts/{cohort}/split.csv",
            flow="<results>/cohorts/{cohort}/flow.json",
        log:
            f"<logs>/{joining}/{{cohort}}.log",
        benchmark:
            f"<timings>/{joining}/{{cohort}}.tsv"
        wildcard_constraints:
            cohort=one_of(
                name
                for name in run.whole.cohorts
                if run.cohorts[name].recipe.kind in kinds and run.cohorts[name].joined
            ),
        priority: building_priority
        conda:
            "../envs/cpu.yaml"
        params:
            code=lambda wildcards: code_digest("data.cohorts.joined"),
            cohorts=lambda wildcards, input: folders(input.rows),
            roots=lambda wildcards: [
                root(each.holder) for each in run.cohorts[wildcards.cohort].joined
            ],
            folder=subpath(output.flow, parent=True),
        shell:
            r"""
            python -m cxrflow.data.cohorts.join_cohorts \
                --cohorts {params.cohorts:q} \
                --roots {params.roots:q} \
                --output {params.folder:q} \
                >{log:q} 2>&1
            """
