"""Image features: every image of a cohort through a frozen model, once for all that start from them.

Inputs: a model with an image half, a cohort's samples, their pixel store.
Outputs: `<results>/features/<model>/seed<k>/<cohort>/`.
"""


rule extract_features:
    """Encode the images of a cohort with a model."""
    input:
        code=source("benchmarks.features"),
        model="<results>/models/{model}/seed{seed}/run.json",
        cohort="<results>/cohorts/{cohort}/samples.parquet",
        pixels=lambda wildcards: cohort_pixels(wildcards.cohort),
    output:
        features="<results>/features/{model}/seed{seed}/{cohort}/features.safetensors",
        index="<results>/features/{model}/seed{seed}/{cohort}/index.parquet",
        source="<results>/features/{model}/seed{seed}/{cohort}/features.json",
    log:
        "<logs>/extract_features/{model}.seed{seed}.{cohort}.log",
    benchmark:
        "<timings>/extract_features/{model}.seed{seed}.{cohort}.tsv"
    retries: need("extract_features").retries
    conda:
        "../envs/gpu.yaml"
    threads: need("extract_features").threads
    resources:
        mem_mb=need("extract_features").mem_mb,
        runtime=need("extract_features").runtime,
        gpu=need("extract_features").gpu,
    params:
        settings=as_json(run.benchmarks.features.model_dump(mode="json")),
        model=subpath(input.model, parent=True),
        cohort=subpath(input.cohort, parent=True),
        pixels=subpath(input.pixels, parent=True),
        folder=subpath(output.features, parent=True),
    shell:
        r"""
        python -m cxrflow.benchmarks.features \
            --model {params.model:q} \
            --cohort {params.cohort:q} \
            --pixels {params.pixels:q} \
            --settings {params.settings:q} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
