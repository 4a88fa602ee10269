"""The report page: what was run on which data, cohort flow, curves, tables, grounding examples.

Inputs: everything it shows. Outputs: `<results>/report/index.html`, self-contained.
"""


localrules:
    record_config,
    make_page,


rule record_config:
    """Write down the configuration of this run, every default filled in."""
    input:
        code=source("config"),
    output:
        config="<results>/report/config.json",
    log:
        "<logs>/record_config/config.log",
    benchmark:
        "<timings>/record_config/config.tsv"
    retries: need("record_config").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("record_config").threads
    resources:
        mem_mb=need("record_config").mem_mb,
        runtime=need("record_config").runtime,
    params:
        config=as_json(run.described()),
        files=option("--configfile", *CONFIG_FILES),
    shell:
        r"""
        python -m cxrflow.config record \
            --resolved {params.config:q} \
            {params.files:q} \
            --output {output.config:q} \
            >{log:q} 2>&1
        """


rule make_page:
    """Set the report page."""
    input:
        code=source("page.page", "page/templates/*"),
        config="<results>/report/config.json",
        corpora=page_corpora(),
        vocabularies=[f"<results>/vocabulary/{v}/vocabulary.json" for v in VOCABULARIES],
        tokens=page_tokens(),
        flows=[f"<results>/cohorts/{cohort}/flow.json" for cohort in run.cohorts_in_use()],
        models=[path for paper in run.papers for path in paper_models(paper)],
        tables=[path for paper in run.papers for path in paper_tables(paper)],
        figures=[path for paper in run.papers for path in paper_figures(paper)],
        metrics=sorted({path for paper in run.papers for path in paper_metrics(paper)}),
        agreements=label_agreements(),
    output:
        page=report(
            "<results>/report/index.html",
            category="Report",
            labels={"page": "the whole run"},
        ),
    log:
        "<logs>/make_page/page.log",
    benchmark:
        "<timings>/make_page/page.tsv"
    retries: need("make_page").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("make_page").threads
    resources:
        mem_mb=need("make_page").mem_mb,
        runtime=need("make_page").runtime,
    params:
        results=subpath(output.page, ancestor=2),
    shell:
        r"""
        python -m cxrflow.page.page \
            --config {input.config:q} \
            --results {params.results:q} \
            --output {output.page:q} \
            >{log:q} 2>&1
        """
