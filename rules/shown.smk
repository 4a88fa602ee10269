"""What tables, figures and pages show, and the files that holds."""

# --- tables and figures -------------------------------------------------------------------------


def metrics(task, model):
    """The results of a model in a task, one a seed."""
    if model is None:
        return [f"<results>/benchmarks/{task}/metrics.json"]
    return [
        f"<results>/benchmarks/{task}/{model}/seed{seed}/metrics.json"
        for seed in run.seeds_of(model)
    ]


def table_metrics(paper, table):
    """The results that a table of a paper shows: none where this run has no data for them."""
    cells = run.table_cells(paper, table)
    return [path for task, model in cells for path in metrics(task, model)]


def table_comparisons(paper, table):
    """What is compared between the rows of a table, as the settings of the comparison."""
    return PairedTestSettings(
        **run.paired_tests.model_dump(), comparisons=run.comparisons(paper, table)
    )


def table_predictions(paper, table):
    """The predictions behind the comparisons and intervals of a table."""
    return predictions(table_paired(paper, table))


def predictions(results):
    """The predictions of results, one file a seed."""
    found = [path for task, model in results for path in metrics(task, model)]
    return [path.replace("metrics.json", "predictions.parquet") for path in found]


def table_paired(paper, table):
    """The results of a table that are compared, or have an interval over seeds and samples."""
    pairs = [result for one in run.comparisons(paper, table) for result in one.results()]
    several = run.of_several_seeds(run.table_cells(paper, table))
    return list(dict.fromkeys([*pairs, *several]))


def statistics(results):
    """The modules that make metrics of predictions."""
    tasks = {task for task, _ in results}
    return sorted(f"benchmarks.{run.task(task).benchmark.statistic_module}" for task in tasks)


def table_tests(paper, table):
    """The intervals and paired tests that a table shows, if it has any."""
    made = [f"<results>/tables/{paper}/{table}.tests.json"]
    return made if table_paired(paper, table) else []


def ordering_metrics(paper):
    """The results behind the rankings that a paper claims."""
    places = [place for claim in run.orderings(paper) for place in claim.addresses()]
    names = dict.fromkeys(place.table for place in places)
    return list(dict.fromkeys(path for name in names for path in table_metrics(paper, name)))


def ordering_tests(paper):
    """The intervals and paired tests that claims of a paper are judged by."""
    places = [place for claim in run.orderings(paper) for place in claim.addresses()]
    names = dict.fromkeys(place.table for place in places)
    return [path for name in names for path in table_tests(paper, name)]


def paper_tables(paper, extent):
    """The tables of a paper in this extent, and whole the rankings that it claims in them."""
    names = run.table_names(paper, extent)
    names += ["orderings"] if extent == "all" and run.orderings(paper) else []
    return [f"<results>/tables/{paper}/{name}.html" for name in names]


def paper_figures(paper, extent):
    """The figures of a paper that rules of this run draw in this extent."""
    figures = run.figures(paper, extent).items()
    return [
        f"<results>/figures/{paper}/{name}.{getattr(figure, 'ENDING', 'png')}"
        for name, figure in figures
        if figure.kind != "picture"
    ]


def paper_contents(paper):
    """A digest of what a paper shows; comments in its file do not count."""
    shown = {"title", "tables", "orderings", "headline", "leads", "figures"}
    return fingerprint(run.chosen[paper].model_dump(mode="json", include=shown))


def figure(wildcards):
    """A figure of a paper."""
    return run.figures(wildcards.paper)[wildcards.figure]


def figures_of(*kinds):
    """The figures of some kinds, as a wildcard takes them behind its paper: papers share names."""
    named = [
        rf"(?<=/{re.escape(paper)}/){re.escape(name)}"
        for paper in run.chosen
        for name, figure in run.figures(paper).items()
        if figure.kind in kinds
    ]
    return "|".join(sorted(named)) or one_of([])


def figure_metrics(wildcards):
    """The results that a figure shows, all seeds."""
    shown = run.figure_results(wildcards.paper, wildcards.figure)
    return [path for task, model in shown for path in metrics(task, model)]


def figure_paired(wildcards):
    """The results that a figure shows with an interval over seeds and samples."""
    return run.of_several_seeds(run.figure_results(wildcards.paper, wildcards.figure))


def figure_inputs(wildcards):
    """What a figure reads, by the option of its program: of each result the first seed."""
    shown = run.figure_results(wildcards.paper, wildcards.figure)
    cohort = run.library.tasks[figure(wildcards).task].cohort
    files = {
        "models": lambda task, model, seed: model_run(model, seed),
        "pixels": lambda task, model, seed: (
            f"<results>/pixels/{cohort}/{run.geometry_of(task, model)}/store.json"
        ),
        "features": lambda task, model, seed: (
            f"<results>/features/{model}/seed{seed}/{cohort}/features.json"
        ),
    }
    found = {"results": [metrics(task, model)[0] for task, model in shown]}
    if figure(wildcards).READS:
        found["cohort"] = cohort_table(cohort)
    for name in figure(wildcards).READS:
        found[name] = [files[name](*one, run.seeds_of(one[1])[0]) for one in shown]
    return found


def figure_code(wildcards):
    """What draws it, and the trunks that are run."""
    drawn = figure(wildcards)
    shown = run.figure_results(wildcards.paper, wildcards.figure) if "models" in drawn.READS else []
    trunks = {part for _, model in shown for part in run.kinds_of(model)}
    return [f"benchmarks.{drawn.PROGRAM}", *sorted(trunks)]


def figure_phrases(wildcards):
    """Whether phrases, which are report text, stand on a figure."""
    drawn = figure(wildcards)
    if drawn.kind == "grounding":
        shown = run.task(drawn.task).settings.figure_phrases
    else:
        shown = drawn.kind == "priors" and run.shows("text", drawn.task)
    return "--phrases" if shown else "--no-phrases"


# --- pages --------------------------------------------------------------------------------------


def page_papers(page):
    """(paper, extent) of what a page shows."""
    return [(page, "all")] if page in run.chosen else [(p, run.extent) for p in run.chosen]


def page_inputs(wildcards):
    """Everything that a page shows."""
    shown = page_papers(wildcards.page)
    needs = run.needs(*shown)
    trained = [name for name in needs.models if not run.imported(name)]
    results = [one for paper, extent in shown for one in run.results_of(paper, extent)]
    return {
        "corpora": [f"<results>/corpus/{name}/corpus.json" for name in needs.corpora],
        "vocabularies": [f"<results>/vocabulary/{v}/vocabulary.json" for v in needs.vocabularies],
        "tokens": [
            f"<results>/tokens/{run.vocabulary_of(name)}/{dataset}/tokens.json"
            for name in trained
            for dataset in run.corpora_of(name)
        ],
        "flows": [f"<results>/cohorts/{cohort}/flow.json" for cohort in needs.cohorts],
        "models": model_runs(needs.models),
        "tables": [path for paper, extent in shown for path in paper_tables(paper, extent)],
        "figures": [path for paper, extent in shown for path in paper_figures(paper, extent)],
        "metrics": list(dict.fromkeys(path for one in results for path in metrics(*one))),
        "agreements": label_agreements(),
    }


def label_agreements():
    """How our report labels agree with each of the given ones."""
    folder = "<results>/benchmarks/label_agreement"
    return [f"{folder}/{dataset}/{reference}/metrics.json" for dataset, reference in GIVEN_LABELS]
