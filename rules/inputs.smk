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
        options += option(f"--{name}", *(files if name == "pairs" else folders(files)))
    return options


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
    geometry = run.geometry_of(wildcards.task, f"reference/{wildcards.name}")
    return f"<results>/pixels/{cohort}/{geometry}/store.json"


def task_reports(wildcards):
    """The training reports that a task's texts are held against, if it names any."""
    task = run.task(wildcards.task)
    named = task.benchmark.reports and task.task.training is not None
    return [cohort_table(task.task.training)] if named else []


def task_options(wildcards, input):
    """The same as options: the folders they lie in."""
    return folder_options(task_inputs(wildcards), input) + task_tagger_options(wildcards)


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


def task_need(rule, what):
    """A resource of a task: its benchmark's, or what all of the rule ask for."""
    return lambda wildcards: getattr(need(rule, benchmark_of(wildcards)), what)


# --- measured on the data themselves ------------------------------------------------------------


def data_inputs(wildcards):
    """What a task without a model reads, by the option of its program; of data sets the copies."""
    task = run.task(wildcards.task)
    cohort, reads, found = task.task.cohort, task.benchmark.reads, {}
    if reads == "datasets":
        return {"data": marker(*run.statistics_datasets(wildcards.task))}
    images = run.known_cohorts[cohort].holder
    if reads == "curation":
        found["curation"] = curation_of(cohort)
        images = run.known_cohorts[run.curation(cohort).candidates].holder
    else:
        found["cohort"] = cohort_table(cohort)
    if reads == "vocabularies":
        names = run.vocabularies_of(wildcards.task)
        found["vocabulary"] = [f"<results>/vocabulary/{name}/vocabulary.json" for name in names]
    if reads == "registration":
        place = f"{cohort}/{task.settings.geometry}"
        found["pixels"] = f"<results>/pixels/{place}/store.json"
        found["registration"] = f"<results>/registration/{place}/registration.json"
    return found | {"truth": marker(images) if task.benchmark.truth else []}


def data_options(wildcards, input):
    """The same as options; data sets by the folders that hold them."""
    datasets = run.statistics_datasets(wildcards.task)
    if not datasets:
        return folder_options(data_inputs(wildcards), input)
    annotated, studies, *demographics = datasets
    options = ["--dataset", annotated, "--root", root(annotated)]
    options += ["--studies-layout", layout(studies), "--studies-root", root(studies)]
    return [*options, *option("--demographics", *map(root, demographics))]


def given_labels(wildcards):
    """The given labels of a comparison."""
    return GIVEN_LABELS[wildcards.dataset, wildcards.reference]


def given_labels_place(wildcards):
    """The table of the given labels, or the folder whose index terms they are."""
    given = given_labels(wildcards)
    return given.file if given.holder is None else os.path.join(root(given.holder), given.file)
