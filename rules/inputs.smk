"""What jobs read beside what their paths say, and how that stands on their command lines."""

# --- cohorts ------------------------------------------------------------------------------------


def cohort_data(wildcards):
    """The data sets that a cohort is read from."""
    cohort = run.known_cohorts[wildcards.cohort]
    uses = ["tables", *(["labels"] if cohort.recipe.labels == "published" else [])]
    uses += ["published"] if published_readers(wildcards.cohort) else []
    return data_of(uses, *cohort.sources)


def cohort_corpus(wildcards):
    """The corpus whose reports a cohort pairs; none for samples."""
    found = run.known_cohorts[wildcards.cohort]
    return [f"<results>/corpus/{found.dataset}/corpus.json"] if found.recipe.kind == "pairs" else []


def curation_of(cohort):
    """What decides which images stand for the studies of a cohort; nothing for most."""
    curated = run.curation(cohort) is not None
    return [f"<results>/curation/{cohort}/curation.parquet"] if curated else []


def split_file(cohort):
    """The user's own split of a cohort, where the configuration names one."""
    file = run.known_cohorts[cohort].recipe.splits.file
    return [] if file is None else [str(file)]


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
    return CurationSettings(**run.features.model_dump(), margin=margin)


# --- hospital -----------------------------------------------------------------------------------


def pictures_drawn_before(wildcards):
    """The DICOM copy, where a cohort's images are MIMIC-CXR-JPG's; else its tables are enough."""
    holders = {layout(run.known_cohorts[cohort].holder) for cohort, _ in run.stores}
    copied = wildcards.phantom == "mimic_cxr_jpg" and "mimic_cxr_jpg" in holders
    return ["<results>/phantom/mimic_cxr/MANIFEST.json"] if copied else []


