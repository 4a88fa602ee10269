"""What several rules read: data sets, their texts, cohorts, models."""


def layout(dataset):
    """Whose files a data set has."""
    return run.data.layout(dataset).name


def root(dataset):
    """The folder that holds a data set's files."""
    found = run.data.present[dataset]
    return f"{RESULTS}/phantom/{layout(dataset)}" if found.is_drawn else found.root


def common_root(*roots):
    """The folder of the images of all: of one data set its own."""
    return roots[0] if len(roots) == 1 else common_folder([Path(each) for each in roots])


def marker(*datasets):
    """The manifests of the data sets that are drawn."""
    drawn = [name for name in dict.fromkeys(datasets) if run.data.present[name].is_drawn]
    return [f"<results>/phantom/{layout(name)}/MANIFEST.json" for name in drawn]


def data_of(uses, *datasets):
    """What a job waits for that reads these data sets: drawn copies, of real ones the lists."""
    files = [file for name in datasets for file in run.data.list_files(name, *uses)]
    return [*marker(*datasets), *dict.fromkeys(files)]


def readers(part, *datasets):
    """What `code_digest` takes for the readers of data sets: no import leads to them."""
    return [name for one in dict.fromkeys(datasets) for name in run.data.layout(one).source(part)]


def documents(dataset, paper):
    """The documents of a data set; those of reports know their patients' split."""
    cohort = run.texts.cohort(dataset, paper)
    if cohort is not None:
        return f"<results>/cohorts/{cohort}/documents.parquet"
    return f"<results>/corpus/{dataset}/documents.parquet"


def cohort_table(cohort):
    """The table of a cohort's rows: pairs of an image and its report, or samples."""
    return f"<results>/cohorts/{cohort}/{run.cohorts[cohort].table}.parquet"


def model_run(model, seed):
    """What a finished training leaves last."""
    return f"<results>/models/{model}/seed{seed}/run.json"


def model_runs(models):
    """The runs of models, one a seed."""
    return [model_run(name, seed) for name in models for seed in run.models[name].seeds]


def metrics(task, row):
    """The results of a model or another row in a task, one a seed; without a row: of the data."""
    if row is None:
        return [f"<results>/benchmarks/{task}/metrics.json"]
    seeds = run.models.seeds_of(row)
    return [f"<results>/benchmarks/{task}/{row}/seed{seed}/metrics.json" for seed in seeds]


def stanza_models(kind, trained):
    """(what a job waits for, its folder) of stanza's models: the user's, or ours."""
    reports = run.values.reports
    folder = (reports if kind == "splitter" else reports.entities).stanza_folder
    here = [] if folder else [f"<results>/stanza/{trained}/resources.json"]
    return here, folder or f"{RESULTS}/stanza/{trained}"
