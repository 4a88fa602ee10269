"""RSNA linear probes: pneumonia from shares of the labels (BioViL section 4.4, Table 6).

Inputs: a model with an image half, the classification cohort, the model's features of its images.
Outputs: `<results>/benchmarks/linear_probe/<model>/seed<k>/`.
"""


rule evaluate_linear_probe:
    """Train linear heads of all shares and seeds on frozen features, and test them."""
    input:
        code=source("benchmarks.classification.linear_probe"),
        model="<results>/models/{model}/seed{seed}/run.json",
        cohort=cohort_file("classification", "samples.parquet"),
        features=model_features("classification"),
    output:
        metrics="<results>/benchmarks/linear_probe/{model}/seed{seed}/metrics.json",
        predictions="<results>/benchmarks/linear_probe/{model}/seed{seed}/predictions.parquet",
    log:
        "<logs>/evaluate_linear_probe/{model}.seed{seed}.log",
    benchmark:
        "<timings>/evaluate_linear_probe/{model}.seed{seed}.tsv"
    retries: need("evaluate_linear_probe").retries
    conda:
        "../../envs/gpu.yaml"
    threads: need("evaluate_linear_probe").threads
    resources:
        mem_mb=need("evaluate_linear_probe").mem_mb,
        runtime=need("evaluate_linear_probe").runtime,
        gpu=need("evaluate_linear_probe").gpu,
    params:
        settings=as_json(run.benchmarks.linear_probe.model_dump(mode="json")),
        model=subpath(input.model, parent=True),
        cohort=subpath(input.cohort, parent=True),
        features=subpath(input.features, parent=True),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.classification.linear_probe \
            --model {params.model:q} \
            --cohort {params.cohort:q} \
            --features {params.features:q} \
            --settings {params.settings:q} \
            --seed {wildcards.seed} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
