"""Trainings: CXR-BERT's phases, image pretraining, joint training, reports; a rule for programs alike.

Inputs: whatever a recipe is made from: pairs, pixels, a vocabulary and tokens, earlier models.
Outputs: `<results>/models/<paper>/<model>/seed<k>/`; state in `<results>/state/`, never declared.
"""

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
        files = input[name] if name == "tokens" else [input[name]]
        named = f"--{name.replace('_', '-')}"
        options += option(named, *(files if name == "pairs" else folders(files)))
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


for training, weights in WEIGHTS.items():

    rule:
        """Train an encoder or a decoder by the program of its recipe."""
        name:
            training
        input:
            unpack(training_inputs),
        output:
            **{
                name: f"<results>/models/{{model}}/seed{{seed}}/{file}.safetensors"
                for name, file in weights.items()
            },
            run="<results>/models/{model}/seed{seed}/run.json",
            metrics="<results>/models/{model}/seed{seed}/metrics.jsonl",
        log:
            f"<logs>/{training}/{{model}}.seed{{seed}}.log",
        benchmark:
            f"<timings>/{training}/{{model}}.seed{{seed}}.tsv"
        wildcard_constraints:
            model=one_of(trained_by(training)),
        priority: lambda wildcards: training_priority(wildcards.model)
        conda:
            "../envs/gpu.yaml"
        params:
            **settings_of(lambda wildcards: run.models[wildcards.model].settings),
            code=lambda wildcards: code_digest(*run.models[wildcards.model].code),
            program=lambda wildcards: run.models[wildcards.model].recipe.program,
            selection=lambda wildcards: selection_options(wildcards),  # compared, as settings are
            data=training_options,
            state=lambda wildcards: f"{RESULTS}/state/{wildcards.model}/seed{wildcards.seed}",
            folder=subpath(output.run, parent=True),
        shell:
            r"""
            python -m cxrflow.training.launch \
                --processes {resources.processes} \
                --nodes {resources.nodes} \
                cxrflow.pretrain.{params.program} \
                --settings {params.given:q} \
                {params.data:q} \
                --model {wildcards.model:q} \
                --seed {wildcards.seed} \
                --state {params.state:q} \
                --output {params.folder:q} \
                >>{log:q} 2>&1
            """


rule initialise:
    """Make the folder of an image encoder before any training."""
    input:
        unpack(training_inputs),
    output:
        run="<results>/models/{model}/seed{seed}/run.json",
        weights="<results>/models/{model}/seed{seed}/image/model.safetensors",
    log:
        "<logs>/initialise/{model}.seed{seed}.log",
    benchmark:
        "<timings>/initialise/{model}.seed{seed}.tsv"
    wildcard_constraints:
        model=one_of(trained_by("initialise")),
    priority: lambda wildcards: training_priority(wildcards.model)
    conda:
        "../envs/cpu.yaml"
    params:
        **settings_of(lambda wildcards: run.models[wildcards.model].settings),
        code=lambda wildcards: code_digest(*run.models[wildcards.model].code),
        data=training_options,
        geometry=lambda wildcards: run.models[wildcards.model].geometry,
        folder=subpath(output.run, parent=True),
    shell:
        r"""
        python -m cxrflow.pretrain.initial \
            --settings {params.given:q} \
            {params.data:q} \
            --geometry {params.geometry:q} \
            --model {wildcards.model:q} \
            --seed {wildcards.seed} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
