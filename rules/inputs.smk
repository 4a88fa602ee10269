"""What jobs read beside what their paths say, and how that stands on their command lines."""

# --- cohorts ------------------------------------------------------------------------------------


def cohort_corpus(wildcards):
    """The corpus whose reports a cohort pairs; none for samples."""
    found = run.known_cohorts[wildcards.cohort]
    return [f"<results>/corpus/{found.dataset}/corpus.json"] if found.recipe.kind == "pairs" else []


def curation_of(cohort):
    """What decides which images stand for the studies of a cohort; nothing for most."""
    curated = run.curation(cohort) is not None
    return [f"<results>/curation/{cohort}/curation.parquet"] if curated else []


def curation_inputs(wildcards):
    """The model that curates a cohort, and what it chooses from."""
    found = run.curation(wildcards.cohort)
    return {
        "model": model_run(found.model, run.seeds_of(found.model)[0]),
        "cohort": cohort_table(found.candidates),
        "pixels": pixels(found.candidates, found.model),
    }


def curation_settings(wildcards):
    """The margin, and how images are encoded everywhere."""
    margin = run.curation(wildcards.cohort).margin
    return as_json({**run.features.model_dump(mode="json"), "margin": margin})


def curated_images(task):
    """The data set whose images a curation chooses from."""
    found = run.curation(run.library.tasks[task].cohort)
    return run.known_cohorts[found.candidates].holder


# --- hospital -----------------------------------------------------------------------------------


def drawn_pictures(wildcards):
    """`--jpg`, when a cohort's images lie in this copy of MIMIC-CXR-JPG; else tables are enough."""
    holders = {layout(run.known_cohorts[cohort].holder) for cohort, _ in run.stores}
    return ["--jpg"] if wildcards.phantom == "mimic_cxr_jpg" and "mimic_cxr_jpg" in holders else []


def drawing_settings(wildcards):
    """The hospital's settings that matter to this copy."""
    hospital = run.synthetic_hospital
    return as_json({} if hospital is None else hospital.of(wildcards.phantom))


# --- trainings ----------------------------------------------------------------------------------


def training_inputs(wildcards):
    """What a training reads, by the option of its program."""
    name = wildcards.model
    recipe = MODELS[name].recipe
    found = {}
    if recipe.cohort is not None:
        found["pairs"] = cohort_table(recipe.cohort)
    if MODELS[name].geometry is not None and recipe.cohort is not None:
        found["pixels"] = pixels(recipe.cohort, name)
    if recipe.program == "caption":
        found["vocabulary"] = model_vocabulary(name)
    if recipe.program == "text":
        vocabulary = run.vocabulary_of(name)
        found["vocabulary"] = model_vocabulary(name)
        found["tokens"] = [
            f"<results>/tokens/{vocabulary}/{dataset}/tokens.json"
            for dataset in run.corpora_of(name)
        ]
    for parent, (model, seed) in run.parents(name, int(wildcards.seed)).items():
        found[parent] = model_run(model, seed)
    return {key: files for key, files in found.items() if files}


def training_options(wildcards, input):
    """The same as options: folders, but of the pairs the file itself."""
    options = []
    for name in training_inputs(wildcards):
        files = input[name] if name == "tokens" else [input[name]]
        options += option(f"--{name}", *(files if name == "pairs" else folders(files)))
    return options


def training_resources(program):
    """The resources of a training: its processes and nodes, and what Slurm is asked for then."""
    asked = need(f"pretrain_{program}")
    several = {"tasks": asked.nodes, "mpi": "srun"} if asked.nodes > 1 else {}
    spread = {"processes": asked.processes, "nodes": asked.nodes, **several}
    return {**job(f"pretrain_{program}"), **spread}


# --- published weights --------------------------------------------------------------------------


def published_weights(wildcards):
    """The files of an imported model's weights."""
    model = wildcards.model
    files = weights_files(run.weights[model], model, run.recipes[model].weights)
    return [str(path) for _, path, kind in files if kind == "file"]


def import_options(wildcards):
    """Which weights an imported model is made of."""
    kind = run.recipes[wildcards.model].weights
    weights, image = run.weights[wildcards.model].places(kind)
    return ["--kind", kind, "--weights", weights, *option("--image", *([image] if image else []))]


