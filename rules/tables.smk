"""Tables: our rows beside the published ones; the orders that a paper claims in them.

Inputs: the results of every model of a table, all seeds; for paired tests their predictions.
Outputs: `<results>/tables/<paper>/`.
"""


localrules:
    make_table,
    check_orderings,


rule compare_rows:
    """Test the rows of a table against its reference row, on the same samples."""
    input:
        code=source("benchmarks.paired_tests"),
        predictions=lambda wildcards: table_predictions(wildcards.paper, wildcards.table),
        metrics=lambda wildcards: table_metrics(wildcards.paper, wildcards.table),
    output:
        tests="<results>/tables/{paper}/{table}.tests.json",
    log:
        "<logs>/compare_rows/{paper}.{table}.log",
    benchmark:
        "<timings>/compare_rows/{paper}.{table}.tsv"
    retries: need("compare_rows").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("compare_rows").threads
    resources:
        mem_mb=need("compare_rows").mem_mb,
        runtime=need("compare_rows").runtime,
    params:
        settings=lambda wildcards: table_comparisons(wildcards.paper, wildcards.table),
    shell:
        r"""
        python -m cxrflow.benchmarks.paired_tests \
            --predictions {input.predictions:q} \
            --settings {params.settings:q} \
            --output {output.tests:q} \
            >{log:q} 2>&1
        """


rule make_table:
    """Set one table of a paper."""
    input:
        code=source("tables.tables", "tables/table.html.jinja", "tables/table.css.jinja"),
        paper=lambda wildcards: os.path.relpath(SOURCE / f"cxrflow/papers/{wildcards.paper}.yaml"),
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
    retries: need("make_table").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("make_table").threads
    resources:
        mem_mb=need("make_table").mem_mb,
        runtime=need("make_table").runtime,
    params:
        prefix=lambda wildcards, output: os.path.splitext(output.csv)[0],
        tests=lambda wildcards, input: option("--tests", *input.tests),
    shell:
        r"""
        python -m cxrflow.tables.tables \
            --paper {wildcards.paper:q} \
            --table {wildcards.table:q} \
            --metrics {input.metrics:q} \
            {params.tests:q} \
            --output {params.prefix:q} \
            >{log:q} 2>&1
        """


rule check_orderings:
    """Hold the orders that a paper claims against those found here."""
    input:
        code=source("tables.orderings", "tables/orderings.html.jinja", "tables/table.css.jinja"),
        paper=lambda wildcards: os.path.relpath(SOURCE / f"cxrflow/papers/{wildcards.paper}.yaml"),
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
    retries: need("check_orderings").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("check_orderings").threads
    resources:
        mem_mb=need("check_orderings").mem_mb,
        runtime=need("check_orderings").runtime,
    params:
        prefix=lambda wildcards, output: os.path.splitext(output.csv)[0],
        tests=lambda wildcards, input: option("--tests", *input.tests),
    shell:
        r"""
        python -m cxrflow.tables.orderings \
            --paper {wildcards.paper:q} \
            --metrics {input.metrics:q} \
            {params.tests:q} \
            --output {params.prefix:q} \
            >{log:q} 2>&1
        """
