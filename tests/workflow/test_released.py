"""The target `released` in the graph of a run."""

from pathlib import Path

from released_files import write_biovil, write_biovil_t

from .conftest import Checkout, jobs_of


def test_it_plans_published_weights_and_no_training(checkout: Checkout, tmp_path: Path) -> None:
    weights = {
        name: {"path": str(write(tmp_path / name)), "geometry": "shorter128"}
        for name, write in (("biovil/biovil", write_biovil), ("biovil_t/biovil_t", write_biovil_t))
    }
    run = checkout.write("released.yaml", {"weights": weights, "datasets": {"radnli": None}})
    said = run.dry_run("released")
    jobs = [job for job in jobs_of(said) if job.output]
    assert {job.wildcards["model"] for job in jobs if job.rule == "import_weights"} == {*weights}
    assert not [job for job in jobs if job.rule.startswith(("pretrain", "initialise"))]
    evaluated = [job.wildcards for job in jobs if job.rule == "evaluate"]
    scored = {(wildcards["task"], wildcards["model"]) for wildcards in evaluated}
    assert ("biovil/zero_shot_classification", "biovil/biovil") in scored
    assert ("biovil_t/phrase_grounding_with_prior", "biovil_t/biovil_t") in scored
    assert {model for _, model in scored} == {*weights}
    (certificate,) = [job for job in jobs if job.rule == "make_certificate"]
    assert {f"results/benchmarks/{task}/{model}/seed0/metrics.json" for task, model in scored} <= {
        *certificate.input
    }
    assert "need datasets: {radnli: {root: FOLDER}}" in said
    assert "need weights: {biovil/cxr_bert_phase2: BiomedVLP-CXR-BERT-general}" in said
