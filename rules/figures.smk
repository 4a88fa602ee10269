"""Figures of the papers: phrases grounded in radiographs, drawn from kept similarity grids.

Inputs: phrase grounding of every model of a figure, the grounding cohort, its pixel store.
Outputs: `<results>/figures/<paper>/<figure>.png`, and beside it what is on it.
"""


rule draw_figure:
    """Draw one figure of a paper; no model is run."""
    input:
        code=source("benchmarks.grounding.comparison"),
        metrics=lambda wildcards: figure_inputs(wildcards, "metrics.json"),
        predictions=lambda wildcards: figure_inputs(wildcards, "predictions.parquet"),
        grids=lambda wildcards: figure_inputs(wildcards, "grids.npy"),
        cohort=cohort_file("grounding", "samples.parquet"),
        pixels=pixel_store("grounding"),
    output:
        picture="<results>/figures/{paper}/{figure}.png",
        content="<results>/figures/{paper}/{figure}.json",
    log:
        "<logs>/draw_figure/{paper}.{figure}.log",
    benchmark:
        "<timings>/draw_figure/{paper}.{figure}.tsv"
    retries: need("draw_figure").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("draw_figure").threads
    resources:
        mem_mb=need("draw_figure").mem_mb,
        runtime=need("draw_figure").runtime,
    params:
        settings=figure_settings,
        results=lambda wildcards, input: folders(input.metrics),
        cohort=subpath(input.cohort, parent=True),
        pixels=subpath(input.pixels, parent=True),
        phrases="--phrases" if run.benchmarks.phrase_grounding.figure_phrases else "--no-phrases",
    shell:
        r"""
        python -m cxrflow.benchmarks.grounding.comparison \
            --settings {params.settings:q} \
            --results {params.results:q} \
            --cohort {params.cohort:q} \
            --pixels {params.pixels:q} \
            {params.phrases} \
            --output {output.picture:q} \
            >{log:q} 2>&1
        """
