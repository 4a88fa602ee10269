"""What the rules of pretrain.smk read, and how it stands on their command lines."""

# The weights that each training leaves: of its text encoder, image encoder or decoder.
WEIGHTS = {
    "pretrain_text": {"weights": "model"},
    "pretrain_image": {"weights": "image/model"},
    "pretrain_joint": {"weights": "model", "image_weights": "image/model"},
    "pretrain_report": {"decoder": "decoder/model", "image_weights": "image/model"},
}


def trained_by(rule):
    """The models whose programs a rule runs; imported ones are made of published weights."""
    models = (run.models[name] for name in run.whole.models)
    return [each.name for each in models if not each.imported and each.recipe.kind.rule == rule]


def training_need(rule, what):
    """What a training asks for: under its model's name, else under its rule."""

    def asked(wildcards):
        resources = run.values.resources
        entries = resources.get(wildcards.model), resources.get(rule)
        entry = next((e for e in entries if e and what in e.model_fields_set), parts.Resources())
        return getattr(entry, what)

    return asked


def training_job(rule):
    """The resources of a rule's trainings as Snakemake takes them, and how they are spread."""
    own = {what: training_need(rule, what) for what in ("mem_mb", "runtime", "gpu", "processes")}
    nodes = need(rule).nodes
    return {**own, "nodes": nodes, **({"tasks": nodes, "mpi": "srun"} if nodes > 1 else {})}


def training_inputs(wildcards):
    """What a training reads, by the option of its program: as its recipe and its program say."""
    model = run.models[wildcards.model]
    recipe, cohort, selection = model.recipe, model.recipe.cohort, model.selecting_cohort
    files = {}
    if cohort is not None:
        files["pairs"] = cohort_table(cohort)
    if cohort is not None and model.geometry is not None:
        files["pixels"] = f"<results>/pixels/{cohort}/{model.geometry}/store.json"
    if recipe.truth:
        files["truth"] = marker(run.cohorts[cohort].dataset)
    if selection is not None:
        files["selection"] = cohort_table(selection)
        files["selection_pixels"] = f"<results>/pixels/{selection}/{model.geometry}/store.json"
    if "vocabulary" in recipe.kind.accepts:
        files["vocabulary"] = model_vocabulary(model)
        files["tokens"] = [
            f"<results>/tokens/{model.vocabulary}/{dataset}/tokens.json"
            for dataset in model.corpora
        ]
    if recipe.shuffled_twins is not None:
        files["shuffled_twins"] = model_runs([recipe.shuffled_twins])
    for option, (parent, seed) in model.parents_at(int(wildcards.seed)).items():
        files[option] = f"<results>/models/{parent}/seed{seed}/run.json"
    return {option: paths for option, paths in files.items() if paths}


def model_vocabulary(model):
    """The vocabulary of a text model, which is also that of the model it starts from."""
    if model.vocabulary_model is not None:
        return model_runs([model.vocabulary_model])[0]
    return f"<results>/vocabulary/{model.vocabulary}/vocabulary.json"


def training_options(wildcards, input):
    """The same as options: folders, but of the pairs the file itself."""
    options = []
    for name in training_inputs(wildcards):
        several = name in ("tokens", "shuffled_twins")
        files = input[name] if several else [input[name]]
        named = f"--{name.replace('_', '-')}"
        options += option(named, *(files if name == "pairs" else folders(files)))
    if "joint" in run.models[wildcards.model].recipe.kind.offers:
        options += option("--twins", f"{RESULTS}/state/twins")
    return [*options, *selection_options(wildcards, as_json)]


def selection_options(wildcards, as_text=deciding):
    """The benchmark whose score validates a training, and its settings; nothing for most."""
    selection = run.models[wildcards.model].recipe.selection
    if selection is None:
        return []
    task = run.tasks[selection]
    return [
        *option("--selection-task", task.task.benchmark),
        *option("--selection-settings", as_text(task.settings)),
    ]
