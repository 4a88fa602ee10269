"""CXR-BERT phase I: a WordPiece vocabulary made for the domain (BioViL section 2.1).

Inputs: documents of corpora and reports. Outputs: `<results>/vocabulary/<name>/`.
"""


rule build_vocabulary:
    """Make a WordPiece vocabulary."""
    input:
        code=source("text.vocabulary"),
        documents=lambda wildcards: [
            documents(d) for d in run.vocabulary_datasets(wildcards.vocabulary)
        ],
    output:
        vocabulary="<results>/vocabulary/{vocabulary}/vocab.txt",
        tokenizer="<results>/vocabulary/{vocabulary}/tokenizer.json",
        record="<results>/vocabulary/{vocabulary}/vocabulary.json",
    log:
        "<logs>/build_vocabulary/{vocabulary}.log",
    benchmark:
        "<timings>/build_vocabulary/{vocabulary}.tsv"
    retries: need("build_vocabulary").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("build_vocabulary").threads
    resources:
        mem_mb=need("build_vocabulary").mem_mb,
        runtime=need("build_vocabulary").runtime,
    params:
        settings=lambda wildcards: as_json(run.vocabularies[wildcards.vocabulary].settings()),
        folder=subpath(output.record, parent=True),
    shell:
        r"""
        python -m cxrflow.text.vocabulary \
            --documents {input.documents:q} \
            --settings {params.settings:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
