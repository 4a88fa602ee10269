"""Masked-token prediction on held-out reports (BioViL section 4.2, Table 3).

Inputs: a text or joint model, the pairs of the role `reports`.
Outputs: `<results>/benchmarks/mask_prediction/<model>/seed<k>/`.
"""


rule evaluate_mask_prediction:
    """Predict masked words of reports."""
    input:
        code=source("benchmarks.language.mask_prediction"),
        model="<results>/models/{model}/seed{seed}/run.json",
        pairs=cohort_file("reports", "pairs.parquet"),
    output:
        metrics="<results>/benchmarks/mask_prediction/{model}/seed{seed}/metrics.json",
        predictions="<results>/benchmarks/mask_prediction/{model}/seed{seed}/predictions.parquet",
    log:
        "<logs>/evaluate_mask_prediction/{model}.seed{seed}.log",
    benchmark:
        "<timings>/evaluate_mask_prediction/{model}.seed{seed}.tsv"
    retries: need("evaluate_mask_prediction").retries
    conda:
        "../../envs/gpu.yaml"
    threads: need("evaluate_mask_prediction").threads
    resources:
        mem_mb=need("evaluate_mask_prediction").mem_mb,
        runtime=need("evaluate_mask_prediction").runtime,
        gpu=need("evaluate_mask_prediction").gpu,
    params:
        settings=as_json(run.benchmarks.mask_prediction.model_dump(mode="json")),
        model=subpath(input.model, parent=True),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.language.mask_prediction \
            --model {params.model:q} \
            --pairs {input.pairs:q} \
            --settings {params.settings:q} \
            --seed {wildcards.seed} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
