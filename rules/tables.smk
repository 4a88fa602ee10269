"""Tables, the rankings claimed in them, figures: ours beside the published.

Inputs: the results of every model of a table, all seeds; for paired tests their predictions.
Outputs: `<results>/tables/<paper>/` (below `headline/`: cut to the paper's headline rows),
`<results>/figures/<paper>/`.
"""


localrules:
    make_table,
    check_orderings,


rule compare_rows:
    """Intervals over seeds and samples, and tests of a table's rows against its reference row."""
    input:
        predictions=lambda wildcards: table_predictions(wildcards.paper, wildcards.table),
        metrics=lambda wildcards: table_metrics(wildcards.paper, wildcards.table),
    output:
        tests="<results>/tables/{paper}/{table}.tests.json",
    log:
        "<logs>/compare_rows/{paper}.{table}.log",
    benchmark:
        "<timings>/compare_rows/{paper}.{table}.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        **settings_of(lambda wildcards: table_comparisons(wildcards.paper, wildcards.table)),
        code=lambda wildcards: code_digest(
            "benchmarks.paired_tests",
            *statistics(table_paired(wildcards.paper, wildcards.table)),
        ),
    shell:
        r"""
        python -m cxrflow.benchmarks.compare_rows \
            --predictions {input.predictions:q} \
            --settings {params.given:q} \
            --output {output.tests:q} \
            >{log:q} 2>&1
        """


rule make_table:
    """Set one table of a paper."""
    input:
        metrics=lambda wildcards: table_metrics(wildcards.paper, wildcards.table),
        tests=lambda wildcards: table_tests(wildcards.paper, wildcards.table),
    output:
        csv="<results>/tables/{paper}/{table}.csv",
        markdown="<results>/tables/{paper}/{table}.md",
        html=report(
            "<results>/tables/{paper}/{table}.html",
            category="Tables",
            subcategory="{paper}",
            labels={"table": "{table}"},
        ),
    log:
        "<logs>/make_table/{paper}.{table}.log",
    benchmark:
        "<timings>/make_table/{paper}.{table}.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        code=lambda wildcards: code_digest(
            "tables.make_table", "tables/table.html.jinja", "tables/*.css.jinja"
        ),
        content=lambda wildcards: paper_contents(wildcards.paper),
        paper=lambda wildcards: run.library.source(wildcards.paper),
        prefix=lambda wildcards, output: os.path.splitext(output.csv)[0],
        tests=lambda wildcards, input: option("--tests", *input.tests),
        notes=lambda wildcards: option(
            "--notes",
            *overlap_notes(run, wildcards.paper, wildcards.table),
            *external_notes(run, wildcards.paper, wildcards.table),
        ),
    shell:
        r"""
        python -m cxrflow.tables.make_table \
            --paper {params.paper:q} \
            --table {wildcards.table:q} \
            --metrics {input.metrics:q} \
            {params.tests:q} \
            {params.notes:q} \
            --output {params.prefix:q} \
            >{log:q} 2>&1
        """


rule check_orderings:
    """Hold the rankings that a paper claims against those found here."""
    input:
        metrics=lambda wildcards: ordering_metrics(wildcards.paper),
        tests=lambda wildcards: ordering_tests(wildcards.paper),
    output:
        csv="<results>/tables/{paper}/orderings.csv",
        markdown="<results>/tables/{paper}/orderings.md",
        html=report(
            "<results>/tables/{paper}/orderings.html",
            category="Tables",
            subcategory="{paper}",
            labels={"table": "orderings"},
        ),
    log:
        "<logs>/check_orderings/{paper}.log",
    benchmark:
        "<timings>/check_orderings/{paper}.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        code=lambda wildcards: code_digest(
            "tables.orderings", "tables/orderings.html.jinja", "tables/table.css.jinja"
        ),
        content=lambda wildcards: paper_contents(wildcards.paper),
        paper=lambda wildcards: run.library.source(wildcards.paper),
        prefix=lambda wildcards, output: os.path.splitext(output.csv)[0],
        tests=lambda wildcards, input: option("--tests", *input.tests),
    shell:
        r"""
        python -m cxrflow.tables.orderings \
            --paper {params.paper:q} \
            --metrics {input.metrics:q} \
            {params.tests:q} \
            --output {params.prefix:q} \
            >{log:q} 2>&1
        """


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
        figure=figures_of("grounding", "priors", "t_sne", "saliency", "retrieved"),
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
        figure=figures_of("reports", "neighbours"),


FIGURE_PROGRAMS = {"curve": "cxrflow.tables.curve", "bars": "cxrflow.tables.bars"}


rule draw_curve:
    """Draw cells of a paper's tables, as curves over a common quantity or as bars."""
    input:
        metrics=figure_metrics,
        predictions=lambda wildcards: predictions(figure_paired(wildcards)),
    output:
        picture="<results>/figures/{paper}/{figure}.png",
        content="<results>/figures/{paper}/{figure}.json",
        tests="<results>/figures/{paper}/{figure}.tests.json",
    log:
        "<logs>/draw_curve/{paper}.{figure}.log",
    benchmark:
        "<timings>/draw_curve/{paper}.{figure}.tsv"
    wildcard_constraints:
        figure=figures_of("curve", "bars"),
    conda:
        "../envs/cpu.yaml"
    params:
        **settings_of(lambda wildcards: run.paired_tests),
        code=lambda wildcards: code_digest(
            FIGURE_PROGRAMS[figure(wildcards).kind].removeprefix("cxrflow."),
            "benchmarks.paired_tests",
            *statistics(figure_paired(wildcards)),
        ),
        program=lambda wildcards: FIGURE_PROGRAMS[figure(wildcards).kind],
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
