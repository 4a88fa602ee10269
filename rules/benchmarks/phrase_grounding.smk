"""MS-CXR phrase grounding: CNR and mIoU (BioViL section 4.3, Table 5).

Inputs: a joint model, the grounding cohort, its pixel store.
Outputs: `<results>/benchmarks/phrase_grounding/<model>/seed<k>/`.
"""


rule evaluate_phrase_grounding:
    """Ground each phrase in its image and compare with its boxes."""
    input:
        code=source("benchmarks.grounding.phrase_grounding"),
        model="<results>/models/{model}/seed{seed}/run.json",
        cohort=lambda wildcards: f"<results>/cohorts/{grounding_cohort(wildcards)}/samples.parquet",
        pixels=lambda wildcards: cohort_pixels(grounding_cohort(wildcards)),
    output:
        metrics="<results>/benchmarks/phrase_grounding/{model}/seed{seed}/metrics.json",
        predictions="<results>/benchmarks/phrase_grounding/{model}/seed{seed}/predictions.parquet",
        grids="<results>/benchmarks/phrase_grounding/{model}/seed{seed}/grids.npy",
    log:
        "<logs>/evaluate_phrase_grounding/{model}.seed{seed}.log",
    benchmark:
        "<timings>/evaluate_phrase_grounding/{model}.seed{seed}.tsv"
    retries: need("evaluate_phrase_grounding").retries
    conda:
        "../../envs/gpu.yaml"
    threads: need("evaluate_phrase_grounding").threads
    resources:
        mem_mb=need("evaluate_phrase_grounding").mem_mb,
        runtime=need("evaluate_phrase_grounding").runtime,
        gpu=need("evaluate_phrase_grounding").gpu,
    params:
        settings=as_json(run.benchmarks.phrase_grounding.model_dump(mode="json")),
        model=subpath(input.model, parent=True),
        cohort=subpath(input.cohort, parent=True),
        pixels=subpath(input.pixels, parent=True),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.grounding.phrase_grounding \
            --model {params.model:q} \
            --cohort {params.cohort:q} \
            --pixels {params.pixels:q} \
            --settings {params.settings:q} \
            --seed {wildcards.seed} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
