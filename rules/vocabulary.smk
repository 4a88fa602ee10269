"""CXR-BERT phase I: a WordPiece vocabulary made for the domain, and documents cut with it.

Inputs: documents of corpora and reports (BioViL section 2.1).
Outputs: `<results>/vocabulary/<paper>/<name>/`, `<results>/tokens/<paper>/<name>/<dataset>/`.
"""


rule build_vocabulary:
    """Make a WordPiece vocabulary."""
    input:
        documents=lambda wildcards: [
            documents(dataset, paper_of(wildcards.vocabulary))
            for dataset in run.texts.datasets(wildcards.vocabulary)
        ],
    output:
        vocabulary="<results>/vocabulary/{vocabulary}/vocab.txt",
        tokenizer="<results>/vocabulary/{vocabulary}/tokenizer.json",
        record="<results>/vocabulary/{vocabulary}/vocabulary.json",
    log:
        "<logs>/build_vocabulary/{vocabulary}.log",
    benchmark:
        "<timings>/build_vocabulary/{vocabulary}.tsv"
    priority: vocabulary_priority
    conda:
        "../envs/cpu.yaml"
    params:
        **settings_of(lambda wildcards: run.texts.vocabularies[wildcards.vocabulary].settings()),
        code=lambda wildcards: code_digest("text.vocabulary"),
        folder=subpath(output.record, parent=True),
    shell:
        r"""
        python -m cxrflow.text.vocabulary \
            --documents {input.documents:q} \
            --settings {params.given:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule tokenise_documents:
    """Turn the documents of a data set into token ids, ready to be packed (phase II)."""
    input:
        documents=lambda wildcards: documents(wildcards.dataset, paper_of(wildcards.vocabulary)),
        vocabulary="<results>/vocabulary/{vocabulary}/vocabulary.json",
    output:
        tokens="<results>/tokens/{vocabulary}/{dataset}/tokens.npy",
        offsets="<results>/tokens/{vocabulary}/{dataset}/offsets.npy",
        record="<results>/tokens/{vocabulary}/{dataset}/tokens.json",
    log:
        "<logs>/tokenise_documents/{vocabulary}.{dataset}.log",
    benchmark:
        "<timings>/tokenise_documents/{vocabulary}.{dataset}.tsv"
    priority: vocabulary_priority
    conda:
        "../envs/cpu.yaml"
    params:
        **settings_of(lambda wildcards: run.values.tokens),
        code=lambda wildcards: code_digest("text.tokens"),
        vocabulary=subpath(input.vocabulary, parent=True),
        folder=subpath(output.record, parent=True),
    shell:
        r"""
        python -m cxrflow.text.tokens \
            --documents {input.documents:q} \
            --vocabulary {params.vocabulary:q} \
            --settings {params.given:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
