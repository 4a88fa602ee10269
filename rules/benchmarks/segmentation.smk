"""RSNA segmentation: IoU, Dice and CNR, zero-shot and by linear probes (BioViL 4.5, Table 7).

Inputs: a model with an image half, the classification cohort, its pixel store.
Outputs: `<results>/benchmarks/segmentation/<model>/seed<k>/`.
"""


rule evaluate_segmentation:
    """Map pneumonia by prompts and by linear probes, and compare with the boxes."""
    input:
        code=source("benchmarks.grounding.segmentation"),
        model="<results>/models/{model}/seed{seed}/run.json",
        cohort=cohort_file("classification", "samples.parquet"),
        pixels=pixel_store("classification"),
    output:
        metrics="<results>/benchmarks/segmentation/{model}/seed{seed}/metrics.json",
        predictions="<results>/benchmarks/segmentation/{model}/seed{seed}/predictions.parquet",
    log:
        "<logs>/evaluate_segmentation/{model}.seed{seed}.log",
    benchmark:
        "<timings>/evaluate_segmentation/{model}.seed{seed}.tsv"
    retries: need("evaluate_segmentation").retries
    conda:
        "../../envs/gpu.yaml"
    threads: need("evaluate_segmentation").threads
    resources:
        mem_mb=need("evaluate_segmentation").mem_mb,
        runtime=need("evaluate_segmentation").runtime,
        gpu=need("evaluate_segmentation").gpu,
    params:
        settings=as_json(run.benchmarks.segmentation.model_dump(mode="json")),
        model=subpath(input.model, parent=True),
        cohort=subpath(input.cohort, parent=True),
        pixels=subpath(input.pixels, parent=True),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.grounding.segmentation \
            --model {params.model:q} \
            --cohort {params.cohort:q} \
            --pixels {params.pixels:q} \
            --settings {params.settings:q} \
            --seed {wildcards.seed} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
