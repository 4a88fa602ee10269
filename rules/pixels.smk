"""Pixel stores: each needed image decoded and resized once, as memory-mapped 8-bit shards.

Inputs: the images of a cohort. A store a cohort and geometry, so that another cohort, of another
paper perhaps, changes nothing for who reads it. Outputs: `<results>/pixels/<paper>/<cohort>/<geometry>/`.
Shards are not declared: a store that was interrupted goes on with the shards it has. So does the
registration of prior images, `<results>/registration/<paper>/<cohort>/<geometry>/`.
"""


rule store_pixels:
    """Decode and resize the images of a cohort."""
    input:
        data=lambda wildcards: marker(*run.cohorts[wildcards.cohort].holders),
        images="<results>/cohorts/{cohort}/images.parquet",
    output:
        index="<results>/pixels/{cohort}/{geometry}/index.parquet",
        store="<results>/pixels/{cohort}/{geometry}/store.json",
    log:
        "<logs>/store_pixels/{cohort}.{geometry}.log",
    benchmark:
        "<timings>/store_pixels/{cohort}.{geometry}.tsv"
    priority: cohort_priority
    conda:
        "../envs/cpu.yaml"
    params:
        **settings_of(lambda wildcards: run.cohorts.pixels(wildcards.cohort)),
        code=lambda wildcards: code_digest("images.store"),
        root=lambda wildcards: common_root(*map(root, run.cohorts[wildcards.cohort].holders)),
        folder=subpath(output.store, parent=True),
    shell:
        r"""
        python -m cxrflow.images.store_pixels \
            --root {params.root:q} \
            --images {input.images:q} \
            --geometry {wildcards.geometry:q} \
            --settings {params.given:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >>{log:q} 2>&1
        """


rule register_pairs:
    """Align the prior images of a cohort with the current ones (BioViL-T F.7)."""
    input:
        cohort=lambda wildcards: cohort_table(wildcards.cohort),
        pixels="<results>/pixels/{cohort}/{geometry}/store.json",
    output:
        alignments="<results>/registration/{cohort}/{geometry}/alignments.parquet",
        registration="<results>/registration/{cohort}/{geometry}/registration.json",
    log:
        "<logs>/register_pairs/{cohort}.{geometry}.log",
    benchmark:
        "<timings>/register_pairs/{cohort}.{geometry}.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        **settings_of(lambda wildcards: run.values.registration),
        code=lambda wildcards: code_digest("images.alignments"),
        pixels=subpath(input.pixels, parent=True),
        folder=subpath(output.registration, parent=True),
    shell:
        r"""
        python -m cxrflow.images.register_pairs \
            --pairs {input.cohort:q} \
            --pixels {params.pixels:q} \
            --settings {params.given:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >>{log:q} 2>&1
        """
