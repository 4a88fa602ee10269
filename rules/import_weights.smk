"""Published weights in the place of a training (BioViL section 2; docs/weights.md).

Inputs: the files of the weights.
Outputs: `<results>/models/<paper>/<model>/seed<k>/`, as the training in whose place it stands, without
`metrics.jsonl`. Which models are imported `weights:` says; their trainings are no rules then.
"""


rule import_text:
    """Make a model folder of a published text encoder."""
    input:
        weights=published_weights,
    output:
        run="<results>/models/{model}/seed{seed}/run.json",
        weights="<results>/models/{model}/seed{seed}/model.safetensors",
    log:
        "<logs>/import_text/{model}.seed{seed}.log",
    benchmark:
        "<timings>/import_text/{model}.seed{seed}.tsv"
    wildcard_constraints:
        model=one_of(imported_as("text")),
    retries: need("import_weights").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("import_weights").threads
    resources:
        **job("import_weights"),
    params:
        code=code_digest("pretrain.imported", "encoders.resnet"),
        settings=lambda wildcards: as_json(MODELS[wildcards.model].settings),
        weights=import_options,
        folder=subpath(output.run, parent=True),
    shell:
        r"""
        python -m cxrflow.pretrain.imported \
            --settings {params.settings:q} \
            {params.weights:q} \
            --model {wildcards.model:q} \
            --seed {wildcards.seed} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


use rule import_text as import_image with:
    output:
        run="<results>/models/{model}/seed{seed}/run.json",
        weights="<results>/models/{model}/seed{seed}/image/model.safetensors",
    log:
        "<logs>/import_image/{model}.seed{seed}.log",
    benchmark:
        "<timings>/import_image/{model}.seed{seed}.tsv"
    wildcard_constraints:
        model=one_of(imported_as("image")),


use rule import_text as import_joint with:
    output:
        run="<results>/models/{model}/seed{seed}/run.json",
        weights="<results>/models/{model}/seed{seed}/model.safetensors",
        image_weights="<results>/models/{model}/seed{seed}/image/model.safetensors",
    log:
        "<logs>/import_joint/{model}.seed{seed}.log",
    benchmark:
        "<timings>/import_joint/{model}.seed{seed}.tsv"
    wildcard_constraints:
        model=one_of(imported_as("joint")),
