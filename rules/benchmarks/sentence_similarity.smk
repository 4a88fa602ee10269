"""Similarity of RadNLI's sentence pairs (BioViL section 4.2, Table 4).

Inputs: a text or joint model, the cohort of the role `inference`.
Outputs: `<results>/benchmarks/sentence_similarity/<model>/seed<k>/`.
"""


rule evaluate_sentence_similarity:
    """Compare the embeddings of premises and hypotheses."""
    input:
        code=source("benchmarks.language.sentence_similarity"),
        model="<results>/models/{model}/seed{seed}/run.json",
        cohort=cohort_file("inference", "samples.parquet"),
    output:
        metrics="<results>/benchmarks/sentence_similarity/{model}/seed{seed}/metrics.json",
        predictions="<results>/benchmarks/sentence_similarity/{model}/seed{seed}/predictions.parquet",
    log:
        "<logs>/evaluate_sentence_similarity/{model}.seed{seed}.log",
    benchmark:
        "<timings>/evaluate_sentence_similarity/{model}.seed{seed}.tsv"
    retries: need("evaluate_sentence_similarity").retries
    conda:
        "../../envs/gpu.yaml"
    threads: need("evaluate_sentence_similarity").threads
    resources:
        mem_mb=need("evaluate_sentence_similarity").mem_mb,
        runtime=need("evaluate_sentence_similarity").runtime,
        gpu=need("evaluate_sentence_similarity").gpu,
    params:
        settings=as_json(run.benchmarks.sentence_similarity.model_dump(mode="json")),
        model=subpath(input.model, parent=True),
        cohort=subpath(input.cohort, parent=True),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.language.sentence_similarity \
            --model {params.model:q} \
            --cohort {params.cohort:q} \
            --settings {params.settings:q} \
            --seed {wildcards.seed} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
