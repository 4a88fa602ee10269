"""Figures: what models made of the same images, and cells of tables as curves and bars.

Inputs: results of the models that a figure shows; what its class reads beside them
(cxrflow.benchmarks.figures.settings). Outputs: `<results>/figures/<paper>/`.
"""


def figure(wildcards):
    """A figure of a paper."""
    return run.results[wildcards.paper].paper.figures[wildcards.figure]


def figures_by(rule):
    """The figures that a rule draws, as a wildcard takes them behind its paper: papers share names."""
    named = [
        rf"(?<=/{re.escape(paper)}/){re.escape(name)}"
        for paper, results in run.results.items()
        for name, figure in results.figures().items()
        if figure.RULE == rule
    ]
    return "|".join(sorted(named)) or one_of([])


def paper_figures(paper, extent):
    """The figures of a paper that rules of this run draw in this extent."""
    figures = run.results[paper].figures(extent).items()
    drawn = [(name, figure) for name, figure in figures if figure.RULE is not None]
    return [f"<results>/figures/{paper}/{name}.{figure.ENDING}" for name, figure in drawn]


def figure_inputs(wildcards):
    """What a figure reads, by the option of its program: of each result the first seed."""
    shown = run.results[wildcards.paper].shown_in(wildcards.figure)
    task = run.tasks[figure(wildcards).task]
    files = {"results": [metrics(name, model)[0] for name, model in shown]}
    if figure(wildcards).READS:
        files["cohort"] = cohort_table(task.cohort)
    for option in figure(wildcards).READS:
        files[option] = []
        for name, model in shown:
            seed, geometry = run.models[model].seeds[0], run.tasks[name].geometry(model)
            place = {
                "models": f"<results>/models/{model}/seed{seed}/run.json",
                "pixels": f"<results>/pixels/{task.cohort}/{geometry}/store.json",
                "features": f"<results>/features/{model}/seed{seed}/{task.cohort}/features.json",
            }
            files[option].append(place[option])
    return files


def figure_code(wildcards):
    """What draws it, and the trunks that are run."""
    shown = run.results[wildcards.paper].shown_in(wildcards.figure)
    runs = shown if "models" in figure(wildcards).READS else []
    trunks = {part for _, model in runs for part in run.models[model].parts}
    return [figure(wildcards).PROGRAM, *sorted(trunks)]


def figure_phrases(wildcards):
    """Whether phrases, which are report text, stand on a figure."""
    task = run.tasks[figure(wildcards).task]
    of_task = getattr(task.settings, "figure_phrases", False)
    shown = figure(wildcards).phrases(of_task, task.shows("text"))
    return "--phrases" if shown else "--no-phrases"


def figure_compared(wildcards):
    """The results that a figure shows with an interval over seeds and samples."""
    return run.tasks.of_several_seeds(run.results[wildcards.paper].shown_in(wildcards.figure))


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
        paper=lambda wildcards: run.library.source(wildcards.paper),
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
            --output {output.picture:q} \
            >>{log:q} 2>&1
        """
