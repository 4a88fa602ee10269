"""Tables: our rows beside the published ones.

Inputs: the results of every model of a table, all seeds. Outputs: `<results>/tables/<paper>/`.
"""


localrules:
    make_table,


rule make_table:
    """Set one table of a paper."""
    input:
        code=source("report.tables", "report/table.html.jinja"),
        paper=lambda wildcards: os.path.relpath(SOURCE / f"cxrflow/papers/{wildcards.paper}.yaml"),
        metrics=lambda wildcards: table_metrics(wildcards.paper, wildcards.table),
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
    shell:
        r"""
        python -m cxrflow.report.tables \
            --paper {wildcards.paper:q} \
            --table {wildcards.table:q} \
            --metrics {input.metrics:q} \
            --output {params.prefix:q} \
            >{log:q} 2>&1
        """
