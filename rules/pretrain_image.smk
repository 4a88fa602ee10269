"""SimCLR on the images alone (BioViL section 2.2, Appendix E.2).

Inputs: a pixel store, the pairs that name its training images.
Outputs: `<results>/models/<model>/seed<k>/`; state in `<results>/state/`, never declared.
"""


rule pretrain_image:
    """Train an image encoder."""
    input:
        code=source("pretrain.image"),
        pixels=model_pixels,
        pairs=model_pairs,
    output:
        run="<results>/models/{model}/seed{seed}/run.json",
        weights="<results>/models/{model}/seed{seed}/image/model.safetensors",
        metrics="<results>/models/{model}/seed{seed}/metrics.jsonl",
    log:
        "<logs>/pretrain_image/{model}.seed{seed}.log",
    benchmark:
        "<timings>/pretrain_image/{model}.seed{seed}.tsv"
    wildcard_constraints:
        model=one_of(models_by("image")),
    retries: need("pretrain_image").retries
    conda:
        "../envs/gpu.yaml"
    threads: need("pretrain_image").threads
    resources:
        **spread("pretrain_image"),
        mem_mb=need("pretrain_image").mem_mb,
        runtime=need("pretrain_image").runtime,
        gpu=need("pretrain_image").gpu,
        attempt=lambda wildcards, attempt: attempt,
    params:
        settings=model_settings,
        pixels=subpath(input.pixels, parent=True),
        state=state,
        folder=subpath(output.run, parent=True),
    shell:
        r"""
        python -m cxrflow.training.launch \
            --processes {resources.processes} \
            --nodes {resources.nodes} \
            cxrflow.pretrain.image \
            --settings {params.settings:q} \
            --pixels {params.pixels:q} \
            --pairs {input.pairs:q} \
            --model {wildcards.model:q} \
            --seed {wildcards.seed} \
            --attempt {resources.attempt} \
            --state {params.state:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
