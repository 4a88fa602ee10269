"""Natural language inference, from MedNLI to RadNLI (BioViL section 4.2, Table 3).

Inputs: a text or joint model, the cohorts of the roles `inference` and `inference_training`.
Outputs: `<results>/benchmarks/natural_language_inference/<model>/seed<k>/`.
"""


rule evaluate_natural_language_inference:
    """Fine-tune a text encoder on sentence pairs, five times, and test it."""
    input:
        code=source("benchmarks.language.natural_language_inference"),
        model="<results>/models/{model}/seed{seed}/run.json",
        cohort=cohort_file("inference", "samples.parquet"),
        training=cohort_file("inference_training", "samples.parquet"),
    output:
        metrics="<results>/benchmarks/natural_language_inference/{model}/seed{seed}/metrics.json",
        predictions="<results>/benchmarks/natural_language_inference/{model}/seed{seed}/predictions.parquet",
    log:
        "<logs>/evaluate_natural_language_inference/{model}.seed{seed}.log",
    benchmark:
        "<timings>/evaluate_natural_language_inference/{model}.seed{seed}.tsv"
    retries: need("evaluate_natural_language_inference").retries
    conda:
        "../../envs/gpu.yaml"
    threads: need("evaluate_natural_language_inference").threads
    resources:
        mem_mb=need("evaluate_natural_language_inference").mem_mb,
        runtime=need("evaluate_natural_language_inference").runtime,
        gpu=need("evaluate_natural_language_inference").gpu,
    params:
        settings=as_json(run.benchmarks.natural_language_inference.model_dump(mode="json")),
        model=subpath(input.model, parent=True),
        cohort=subpath(input.cohort, parent=True),
        training=subpath(input.training, parent=True),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.language.natural_language_inference \
            --model {params.model:q} \
            --cohort {params.cohort:q} \
            --training {params.training:q} \
            --settings {params.settings:q} \
            --seed {wildcards.seed} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
