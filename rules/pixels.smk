"""Pixel stores: each needed image decoded and resized once, as memory-mapped 8-bit shards.

Inputs: the images of a cohort. A store a cohort and geometry, so that another cohort, of another
paper perhaps, changes nothing for who reads it. Outputs: `<results>/pixels/<paper>/<cohort>/<geometry>/`.
Shards are not declared: a store that was interrupted goes on with the shards it has.
"""


rule store_pixels:
    """Decode and resize the images of a cohort."""
    input:
        data=lambda wildcards: marker(run.known_cohorts[wildcards.cohort].holder),
        images="<results>/cohorts/{cohort}/images.parquet",
    output:
        index="<results>/pixels/{cohort}/{geometry}/index.parquet",
        store="<results>/pixels/{cohort}/{geometry}/store.json",
    log:
        "<logs>/store_pixels/{cohort}.{geometry}.log",
    benchmark:
        "<timings>/store_pixels/{cohort}.{geometry}.tsv"
    priority: 50
    retries: need("store_pixels").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("store_pixels").threads
    resources:
        **job("store_pixels"),
    params:
        code=code_digest("images.store"),
        root=lambda wildcards: root(run.known_cohorts[wildcards.cohort].holder),
        settings=as_json(run.pixels),
        folder=subpath(output.store, parent=True),
    shell:
        r"""
        python -m cxrflow.images.store_pixels \
            --root {params.root:q} \
            --images {input.images:q} \
            --geometry {wildcards.geometry:q} \
            --settings {params.settings:q} \
            --threads {threads} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
