"""What the rules of import_weights.smk read, and how it stands on their command lines."""


def published_weights(wildcards):
    """The files of an imported model's weights."""
    model = wildcards.model
    files = weights_files(run.values.weights[model], model, run.models[model].recipe.weights)
    return [str(path) for _, path, kind in files if kind == "file"]


def import_options(wildcards):
    """Which weights an imported model is made of."""
    kind = run.models[wildcards.model].recipe.weights
    weights, image = run.values.weights[wildcards.model].places(kind)
    return ["--kind", kind, "--weights", weights, *option("--image", *([image] if image else []))]
