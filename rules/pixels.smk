"""Pixel stores: each needed image decoded and resized once, as memory-mapped 8-bit shards.

Inputs: the images of every cohort in use that lie in the data set. A store a geometry.
Outputs: `<results>/pixels/<dataset>/<geometry>/`. Shards are not declared as outputs: a store that
was interrupted goes on with the shards it has.
"""


rule store_pixels:
    """Decode and resize the images of a data set."""
    input:
        data=lambda wildcards: marker(wildcards.dataset),
        images=lambda wildcards: [
            f"<results>/cohorts/{cohort}/images.parquet"
            for cohort in run.stores[wildcards.dataset, wildcards.geometry]
        ],
    output:
        index="<results>/pixels/{dataset}/{geometry}/index.parquet",
        store="<results>/pixels/{dataset}/{geometry}/store.json",
    log:
        "<logs>/store_pixels/{dataset}.{geometry}.log",
    benchmark:
        "<timings>/store_pixels/{dataset}.{geometry}.tsv"
    priority: 50
    retries: need("store_pixels").retries
    conda:
        "../envs/cpu.yaml"
    threads: need("store_pixels").threads
    resources:
        **job("store_pixels"),
    params:
        code=code_digest("images.store"),
        root=lambda wildcards: root(wildcards.dataset),
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
