"""What the rules of tables.smk read, and how it stands on their command lines."""


def table_metrics(paper, table):
    """The results that a table of a paper shows: none where this run has no data for them."""
    cells = run.results[paper].cells(table)
    return [path for task, row in cells for path in metrics(task, row)]


def shown_metrics(wildcards):
    """The same for the table that is set; one that is asked for by name must show something."""
    paper, table = wildcards.paper, wildcards.table
    paths = table_metrics(paper, table)
    names = [f"tables/{paper}/{table}.{ending}" for ending in ("csv", "md", "html")]
    if not paths and any(map(is_target, names)):
        raise WorkflowError(f"{paper}/{table}: {''.join(table_notes(run, paper, table))}")
    return paths


def table_comparisons(paper, table):
    """What is compared between the rows of a table, as the settings of the comparison."""
    protocol = run.values.paired_tests.model_dump()
    return PairedTestSettings(**protocol, comparisons=run.results[paper].comparisons(table))


def predictions(results):
    """The predictions of results, one file a seed."""
    files = [path for task, row in results for path in metrics(task, row)]
    return [path.replace("metrics.json", "predictions.parquet") for path in files]


def statistics(results):
    """The modules that make metrics of predictions."""
    tasks = {task for task, _ in results}
    benchmarks = [run.tasks[task].benchmark for task in tasks]
    return sorted(each.code(each.statistic_module) for each in benchmarks)


def table_tests(paper, table):
    """The intervals and paired tests that a table shows, if it has any."""
    compared = run.results[paper].compared(table)
    return [f"<results>/tables/{paper}/{table}.tests.json"] if compared else []


def tables_of_orderings(paper):
    """The tables in which a paper claims rankings."""
    claims = run.results[paper].paper.orderings
    return list(dict.fromkeys(place.table for claim in claims for place in claim.addresses()))


def of_orderings(paper, files):
    """What the tables are made from in which a paper claims rankings; they may share files."""
    tables = tables_of_orderings(paper)
    return list(dict.fromkeys(path for table in tables for path in files(paper, table)))


def paper_tables(paper, extent):
    """The tables of a paper in this extent, and whole the rankings that it claims in them."""
    names = run.results[paper].tables(extent)
    names += ["orderings"] if extent == "all" and tables_of_orderings(paper) else []
    return [f"<results>/tables/{paper}/{name}.html" for name in names]


def paper_source(paper):
    """A paper as programs take it, with its models: one training of two, those with stand-ins."""
    same = [f"{name}={model}" for name, model in run.models.same.items() if paper_of(name) == paper]
    stand_ins = [f"{name}={weights}" for name, weights in run.results[paper].stand_ins.items()]
    beside = option("--beside", *run.library.beside(paper))
    options = [*beside, *option("--same", *same), *option("--stand-ins", *stand_ins)]
    return [run.library.source(paper), *options]


def released_metrics():
    """The results of published weights that a paper prints as well."""
    try:
        results = released_results(run)
    except InputError as error:
        raise WorkflowError(str(error)) from None
    said = ["what this run measures without training:", *block(released_cells(run))]
    logger.info("\n".join([*said, *released_notes(run)[1:]]))
    return [path for task, row in results for path in metrics(task, row)]


def paper_contents(paper):
    """A digest of what a paper shows; comments in its file do not count."""
    shown = {"title", "tables", "orderings", "headline", "leads", "figures"}
    return fingerprint(run.results[paper].paper.model_dump(mode="json", include=shown))


localrules:
    make_table,
    check_orderings,
    make_certificate,
