"""Curation: a model decides which of several images stands for a study (BioViL-T 3.3, A.4).

Inputs: a model of studies with one image, all acquisitions as rows of a cohort, their pixels.
Outputs: `<results>/curation/<paper>/<cohort>/`, which that cohort is built with.
"""


include: "inputs/curation.smk"


rule curate_images:
    """Choose among the images of a study the one that fits its report."""
    input:
        unpack(curation_inputs),
    output:
        decisions="<results>/curation/{cohort}/curation.parquet",
        counts="<results>/curation/{cohort}/curation.json",
    log:
        "<logs>/curate_images/{cohort}.log",
    benchmark:
        "<timings>/curate_images/{cohort}.tsv"
    wildcard_constraints:
        cohort=one_of(
            name
            for name in run.whole.cohorts
            if run.cohorts.curation(name) and not run.cohorts[name].joined
        ),
    priority: curation_priority
    conda:
        "../envs/gpu.yaml"
    params:
        **settings_of(curation_settings),
        code=lambda wildcards: code_digest(
            "benchmarks.data.curation",
            *run.models[run.cohorts.curation(wildcards.cohort).model].parts,
        ),
        model=subpath(input.model, parent=True),
        cohort=subpath(input.cohort, parent=True),
        pixels=subpath(input.pixels, parent=True),
        folder=subpath(output.counts, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.data.curate_images \
            --model {params.model:q} \
            --cohort {params.cohort:q} \
            --pixels {params.pixels:q} \
            --settings {params.given:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
