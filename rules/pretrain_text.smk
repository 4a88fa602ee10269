"""CXR-BERT phases II and III: masked language modelling, then report sections (BioViL section 2.1).

Inputs: tokens or report pairs, a vocabulary, for phase III the model it goes on from.
Outputs: `<results>/models/<model>/seed<k>/`; state in `<results>/state/`, never declared.
"""


rule pretrain_text:
    """Train a text encoder."""
    input:
        code=source("pretrain.text"),
        vocabulary=model_vocabulary,
        tokens=model_tokens,
        pairs=model_pairs,
        start=parent_run("start"),
    output:
        run="<results>/models/{model}/seed{seed}/run.json",
        weights="<results>/models/{model}/seed{seed}/model.safetensors",
        metrics="<results>/models/{model}/seed{seed}/metrics.jsonl",
    log:
        "<logs>/pretrain_text/{model}.seed{seed}.log",
    benchmark:
        "<timings>/pretrain_text/{model}.seed{seed}.tsv"
    wildcard_constraints:
        model=one_of(models_by("text")),
    retries: need("pretrain_text").retries
    conda:
        "../envs/gpu.yaml"
    threads: need("pretrain_text").threads
    resources:
        **spread("pretrain_text"),
        mem_mb=need("pretrain_text").mem_mb,
        runtime=need("pretrain_text").runtime,
        gpu=need("pretrain_text").gpu,
        attempt=lambda wildcards, attempt: attempt,
    params:
        settings=model_settings,
        vocabulary=subpath(input.vocabulary, parent=True),
        tokens=lambda wildcards, input: option("--tokens", *folders(input.tokens)),
        pairs=lambda wildcards, input: option("--pairs", *input.pairs),
        start=lambda wildcards, input: option("--start", *folders(input.start)),
        state=state,
        folder=subpath(output.run, parent=True),
    shell:
        r"""
        python -m cxrflow.training.launch \
            --processes {resources.processes} \
            --nodes {resources.nodes} \
            cxrflow.pretrain.text \
            --settings {params.settings:q} \
            --vocabulary {params.vocabulary:q} \
            {params.tokens:q} \
            {params.pairs:q} \
            {params.start:q} \
            --model {wildcards.model:q} \
            --seed {wildcards.seed} \
            --attempt {resources.attempt} \
            --state {params.state:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
