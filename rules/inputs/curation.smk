"""What the rules of curation.smk read, and how it stands on their command lines."""


def curation_inputs(wildcards):
    """The model that curates a cohort, and what it chooses from."""
    curation = run.cohorts.curation(wildcards.cohort)
    model, candidates = run.models[curation.model], curation.candidates
    return {
        "model": f"<results>/models/{model.name}/seed{model.seeds[0]}/run.json",
        "cohort": f"<results>/cohorts/{candidates}/pairs.parquet",
        "pixels": f"<results>/pixels/{candidates}/{model.geometry}/store.json",
    }


def curation_settings(wildcards):
    """The margin, and how images are encoded everywhere."""
    margin = run.cohorts.curation(wildcards.cohort).margin
    return CurationSettings(**run.values.features.model_dump(), margin=margin)
