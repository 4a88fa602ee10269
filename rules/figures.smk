"""Figures: what models made of the same images, and cells of tables as curves and bars.

Inputs: results of the models that a figure shows; what its class reads beside them
(cxrflow.benchmarks.figures.settings). Outputs: `<results>/figures/<paper>/`.
"""


include: "inputs/figures.smk"


rule draw_figure:
    """Draw what models made of the same images side by side, from their results."""
    input:
        unpack(figure_inputs),
    output:
        picture="<results>/figures/{paper}/{figure}.png",
        content="<results>/figures/{paper}/{figure}.json",
    log:
        "<logs>/draw_figure/{paper}.{figure}.log",
    benchmark:
        "<timings>/draw_figure/{paper}.{figure}.tsv"
    wildcard_constraints:
        figure=figures_by("draw_figure"),
    conda:
        "../envs/gpu.yaml"
    params:
        **settings_of(figure),
        code=lambda wildcards: code_digest(*figure_code(wildcards)),
        kind=lambda wildcards: figure(wildcards).kind,
        data=lambda wildcards, input: folder_options(figure_inputs(wildcards), input),
        phrases=figure_phrases,
        file=lambda wildcards, output: output[0],  # the picture, where there is one
    shell:
        r"""
        python -m cxrflow.benchmarks.draw_figure {params.kind} \
            --settings {params.given:q} \
            {params.data:q} \
            {params.phrases} \
            --output {params.file:q} \
            >{log:q} 2>&1
        """


use rule draw_figure as show_reports with:
    output:
        content="<results>/figures/{paper}/{figure}.json",
    log:
        "<logs>/show_reports/{paper}.{figure}.log",
    benchmark:
        "<timings>/show_reports/{paper}.{figure}.tsv"
    wildcard_constraints:
        figure=figures_by("show_reports"),


rule draw_curve:
    """Draw cells of a paper's tables, as curves over a common quantity or as bars."""
    input:
        metrics=lambda wildcards: [
            path
            for task, row in run.results[wildcards.paper].shown_in(wildcards.figure)
            for path in metrics(task, row)
        ],
        predictions=lambda wildcards: predictions(figure_compared(wildcards)),
        trainings=forecast_trainings,
    output:
        picture="<results>/figures/{paper}/{figure}.png",
        content="<results>/figures/{paper}/{figure}.json",
        tests="<results>/figures/{paper}/{figure}.tests.json",
    log:
        "<logs>/draw_curve/{paper}.{figure}.log",
    benchmark:
        "<timings>/draw_curve/{paper}.{figure}.tsv"
    wildcard_constraints:
        figure=figures_by("draw_curve"),
    conda:
        "../envs/cpu.yaml"
    params:
        **settings_of(lambda wildcards: run.values.paired_tests),
        code=lambda wildcards: code_digest(
            figure(wildcards).PROGRAM,
            "benchmarks.paired_tests",
            *statistics(figure_compared(wildcards)),
        ),
        program=lambda wildcards: f"cxrflow.{figure(wildcards).PROGRAM}",
        figure=lambda wildcards: deciding(figure(wildcards)),
        content=lambda wildcards: paper_contents(wildcards.paper),
        paper=lambda wildcards: paper_source(wildcards.paper),
        trainings=lambda wildcards, input: option("--trainings", *input.trainings),
    shell:
        r"""
        python -m cxrflow.benchmarks.compare_rows \
            --predictions {input.predictions:q} \
            --settings {params.given:q} \
            --output {output.tests:q} \
            >{log:q} 2>&1
        python -m {params.program} \
            --paper {params.paper:q} \
            --figure {wildcards.figure:q} \
            --metrics {input.metrics:q} \
            --tests {output.tests:q} \
            {params.trainings:q} \
            --output {output.picture:q} \
            >>{log:q} 2>&1
        """
