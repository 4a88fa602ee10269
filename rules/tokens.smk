"""Token files: documents as token ids, ready to be packed (CXR-BERT phase II).

Inputs: documents, a vocabulary. Outputs: `<results>/tokens/<vocabulary>/<dataset>/`.
"""


rule tokenise_documents:
    """Turn the documents of a data set into token ids."""
    input:
        code=source("text.tokens"),
        documents=lambda wildcards: documents(wildcards.dataset),
        vocabulary="<results>/vocabulary/{vocabulary}/vocabulary.json",
    output:
        tokens="<results>/tokens/{vocabulary}/{dataset}/tokens.npy",
        offsets="<results>/tokens/{vocabulary}/{dataset}/offsets.npy",
        record="<results>/tokens/{vocabulary}/{dataset}/tokens.json",
    log:
        "<logs>/tokenise_documents/{vocabulary}.{dataset}.log",
    benchmark:
        "<timings>/tokenise_documents/{vocabulary}.{dataset}.tsv"
    retries: need("tokenise_documents").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("tokenise_documents").threads
    resources:
        mem_mb=need("tokenise_documents").mem_mb,
        runtime=need("tokenise_documents").runtime,
    params:
        settings=as_json(run.tokens.model_dump(mode="json")),
        vocabulary=subpath(input.vocabulary, parent=True),
        folder=subpath(output.record, parent=True),
    shell:
        r"""
        python -m cxrflow.text.tokens \
            --documents {input.documents:q} \
            --vocabulary {params.vocabulary:q} \
            --settings {params.settings:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
