"""Texts: report sets become sections, sentences, labels; text sets become documents.

Inputs: the data sets' own files (`datasets:`), for stanza's splitter and tagger folders of models.
Outputs: `<results>/corpus/<dataset>/`, `<results>/stanza/<name>/`.
"""

SPLITTER = stanza_models("splitter", "phantom")
TAGGER = stanza_models("tagger", "entities")


rule train_sentence_splitter:
    """Train a small stanza tokenizer on the synthetic hospital's text."""
    input:
        text="<results>/phantom/stanza_text/MANIFEST.json",
    output:
        resources="<results>/stanza/phantom/resources.json",
    log:
        "<logs>/train_sentence_splitter/phantom.log",
    benchmark:
        "<timings>/train_sentence_splitter/phantom.tsv"
    priority: dataset_priority("splitter")
    conda:
        "../envs/gpu.yaml"
    params:
        **settings_of(lambda wildcards: run.values.reports.sentence_splitter),
        code=lambda wildcards: code_digest("reports.train_sentence_splitter"),
        text=subpath(input.text, parent=True),
        folder=subpath(output.resources, parent=True),
    shell:
        r"""
        python -m cxrflow.reports.train_sentence_splitter \
            --text {params.text:q} \
            --settings {params.given:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule process_reports:
    """Parse reports into sections, split sentences, label findings (BioViL section 4.1)."""
    input:
        data=lambda wildcards: data_of(["reports"], wildcards.dataset),
        stanza=SPLITTER[0] if run.values.reports.splitter == "stanza" else [],
        typos=[run.values.reports.typo_list] if run.values.reports.typo_list else [],
    output:
        sections="<results>/corpus/{dataset}/sections.parquet",
        sentences="<results>/corpus/{dataset}/sentences.parquet",
        labels="<results>/corpus/{dataset}/labels.parquet",
        documents="<results>/corpus/{dataset}/documents.parquet",
        counts="<results>/corpus/{dataset}/corpus.json",
    log:
        "<logs>/process_reports/{dataset}.log",
    benchmark:
        "<timings>/process_reports/{dataset}.tsv"
    wildcard_constraints:
        dataset=one_of(name for name in run.datasets if run.data.layout(name).reports),
    priority: lambda wildcards: dataset_priority(wildcards.dataset)
    conda:
        "../envs/gpu.yaml"
    params:
        **settings_of(lambda wildcards: run.values.reports.settings()),
        code=lambda wildcards: code_digest(
            "reports.corpus",
            "cxr_labels/rules/*.yaml",
            "cxr_labels/rules/mimic_cxr/*.yaml",
            "cxr_labels/rules/scope/*.yaml",
            *readers("reports", wildcards.dataset),
        ),
        layout=lambda wildcards: layout(wildcards.dataset),
        root=lambda wildcards: root(wildcards.dataset),
        stanza=["--stanza", SPLITTER[1]] if run.values.reports.splitter == "stanza" else [],
        folder=subpath(output.counts, parent=True),
    shell:
        r"""
        python -m cxrflow.reports.corpus \
            --layout {params.layout:q} \
            --root {params.root:q} \
            --settings {params.given:q} \
            {params.stanza:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule train_entity_tagger:
    """Train a small stanza entity tagger on the synthetic hospital's tagged sentences."""
    input:
        text="<results>/phantom/stanza_entities/MANIFEST.json",
        tokenizer="<results>/stanza/phantom/resources.json",
    output:
        resources="<results>/stanza/entities/resources.json",
        scores="<results>/stanza/entities/tagger.json",
    log:
        "<logs>/train_entity_tagger/entities.log",
    benchmark:
        "<timings>/train_entity_tagger/entities.tsv"
    conda:
        "../envs/gpu.yaml"
    params:
        **settings_of(lambda wildcards: run.values.reports.entities.training),
        code=lambda wildcards: code_digest("reports.train_entity_tagger"),
        text=subpath(input.text, parent=True),
        tokenizer=subpath(input.tokenizer, parent=True),
        folder=subpath(output.resources, parent=True),
    shell:
        r"""
        python -m cxrflow.reports.train_entity_tagger \
            --text {params.text:q} \
            --tokenizer {params.tokenizer:q} \
            --settings {params.given:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """


rule collect_text:
    """Read the documents of a text corpus (PubMed abstracts, MIMIC-III notes)."""
    input:
        data=lambda wildcards: data_of(["documents"], wildcards.dataset),
    output:
        documents="<results>/corpus/{dataset}/documents.parquet",
        counts="<results>/corpus/{dataset}/corpus.json",
    log:
        "<logs>/collect_text/{dataset}.log",
    benchmark:
        "<timings>/collect_text/{dataset}.tsv"
    wildcard_constraints:
        dataset=one_of(name for name in run.datasets if run.data.layout(name).documents),
    priority: lambda wildcards: dataset_priority(wildcards.dataset)
    conda:
        "../envs/cpu.yaml"
    params:
        **settings_of(lambda wildcards: run.values.corpora),
        code=lambda wildcards: code_digest("text.corpus", *readers("documents", wildcards.dataset)),
        layout=lambda wildcards: layout(wildcards.dataset),
        root=lambda wildcards: root(wildcards.dataset),
        folder=subpath(output.counts, parent=True),
    shell:
        r"""
        python -m cxrflow.text.corpus \
            --layout {params.layout:q} \
            --root {params.root:q} \
            --settings {params.given:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
