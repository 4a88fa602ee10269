"""Joint image-text training (BioViL section 2.2, Eq. 2).

Inputs: a text model, an image model, a pixel store, pairs.
Outputs: `<results>/models/<model>/seed<k>/`; state in `<results>/state/`, never declared.
"""


rule pretrain_joint:
    """Train an image and a text encoder together."""
    input:
        code=source("pretrain.joint"),
        pixels=model_pixels,
        pairs=model_pairs,
        text=parent_run("text"),
        image=parent_run("image"),
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
        model=one_of(models_by("joint")),
    retries: need("pretrain_joint").retries
    conda:
        "../envs/gpu.yaml"
    threads: need("pretrain_joint").threads
    resources:
        **spread("pretrain_joint"),
        mem_mb=need("pretrain_joint").mem_mb,
        runtime=need("pretrain_joint").runtime,
        gpu=need("pretrain_joint").gpu,
        attempt=lambda wildcards, attempt: attempt,
    params:
        settings=model_settings,
        pixels=subpath(input.pixels, parent=True),
        text=lambda wildcards, input: option("--text", *folders(input.text)),
        image=lambda wildcards, input: option("--image", *folders(input.image)),
        state=state,
        folder=subpath(output.run, parent=True),
    shell:
        r"""
        python -m cxrflow.training.launch \
            --processes {resources.processes} \
            --nodes {resources.nodes} \
            cxrflow.pretrain.joint \
            --settings {params.settings:q} \
            --pixels {params.pixels:q} \
            --pairs {input.pairs:q} \
            {params.text:q} \
            {params.image:q} \
            --model {wildcards.model:q} \
            --seed {wildcards.seed} \
            --attempt {resources.attempt} \
            --state {params.state:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
