"""What MS-CXR holds: phrases, images and patients by finding (BioViL Table C.1).

Inputs: MS-CXR's files, the data set with its studies' dates, MIMIC-IV's patients if there are any.
Outputs: `<results>/benchmarks/ms_cxr_statistics/`.
"""


rule evaluate_ms_cxr_statistics:
    """Count phrases, images and patients, and who the patients are."""
    input:
        code=source(
            "benchmarks.data.ms_cxr_statistics", *readers("tables", *statistics_datasets(run))
        ),
        data=marker(*statistics_datasets(run)),
    output:
        metrics="<results>/benchmarks/ms_cxr_statistics/metrics.json",
        predictions="<results>/benchmarks/ms_cxr_statistics/predictions.parquet",
    log:
        "<logs>/evaluate_ms_cxr_statistics/all.log",
    benchmark:
        "<timings>/evaluate_ms_cxr_statistics/all.tsv"
    retries: need("evaluate_ms_cxr_statistics").retries
    conda:
        "../../envs/cpu.yaml"
    threads: need("evaluate_ms_cxr_statistics").threads
    resources:
        mem_mb=need("evaluate_ms_cxr_statistics").mem_mb,
        runtime=need("evaluate_ms_cxr_statistics").runtime,
    params:
        settings=as_json(run.benchmarks.ms_cxr_statistics.model_dump(mode="json")),
        dataset=statistics_datasets(run)[0],
        root=lambda wildcards: root(statistics_datasets(run)[0]),
        studies_layout=layout(statistics_datasets(run)[1]),
        studies_root=lambda wildcards: root(statistics_datasets(run)[1]),
        demographics=lambda wildcards: [
            part
            for name in statistics_datasets(run)[2:]
            for part in option("--demographics", root(name))
        ],
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.data.ms_cxr_statistics \
            --settings {params.settings:q} \
            --dataset {params.dataset:q} \
            --root {params.root:q} \
            --studies-layout {params.studies_layout:q} \
            --studies-root {params.studies_root:q} \
            {params.demographics:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
