"""Trainings: CXR-BERT's phases, image pretraining, joint training, reports; a rule for programs alike.

Inputs: whatever a recipe is made from: pairs, pixels, a vocabulary and tokens, earlier models.
Outputs: `<results>/models/<paper>/<model>/seed<k>/`; state in `<results>/state/`, never declared.
"""


rule pretrain_text:
    """Train a text encoder."""
    input:
        unpack(training_inputs),
    output:
        run="<results>/models/{model}/seed{seed}/run.json",
        weights="<results>/models/{model}/seed{seed}/model.safetensors",
        metrics="<results>/models/{model}/seed{seed}/metrics.jsonl",
    log:
        "<logs>/pretrain_text/{model}.seed{seed}.log",
    benchmark:
        "<timings>/pretrain_text/{model}.seed{seed}.tsv"
    wildcard_constraints:
        model=one_of(trained_by("pretrain_text")),
    priority: lambda wildcards: training_priority(wildcards.model)
    retries: need("pretrain_text").retries
    conda:
        "../envs/gpu.yaml"
    threads: need("pretrain_text").threads
    resources:
        **training_resources("pretrain_text"),
    params:
        **settings_of(lambda wildcards: MODELS[wildcards.model].settings),
        code=lambda wildcards: code_digest(*run.code_of(wildcards.model)),
        program=lambda wildcards: MODELS[wildcards.model].recipe.program,
        data=training_options,
        state=state,
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


use rule pretrain_text as pretrain_image with:
    output:
        run="<results>/models/{model}/seed{seed}/run.json",
        weights="<results>/models/{model}/seed{seed}/image/model.safetensors",
        metrics="<results>/models/{model}/seed{seed}/metrics.jsonl",
    log:
        "<logs>/pretrain_image/{model}.seed{seed}.log",
    benchmark:
        "<timings>/pretrain_image/{model}.seed{seed}.tsv"
    wildcard_constraints:
        model=one_of(trained_by("pretrain_image")),
    retries: need("pretrain_image").retries
    threads: need("pretrain_image").threads
    resources:
        **training_resources("pretrain_image"),


use rule pretrain_text as pretrain_joint with:
    output:
        run="<results>/models/{model}/seed{seed}/run.json",
        weights="<results>/models/{model}/seed{seed}/model.safetensors",
        metrics="<results>/models/{model}/seed{seed}/metrics.jsonl",
        image_weights="<results>/models/{model}/seed{seed}/image/model.safetensors",
    log:
        "<logs>/pretrain_joint/{model}.seed{seed}.log",
    benchmark:
        "<timings>/pretrain_joint/{model}.seed{seed}.tsv"
    wildcard_constraints:
        model=one_of(trained_by("pretrain_joint")),
    retries: need("pretrain_joint").retries
    threads: need("pretrain_joint").threads
    resources:
        **training_resources("pretrain_joint"),


use rule pretrain_text as pretrain_report with:
    output:
        run="<results>/models/{model}/seed{seed}/run.json",
        decoder="<results>/models/{model}/seed{seed}/decoder/model.safetensors",
        metrics="<results>/models/{model}/seed{seed}/metrics.jsonl",
        image_weights="<results>/models/{model}/seed{seed}/image/model.safetensors",
    log:
        "<logs>/pretrain_report/{model}.seed{seed}.log",
    benchmark:
        "<timings>/pretrain_report/{model}.seed{seed}.tsv"
    wildcard_constraints:
        model=one_of(trained_by("pretrain_report")),
    retries: need("pretrain_report").retries
    threads: need("pretrain_report").threads
    resources:
        **training_resources("pretrain_report"),


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
    retries: need("initialise").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("initialise").threads
    resources:
        **job("initialise"),
    params:
        **settings_of(lambda wildcards: MODELS[wildcards.model].settings),
        code=lambda wildcards: code_digest(*run.code_of(wildcards.model)),
        data=training_options,
        geometry=lambda wildcards: MODELS[wildcards.model].geometry,
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
