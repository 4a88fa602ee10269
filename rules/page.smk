"""The report page: what was run on which data, cohort flow, curves, tables, grounding examples.

Inputs: everything it shows. Outputs: `<results>/report/index.html` in the configured extent, and
`<results>/report/<paper>.html` with every row of one paper; self-contained. With papers of the
user's: below `<results>/report/<their names>/`.
"""


localrules:
    record_config,
    make_page,


def page_papers(page):
    """(paper, extent) of what a page shows."""
    return [(page, "all")] if page in run.results else [(p, run.values.extent) for p in run.results]


def page_inputs(wildcards):
    """Everything that a page shows."""
    shown = page_papers(wildcards.page)
    needs = run.needs(*shown)
    trained = [run.models[name] for name in needs.models if not run.models[name].imported]
    results = [one for paper, extent in shown for one in run.results[paper].all(extent)]
    return {
        "corpora": [f"<results>/corpus/{name}/corpus.json" for name in needs.corpora],
        "vocabularies": [f"<results>/vocabulary/{v}/vocabulary.json" for v in needs.vocabularies],
        "tokens": [
            f"<results>/tokens/{model.vocabulary}/{dataset}/tokens.json"
            for model in trained
            for dataset in model.corpora
        ],
        "flows": [f"<results>/cohorts/{cohort}/flow.json" for cohort in needs.cohorts],
        "models": model_runs(needs.models),
        "tables": [path for paper, extent in shown for path in paper_tables(paper, extent)],
        "figures": [path for paper, extent in shown for path in paper_figures(paper, extent)],
        "metrics": list(dict.fromkeys(path for one in results for path in metrics(*one))),
        "agreements": label_agreements(),
    }


rule record_config:
    """Write down the configuration of this run, every default filled in."""
    output:
        config=f"{REPORT}/config.json",
    log:
        "<logs>/record_config/config.log",
    benchmark:
        "<timings>/record_config/config.tsv"
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
    """Set a report page."""
    input:
        unpack(page_inputs),
        config=f"{REPORT}/config.json",
    output:
        page=report(
            f"{REPORT}/{{page}}.html",
            category="Report",
            labels={"page": "{page}"},
        ),
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
