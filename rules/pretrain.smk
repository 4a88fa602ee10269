"""Trainings: CXR-BERT's phases, image pretraining, joint training, reports; a rule for programs alike.

Inputs: whatever a recipe is made from: pairs, pixels, a vocabulary and tokens, earlier models.
Outputs: `<results>/models/<paper>/<model>/seed<k>/`; state in `<results>/state/`, never declared.
"""


include: "inputs/pretrain.smk"


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
        threads: training_need(training, "threads")
        resources:
            **training_job(training),
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
