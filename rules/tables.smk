"""Tables and the rankings claimed in them: ours beside the published.

Inputs: the results of every model of a table, all seeds; for paired tests their predictions.
Outputs: `<results>/tables/<paper>/` (below `headline/`: cut to the paper's headline rows), and
`<results>/released/certificate.*` of published weights (docs/weights.md).
"""


include: "inputs/tables.smk"


rule compare_rows:
    """Intervals over seeds and samples, and tests of a table's rows against its reference row."""
    input:
        predictions=lambda wildcards: predictions(
            run.results[wildcards.paper].compared(wildcards.table)
        ),
        metrics=lambda wildcards: table_metrics(wildcards.paper, wildcards.table),
    output:
        tests="<results>/tables/{paper}/{table}.tests.json",
    log:
        "<logs>/compare_rows/{paper}.{table}.log",
    benchmark:
        "<timings>/compare_rows/{paper}.{table}.tsv"
    priority: table_priority
    conda:
        "../envs/cpu.yaml"
    params:
        **settings_of(lambda wildcards: table_comparisons(wildcards.paper, wildcards.table)),
        code=lambda wildcards: code_digest(
            "benchmarks.paired_tests",
            *statistics(run.results[wildcards.paper].compared(wildcards.table)),
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
        metrics=shown_metrics,
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
    priority: table_priority
    conda:
        "../envs/cpu.yaml"
    params:
        code=lambda wildcards: code_digest(
            "show.tables.make_table", "show/tables/table.html.jinja", "show/tables/*.css.jinja"
        ),
        content=lambda wildcards: paper_contents(wildcards.paper),
        paper=lambda wildcards: paper_source(wildcards.paper),
        prefix=lambda wildcards, output: os.path.splitext(output.csv)[0],
        tests=lambda wildcards, input: option("--tests", *input.tests),
        notes=lambda wildcards: option(
            "--notes",
            *run.results[wildcards.paper].one_training(wildcards.table),
            *run.results[wildcards.paper].own_synonyms(wildcards.table),
            *overlap_notes(run, wildcards.paper, wildcards.table),
            *external_notes(run, wildcards.paper, wildcards.table),
            *table_notes(run, wildcards.paper, wildcards.table),
        ),
    shell:
        r"""
        python -m cxrflow.show.tables.make_table \
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
        metrics=lambda wildcards: of_orderings(wildcards.paper, table_metrics),
        tests=lambda wildcards: of_orderings(wildcards.paper, table_tests),
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
            "show.tables.orderings",
            "show/tables/orderings.html.jinja",
            "show/tables/table.css.jinja",
        ),
        content=lambda wildcards: paper_contents(wildcards.paper),
        paper=lambda wildcards: paper_source(wildcards.paper),
        prefix=lambda wildcards, output: os.path.splitext(output.csv)[0],
        tests=lambda wildcards, input: option("--tests", *input.tests),
    shell:
        r"""
        python -m cxrflow.show.tables.orderings \
            --paper {params.paper:q} \
            --metrics {input.metrics:q} \
            {params.tests:q} \
            --output {params.prefix:q} \
            >{log:q} 2>&1
        """


rule make_certificate:
    """Judge what published weights score by what their papers print."""
    input:
        metrics=lambda wildcards: released_metrics(),
    output:
        csv="<results>/released/certificate.csv",
        markdown="<results>/released/certificate.md",
        html=report(
            "<results>/released/certificate.html",
            category="Tables",
            subcategory="released",
            labels={"table": "certificate"},
        ),
    log:
        "<logs>/make_certificate/certificate.log",
    benchmark:
        "<timings>/make_certificate/certificate.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        code=lambda wildcards: code_digest(
            "show.tables.certificate",
            "show/tables/certificate.html.jinja",
            "show/tables/table.css.jinja",
        ),
        contents=lambda wildcards: [paper_contents(paper) for paper in run.results],
        papers=lambda wildcards: [run.library.source(paper) for paper in run.results],
        notes=lambda wildcards: option("--notes", *released_notes(run)),
        overlays=lambda wildcards: option("--overlays", *CONFIG_FILES[1:]),
        prefix=lambda wildcards, output: os.path.splitext(output.csv)[0],
    shell:
        r"""
        python -m cxrflow.show.tables.certificate \
            --papers {params.papers:q} \
            --metrics {input.metrics:q} \
            {params.notes:q} \
            {params.overlays:q} \
            --output {params.prefix:q} \
            >{log:q} 2>&1
        """
