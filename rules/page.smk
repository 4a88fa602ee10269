"""The report page: what was run on which data, cohort flow, curves, tables, grounding examples.

Inputs: everything it shows. Outputs: `<results>/report/index.html` in the configured extent, and
`<results>/report/<paper>.html` with every row of one paper; self-contained. What they lead to lies
beside them, in `index_files/` and `<paper>_files/`. With papers of the user's: below
`<results>/report/<their names>/`.
"""


include: "inputs/page.smk"


rule record_config:
    """Write down the configuration of this run, every default filled in."""
    output:
        config=f"{REPORT}/config.json",
    log:
        "<logs>/record_config/config.log",
    benchmark:
        "<timings>/record_config/config.tsv"
    priority: urgency(lambda needs: True)  # the page so far reads it
    conda:
        "../envs/cpu.yaml"
    params:
        # Has ${NAME}, so that it is no wildcard; and `output`, so that the digest is compared alone.
        config=lambda wildcards, output: as_json(dict(config)),
        written=fingerprint(dict(config)),
        resolved=fingerprint(run.described()),
        files=option("--configfile", *CONFIG_FILES),
    shell:
        r"""
        python -m cxrflow.config record \
            --values {params.config:q} \
            {params.files:q} \
            --output {output.config:q} \
            >{log:q} 2>&1
        """


rule make_page:
    """Set a report page and those beside it."""
    input:
        unpack(page_inputs),
        config=f"{REPORT}/config.json",
    output:
        page=report(
            f"{REPORT}/{{page}}.html",
            category="Report",
            labels={"page": "{page}"},
        ),
        others=directory(f"{REPORT}/{{page}}_files"),
    log:
        "<logs>/make_page/{page}.log",
    benchmark:
        "<timings>/make_page/{page}.tsv"
    wildcard_constraints:
        page=one_of(["index", *run.results]),
    conda:
        "../envs/cpu.yaml"
    params:
        code=lambda wildcards: code_digest(
            "show.page.page",
            "show/page/templates/*",
            "show/tables/*.jinja",
            "reports/entities/temporal.yaml",
        ),
        papers=lambda wildcards: [
            f"{paper}={extent}" for paper, extent in page_papers(wildcards.page)
        ],
        contents=lambda wildcards: [
            paper_contents(paper) for paper, _ in page_papers(wildcards.page)
        ],
        results=lambda wildcards: RESULTS,
    shell:
        r"""
        python -m cxrflow.show.page.make_page \
            --config {input.config:q} \
            --results {params.results:q} \
            --papers {params.papers:q} \
            --output {output.page:q} \
            >{log:q} 2>&1
        """
