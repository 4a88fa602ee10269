"""How our report labels agree with labels that are given: with a data set, or by the user.

Inputs: `<results>/corpus/<dataset>/`, the tables of labels.
Outputs: `<results>/benchmarks/label_agreement/<dataset>/<reference>/`.
"""


include: "inputs/labels.smk"


rule compare_labels:
    """Precision, recall, F1 and kappa of our report labels, and the sentences where they differ."""
    input:
        corpus="<results>/corpus/{dataset}/corpus.json",
        labels=given_labels_files,
    output:
        metrics="<results>/benchmarks/label_agreement/{dataset}/{reference}/metrics.json",
        agreement="<results>/benchmarks/label_agreement/{dataset}/{reference}/agreement.csv",
        confusion="<results>/benchmarks/label_agreement/{dataset}/{reference}/confusion.csv",
        predictions="<results>/benchmarks/label_agreement/{dataset}/{reference}/predictions.parquet",
        disagreements="<results>/benchmarks/label_agreement/{dataset}/{reference}/disagreements.parquet",
    log:
        "<logs>/compare_labels/{dataset}.{reference}.log",
    benchmark:
        "<timings>/compare_labels/{dataset}.{reference}.tsv"
    conda:
        "../envs/gpu.yaml"
    params:
        **settings_of(lambda wildcards: given_labels(wildcards).settings),
        code=lambda wildcards: code_digest(
            "benchmarks.data.label_agreement",
            "data/readers/open_i_terms.yaml",
            "cxr_labels/rules/scope/*.yaml",
        ),
        labels=given_labels_place,
        corpus=subpath(input.corpus, parent=True),
        folder=subpath(output.metrics, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.data.compare_labels \
            --corpus {params.corpus:q} \
            --labels {params.labels:q} \
            --reference {wildcards.reference:q} \
            --settings {params.given:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
