"""Vocabularies compared: pieces per word, and how findings are cut up (BioViL Tables 1 and 3).

Inputs: every vocabulary of the configuration, the pairs of the role `reports`.
Outputs: `<results>/benchmarks/vocabulary/`.
"""


rule evaluate_vocabulary:
    """Compare the vocabularies on report text."""
    input:
        code=source("benchmarks.language.vocabulary"),
        vocabularies=[f"<results>/vocabulary/{name}/vocabulary.json" for name in VOCABULARIES],
        pairs=cohort_file("reports", "pairs.parquet"),
    output:
        metrics="<results>/benchmarks/vocabulary/metrics.json",
    log:
        "<logs>/evaluate_vocabulary/all.log",
    benchmark:
        "<timings>/evaluate_vocabulary/all.tsv"
    retries: need("evaluate_vocabulary").retries
    conda:
        "../../envs/cpu.yaml"
    threads: need("evaluate_vocabulary").threads
    resources:
        mem_mb=need("evaluate_vocabulary").mem_mb,
        runtime=need("evaluate_vocabulary").runtime,
    params:
        vocabularies=[f"{name}={run.results}/vocabulary/{name}" for name in VOCABULARIES],
        settings=as_json(run.benchmarks.vocabulary.model_dump(mode="json")),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.language.vocabulary \
            --vocabulary {params.vocabularies:q} \
            --pairs {input.pairs:q} \
            --settings {params.settings:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
