"""Published weights in the place of a training (BioViL section 2; docs/weights.md).

Inputs: the files of the weights.
Outputs: `<results>/models/<paper>/<model>/seed<k>/`, as the training in whose place it stands, without
`metrics.jsonl`; written whole, so that run.json stands for all of it. Which models are imported
`weights:` says; their trainings are no rules then.
"""


include: "inputs/import_weights.smk"


rule import_weights:
    """Make a model folder of published weights."""
    input:
        weights=published_weights,
    output:
        run="<results>/models/{model}/seed{seed}/run.json",
    log:
        "<logs>/import_weights/{model}.seed{seed}.log",
    benchmark:
        "<timings>/import_weights/{model}.seed{seed}.tsv"
    wildcard_constraints:
        model=one_of(name for name in run.whole.models if run.models[name].imported),
    conda:
        "../envs/cpu.yaml"
    params:
        **settings_of(lambda wildcards: run.models[wildcards.model].settings),
        code=lambda wildcards: code_digest("pretrain.imported", *run.models[wildcards.model].parts),
        weights=import_options,
        folder=subpath(output.run, parent=True),
    shell:
        r"""
        python -m cxrflow.pretrain.imported \
            --settings {params.given:q} \
            {params.weights:q} \
            --model {wildcards.model:q} \
            --seed {wildcards.seed} \
            --output {params.folder:q} \
            >{log:q} 2>&1
        """
