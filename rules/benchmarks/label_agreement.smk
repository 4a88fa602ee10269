"""Report labels compared with given ones (Irvin et al. 2019, the CheXpert labeller's evaluation).

Inputs: `<results>/corpus/<dataset>/`; the label tables of MIMIC-CXR-JPG, the index terms of Open-I,
or a table of the user's own (`benchmarks.label_agreement.comparisons`).
Outputs: `<results>/benchmarks/label_agreement/<dataset>/<reference>/`.
"""


rule evaluate_label_agreement:
    """Precision, recall, F1 and kappa of our report labels, and the sentences where they differ."""
    input:
        code=source(
            "benchmarks.data.label_agreement",
            "data/open_i_terms.yaml",
            "reports/rules/scope/*.yaml",
            "reports/rules/chexpert_labeler/**/*.txt",
        ),
        corpus="<results>/corpus/{dataset}/corpus.json",
        labels=given_labels_marker,
    output:
        metrics="<results>/benchmarks/label_agreement/{dataset}/{reference}/metrics.json",
        agreement="<results>/benchmarks/label_agreement/{dataset}/{reference}/agreement.csv",
        confusion="<results>/benchmarks/label_agreement/{dataset}/{reference}/confusion.csv",
        predictions="<results>/benchmarks/label_agreement/{dataset}/{reference}/predictions.parquet",
        disagreements="<results>/benchmarks/label_agreement/{dataset}/{reference}/disagreements.parquet",
    log:
        "<logs>/evaluate_label_agreement/{dataset}.{reference}.log",
    benchmark:
        "<timings>/evaluate_label_agreement/{dataset}.{reference}.tsv"
    retries: need("evaluate_label_agreement").retries
    conda:
        "../../envs/gpu.yaml"
    threads: need("evaluate_label_agreement").threads
    resources:
        mem_mb=need("evaluate_label_agreement").mem_mb,
        runtime=need("evaluate_label_agreement").runtime,
    params:
        settings=given_labels_settings,
        labels=given_labels_path,
        corpus=subpath(input.corpus, parent=True),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.data.label_agreement \
            --corpus {params.corpus:q} \
            --labels {params.labels:q} \
            --reference {wildcards.reference:q} \
            --settings {params.settings:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