# --- evaluations --------------------------------------------------------------------------------


def benchmark_of(wildcards):
    """The name of a task's benchmark."""
    return run.library.tasks[wildcards.task].benchmark


def cohort_table(cohort):
    """The table of a cohort's rows."""
    kind = "pairs" if run.known_cohorts[cohort].recipe.kind == "pairs" else "samples"
    return f"<results>/cohorts/{cohort}/{kind}.parquet"


def task_inputs(wildcards):
    """What a benchmark reads beside the model, by the option of its program."""
    task = run.task(wildcards.task)
    cohort = task.task.cohort
    wanted = task.benchmark.inputs(task.settings)
    found = {"cohort": cohort_table(cohort)}
    geometry = run.geometry_of(wildcards.task, wildcards.model)
    if "pixels" in wanted:
        found["pixels"] = f"<results>/pixels/{cohort}/{geometry}/store.json"
    if "registration" in wanted:
        found["registration"] = f"<results>/registration/{cohort}/{geometry}/registration.json"
    if "features" in wanted:
        folder = f"<results>/features/{wildcards.model}/seed{wildcards.seed}/{cohort}"
        found["features"] = f"{folder}/features.json"
    if task.task.training is not None:
        found["training"] = cohort_table(task.task.training)
    drawn = marker(run.known_cohorts[cohort].holder) if task.benchmark.truth else []
    if drawn:
        found["truth"] = drawn[0]
    return found


def reference_pixels(wildcards):
    """The pixel store that reference rows of a task read: one that a model of it sees."""
    cohort = run.library.tasks[wildcards.task].cohort
    geometry = run.geometry_of(wildcards.task, run.first_model(wildcards.task))
    return f"<results>/pixels/{cohort}/{geometry}/store.json"


def task_reports(wildcards):
    """The training reports that a task's texts are held against, if it names any."""
    task = run.task(wildcards.task)
    named = task.benchmark.reports and task.task.training is not None
    return [cohort_table(task.task.training)] if named else []


def task_options(wildcards, input):
    """The same as options: the folders they lie in."""
    names = task_inputs(wildcards)
    options = [word for name in names for word in option(f"--{name}", *folders([input[name]]))]
    return options + task_tagger_options(wildcards)


def reads_tagger(wildcards):
    """Whether a task finds entities with stanza."""
    task = run.task(wildcards.task)
    return "stanza" in task.benchmark.inputs(task.settings)


def task_tagger(wildcards):
    """What a task waits for that finds entities: stanza's models, if they are trained here."""
    return TAGGER[0] if reads_tagger(wildcards) else []


def task_tagger_options(wildcards):
    """The folder of those models."""
    return option("--stanza", TAGGER[1]) if reads_tagger(wildcards) else []


def benchmark_state(wildcards):
    """Where a benchmark that trains keeps what is not finished."""
    if not run.task(wildcards.task).benchmark.resumes:
        return []
    name = f"{wildcards.task}/{wildcards.model}/seed{wildcards.seed}"
    return ["--state", f"{run.results}/state/benchmarks/{name}"]


def evaluation_need(what):
    """A resource of an evaluation: its benchmark's, or what all of them ask for."""
    return lambda wildcards: getattr(need("evaluate", benchmark_of(wildcards)), what)


def counts(task):
    """The benchmark of a task that counts something else than rows; None for another."""
    name = run.library.tasks[task].benchmark
    return name if run.task(task).benchmark.counts in ("datasets", "curation") else None


def statistics_options(annotated, studies, *demographics):
    """The data sets that are counted."""
    options = ["--dataset", annotated, "--root", root(annotated)]
    options += ["--studies-layout", layout(studies), "--studies-root", root(studies)]
    return [*options, *option("--demographics", *map(root, demographics))]


def registration_inputs(wildcards):
    """The pairs, the images and the alignments of a task that measures registration."""
    task = run.task(wildcards.task)
    place = f"{task.task.cohort}/{task.settings.geometry}"
    return {
        "cohort": cohort_table(task.task.cohort),
        "pixels": f"<results>/pixels/{place}/store.json",
        "registration": f"<results>/registration/{place}/registration.json",
    }


