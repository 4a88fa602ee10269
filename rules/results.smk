"""Helpers of the rules that read results: which metrics, tables, figures and labels there are.

Follows rules/common.smk, whose configuration and paths it uses.
"""


def metrics(benchmark, model):
    """The results of a model in a benchmark, one a seed."""
    if model is None:
        return [f"<results>/benchmarks/{benchmark}/metrics.json"]
    return [
        f"<results>/benchmarks/{benchmark}/{model}/seed{seed}/metrics.json"
        for seed in run.seeds_of(model)
    ]


def table_metrics(paper, table):
    """The results that a table of a paper shows: none where this run has no data for them."""
    return [
        path
        for benchmark, model in run.table_cells(paper, table)
        for path in metrics(benchmark, model)
    ]


def table_comparisons(paper, table):
    """What is compared between the rows of a table, as the settings of the comparison."""
    chosen = run.benchmarks.paired_tests.model_dump(mode="json")
    asked = [one.model_dump(mode="json") for one in row_comparisons(run, paper, table)]
    return as_json({**chosen, "comparisons": asked})


def table_predictions(paper, table):
    """The predictions behind the comparisons of a table, one file a model and seed."""
    pairs = [
        (one.task, model)
        for one in row_comparisons(run, paper, table)
        for model in (one.model, one.reference_model)
    ]
    return [
        path.replace("metrics.json", "predictions.parquet")
        for benchmark, model in dict.fromkeys(pairs)
        for path in metrics(benchmark, model)
    ]


def table_tests(paper, table):
    """The paired tests that a table shows: none where it has nothing to compare."""
    made = [f"<results>/tables/{paper}/{table}.tests.json"]
    return made if row_comparisons(run, paper, table) else []


def paper_metrics(paper):
    """The results behind all tables of a paper."""
    names = run.tables(paper) if paper in run.papers else []
    return [path for name in names for path in table_metrics(paper, name)]


def ordering_metrics(paper):
    """The results behind the orders that a paper claims."""
    names = dict.fromkeys(table for claim in run.orderings(paper) for table in claim.tables())
    return list(dict.fromkeys(path for name in names for path in table_metrics(paper, name)))


def ordering_tests(paper):
    """The paired tests that claims of a paper are judged by."""
    names = dict.fromkeys(claim.table for claim in run.orderings(paper) if claim.paired)
    return [path for name in names for path in table_tests(paper, name)]


def paper_tables(paper):
    """The tables of a paper, and the orders that it claims in them."""
    names = list(run.tables(paper)) if paper in run.papers else []
    names += ["orderings"] if names and run.orderings(paper) else []
    return [f"<results>/tables/{paper}/{name}.html" for name in names]


def paper_figures(paper):
    """The figures of a paper that this run draws."""
    names = run.figures(paper) if paper in run.papers else []
    return [f"<results>/figures/{paper}/{name}.png" for name in names]


def figure_inputs(wildcards, file):
    """A file of phrase grounding for every model of a figure, first seeds."""
    models = run.figure_models(run.figures(wildcards.paper)[wildcards.figure])
    folder = "<results>/benchmarks/phrase_grounding"
    return [f"{folder}/{model}/seed{run.seeds_of(model)[0]}/{file}" for model in models]


def figure_settings(wildcards):
    """What a figure shows."""
    return as_json(run.figures(wildcards.paper)[wildcards.figure].model_dump(mode="json"))


def paper_models(paper):
    """The models of a paper, its controls left out."""
    names = run.models_of(paper) if paper in run.papers else []
    return [model_run(name, seed) for name in names for seed in run.seeds_of(name)]


def control_metrics():
    """The results of every control in every benchmark that its kind of model can do."""
    return [
        path
        for paper in run.papers
        for model in run.models_of(paper, control=True)
        for benchmark in run.benchmarks_of(model)
        for path in metrics(benchmark, model)
    ]


def label_agreements():
    """How our report labels agree with each of the given ones."""
    return [
        f"<results>/benchmarks/label_agreement/{dataset}/{reference}/metrics.json"
        for dataset, reference in GIVEN_LABELS
    ]


def given_labels(wildcards):
    """The given labels of a comparison."""
    return GIVEN_LABELS[wildcards.dataset, wildcards.reference]


def given_labels_marker(wildcards):
    """What a comparison waits for besides the corpus: a synthetic data set, or the user's file."""
    given = given_labels(wildcards)
    return [given.file] if given.holder is None else marker(given.holder)


def given_labels_path(wildcards):
    """The table of the given labels, or the folder whose index terms they are."""
    given = given_labels(wildcards)
    return given.file if given.holder is None else os.path.join(root(given.holder), given.file)


def given_labels_settings(wildcards):
    """How a comparison is made."""
    return as_json(given_labels(wildcards).settings.model_dump(mode="json"))


def page_corpora():
    """The data sets whose text the page counts: corpora, reports, and those of pair cohorts."""
    pairs = [cohort_dataset(c) for c in run.cohorts_in_use() if run.cohorts[c].kind == "pairs"]
    names = dict.fromkeys([*run.text_datasets(), *pairs])
    return [f"<results>/corpus/{name}/corpus.json" for name in names]


def page_tokens():
    """The token files behind the papers' text models; vocabularies nobody trains with have none."""
    models = [name for paper in run.papers for name in run.models_of(paper)]
    named = [
        f"<results>/tokens/{run.vocabulary_of(model)}/{name}/tokens.json"
        for model in models
        if model in models_by("text")
        for name in run.corpora_of(model)
    ]
    return list(dict.fromkeys(named))
