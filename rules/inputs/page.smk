"""What the rules of page.smk read, and how it stands on their command lines."""


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