def registered_images(wildcards):
    """The data set whose images those are."""
    return run.known_cohorts[run.library.tasks[wildcards.task].cohort].holder


def given_labels(wildcards):
    """The given labels of a comparison."""
    return GIVEN_LABELS[wildcards.dataset, wildcards.reference]


def given_labels_place(wildcards):
    """The table of the given labels, or the folder whose index terms they are."""
    given = given_labels(wildcards)
    return given.file if given.holder is None else os.path.join(root(given.holder), given.file)


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
    asked = [one.model_dump(mode="json") for one in run.comparisons(paper, table)]
    return as_json({**run.paired_tests.model_dump(mode="json"), "comparisons": asked})


def table_predictions(paper, table):
    """The predictions behind the comparisons and intervals of a table."""
    return predictions(table_paired(paper, table))


def predictions(results):
    """The predictions of results, one file a seed."""
    found = [path for task, model in results for path in metrics(task, model)]
    return [path.replace("metrics.json", "predictions.parquet") for path in found]


def table_paired(paper, table):
    """The results of a table that are compared, or have an interval over seeds and samples."""
    pairs = [
        (one.task, model)
        for one in run.comparisons(paper, table)
        for model in (one.model, one.reference_model)
    ]
    several = run.of_several_seeds(run.table_cells(paper, table))
    return list(dict.fromkeys([*pairs, *several]))


def statistics(results):
    """The modules that make metrics of predictions."""
    tasks = {task for task, _ in results}
    return sorted(
        f"benchmarks.{run.task(task).benchmark.statistics.split(':')[0]}" for task in tasks
    )


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


def figure_first_metrics(wildcards):
    """The results that a figure shows, first seeds."""
    shown = run.figure_results(wildcards.paper, wildcards.figure)
    return [metrics(task, model)[0] for task, model in shown]


def figure_cohort(wildcards):
    """The cohort of a figure's phrases."""
    return run.library.tasks[figure(wildcards).task].cohort


def figure_of_models(wildcards):
    """What a figure of several models side by side reads of each, first seeds."""
    cohort = figure_cohort(wildcards)
    shown = run.figure_results(wildcards.paper, wildcards.figure)
    seeds = [(task, model, run.seeds_of(model)[0]) for task, model in shown]
    found = {
        "metrics": figure_first_metrics(wildcards),
        "models": [model_run(model, seed) for _, model, seed in seeds],
    }
    if figure(wildcards).kind == "saliency":
        stores = [f"{cohort}/{run.geometry_of(task, model)}" for task, model, _ in seeds]
        return found | {"pixels": [f"<results>/pixels/{one}/store.json" for one in stores]}
    folder = "<results>/features/{}/seed{}/{}/features.json"
    return found | {"features": [folder.format(model, seed, cohort) for _, model, seed in seeds]}


def code_of_models(wildcards):
    """What draws it, and the trunks that are run."""
    shown = run.figure_results(wildcards.paper, wildcards.figure)
    trunks = {part for _, model in shown for part in run.trunk_of(model)}
    return [f"benchmarks.{figure(wildcards).PROGRAM}", *sorted(trunks)]


def options_of_models(wildcards, input):
    """The same as options: folders, in the same order."""
    named = {"metrics": "results", "models": "models", "pixels": "pixels", "features": "features"}
    return [
        word
        for name in figure_of_models(wildcards)
        for word in option(f"--{named[name]}", *folders(input[name]))
    ]


# --- pages --------------------------------------------------------------------------------------


def page_papers(page):
    """(paper, extent) of what a page shows."""
    return [(page, "all")] if page in run.chosen else [(p, run.extent) for p in run.chosen]


def page_inputs(wildcards):
    """Everything that a page shows."""
    shown = page_papers(wildcards.page)
    needs = run.needs(*shown)
    text = [name for name in needs.models if name in trained_by("text")]
    results = [one for paper, extent in shown for one in run.results_of(paper, extent)]
    return {
        "corpora": [f"<results>/corpus/{name}/corpus.json" for name in needs.corpora],
        "vocabularies": [f"<results>/vocabulary/{v}/vocabulary.json" for v in needs.vocabularies],
        "tokens": [
            f"<results>/tokens/{run.vocabulary_of(name)}/{dataset}/tokens.json"
            for name in text
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