def drawing_settings(wildcards, dump):
    """The hospital's settings that matter to this copy, a record or all values."""
    hospital, fields = run.synthetic_hospital, HospitalSettings.fields_of(wildcards.phantom)
    return as_json({} if hospital is None else dump(hospital, include=fields))


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
    if recipe.truth:
        found["truth"] = marker(run.known_cohorts[recipe.cohort].dataset)
    if recipe.selection is not None:
        cohort = run.selecting_cohort(name)
        found["selection"] = cohort_table(cohort)
        found["selection_pixels"] = pixels(cohort, name)
    if "vocabulary" in recipe.kind.accepts:
        found["vocabulary"] = model_vocabulary(name)
        found["tokens"] = [
            f"<results>/tokens/{run.vocabulary_of(name)}/{dataset}/tokens.json"
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
        named = f"--{name.replace('_', '-')}"
        options += option(named, *(files if name == "pairs" else folders(files)))
    return [*options, *selection_options(wildcards, as_json)]


def selection_options(wildcards, as_text=deciding):
    """The benchmark whose score validates a training, and its settings; nothing for most."""
    selection = MODELS[wildcards.model].recipe.selection
    if selection is None:
        return []
    task = run.task(selection)
    return [
        *option("--selection-task", task.task.benchmark),
        *option("--selection-settings", as_text(task.settings)),
    ]


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


def row_of(wildcards):
    """The model or other row that a job scores; None where data are measured alone."""
    if wildcards.get("name"):
        return f"reference/{wildcards.name}"
    return wildcards.get("external") or wildcards.get("model")


def truth_holder(benchmark, reference, cohort):
    """The drawn data set that holds a truth: that of the images, of findings that of the reports."""
    of_findings = benchmark.truth == "findings" or reference in benchmark.oracles
    return cohort.dataset if of_findings else cohort.holder


def task_inputs(wildcards):
    """What a benchmark reads, by the option of its program; of data sets the copies."""
    task, row = run.task(wildcards.task), row_of(wildcards)
    cohort, datasets = task.task.cohort, run.statistics_datasets(wildcards.task)
    if datasets:
        return {"data": data_of(["tables", "demographics"], *datasets)}
    geometry = getattr(task.settings, "geometry", None)
    geometry = run.geometry_of(wildcards.task, row) if row else geometry
    curation = run.curation(cohort)
    images = curation.candidates if task.benchmark.reads == "curation" else cohort
    files = {
        "model": lambda: model_run(row, wildcards.seed),
        "cohort": lambda: cohort_table(cohort),
        "curation": lambda: curation_of(cohort),
        "pixels": lambda: f"<results>/pixels/{cohort}/{geometry}/store.json",
        "registration": lambda: f"<results>/registration/{cohort}/{geometry}/registration.json",
        "features": lambda: f"<results>/features/{row}/seed{wildcards.seed}/{cohort}/features.json",
        "vocabulary": lambda: [
            f"<results>/vocabulary/{name}/vocabulary.json"
            for name in run.vocabularies_of(wildcards.task)
        ],
        "training": lambda: cohort_table(task.task.training) if task.task.training else [],
        "truth": lambda: marker(
            truth_holder(task.benchmark, wildcards.get("name"), run.known_cohorts[images])
        ),
        "stanza": lambda: TAGGER[0],
        "external": lambda: run.external[row].files[wildcards.task],
    }
    is_oracle = wildcards.get("name") in task.benchmark.oracles
    # Where data are measured alone there is no row: they are read as the benchmark says.
    without_model = row is not None and not wildcards.get("model")
    wanted = task.benchmark.inputs(task.settings, without_model, is_oracle)
    wanted |= task.benchmark.optional_inputs()
    wanted |= {"external"} if wildcards.get("external") else set()
    found = {name: find() for name, find in files.items() if name in wanted}
    lists = [str(file) for file in task.files.values()]
    return {**found, "lists": lists} if lists else found


def task_options(wildcards, input):
    """The same as options: the folders they lie in, and where a state and stanza's models do."""
    task = run.task(wildcards.task)
    if run.statistics_datasets(wildcards.task):
        return statistics_options(wildcards)
    found = task_inputs(wildcards)
    apart = ("stanza", "external", "lists")
    options = folder_options([name for name in found if name not in apart], input)
    options += option("--stanza", TAGGER[1]) if "stanza" in found else []
    if wildcards.get("external"):
        return [*options, "--external", input.external, "--name", wildcards.external]
    if wildcards.get("name"):
        return [*options, "--reference", wildcards.name]
    if wildcards.get("model"):
        options += ["--seed", wildcards.seed]
        state = f"{run.results}/state/benchmarks/{wildcards.task}/{wildcards.model}"
        options += ["--state", f"{state}/seed{wildcards.seed}"] if task.benchmark.resumes else []
    return options


def statistics_options(wildcards):
    """Where the data sets lie that statistics are of."""
    annotated, studies, *demographics = run.statistics_datasets(wildcards.task)
    options = ["--dataset", annotated, "--root", root(annotated)]
    options += ["--studies-layout", layout(studies), "--studies-root", root(studies)]
    return [*options, *option("--demographics", *map(root, demographics))]


def task_places(wildcards):
    """What a task reads that is no file of this run: data sets, the user's models of stanza."""
    if run.statistics_datasets(wildcards.task):
        return statistics_options(wildcards)
    given = "stanza" in task_inputs(wildcards) and not TAGGER[0]
    return [TAGGER[1]] if given else []


def task_code(wildcards):
    """The modules and rules that predict in a task, the trunks, the readers of data sets."""
    task, row = run.task(wildcards.task), row_of(wildcards)
    if wildcards.get("name"):
        return [*task.code, f"benchmarks.{task.benchmark.baselines.split(':')[0]}"]
    if wildcards.get("external"):
        return [*task.code, "benchmarks.rows.external"]
    modules = run.kinds_of(row) if row else []
    return [*task.code, *modules, *readers("tables", *run.statistics_datasets(wildcards.task))]


def task_need(rule, what):
    """A resource of a task: its benchmark's, or what all of the rule ask for."""
    return lambda wildcards: getattr(need(rule, benchmark_of(wildcards)), what)


# --- given labels -------------------------------------------------------------------------------


def given_labels(wildcards):
    """The given labels of a comparison."""
    return GIVEN_LABELS[wildcards.dataset, wildcards.reference]


def given_labels_files(wildcards):
    """The files that they are read from."""
    given = given_labels(wildcards)
    if given.holder is not None and (run.data.drawn(given.holder) or not given.file):
        return data_of(["reports"], given.holder)
    place = given_labels_place(wildcards)
    return [str(find_file(Path(), place) or place)]


def given_labels_place(wildcards):
    """The table of the given labels, or the folder whose index terms they are."""
    given = given_labels(wildcards)
    return given.file if given.holder is None else os.path.join(root(given.holder), given.file)
