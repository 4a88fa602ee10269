"""RSNA zero-shot pneumonia classification (BioViL section 4.4, Table 6).

Inputs: a joint model, the classification cohort, the model's features of its images.
Outputs: `<results>/benchmarks/zero_shot_classification/<model>/seed<k>/`.
"""


rule evaluate_zero_shot_classification:
    """Classify each image by two prompts."""
    input:
        code=source("benchmarks.classification.zero_shot_classification"),
        model="<results>/models/{model}/seed{seed}/run.json",
        cohort=cohort_file("classification", "samples.parquet"),
        features=model_features("classification"),
    output:
        metrics="<results>/benchmarks/zero_shot_classification/{model}/seed{seed}/metrics.json",
        predictions="<results>/benchmarks/zero_shot_classification/{model}/seed{seed}/predictions.parquet",
    log:
        "<logs>/evaluate_zero_shot_classification/{model}.seed{seed}.log",
    benchmark:
        "<timings>/evaluate_zero_shot_classification/{model}.seed{seed}.tsv"
    retries: need("evaluate_zero_shot_classification").retries
    conda:
        "../../envs/gpu.yaml"
    threads: need("evaluate_zero_shot_classification").threads
    resources:
        mem_mb=need("evaluate_zero_shot_classification").mem_mb,
        runtime=need("evaluate_zero_shot_classification").runtime,
        gpu=need("evaluate_zero_shot_classification").gpu,
    params:
        settings=as_json(run.benchmarks.zero_shot_classification.model_dump(mode="json")),
        model=subpath(input.model, parent=True),
        cohort=subpath(input.cohort, parent=True),
        features=subpath(input.features, parent=True),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.classification.zero_shot_classification \
            --model {params.model:q} \
            --cohort {params.cohort:q} \
            --features {params.features:q} \
            --settings {params.settings:q} \
            --seed {wildcards.seed} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
