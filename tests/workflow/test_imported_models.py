"""Models that are imported instead of trained, in the graph of a run."""

from collections import Counter
from pathlib import Path

import pytest

from released_files import write_biovil, write_cxr_bert

from .conftest import Checkout, models_of


def with_weights(checkout: Checkout, **weights: object) -> Checkout:
    values = {f"biovil/{model}": kept for model, kept in weights.items()}
    return checkout.write("weights.yaml", {"weights": values})


def test_an_imported_text_model_is_not_trained(checkout: Checkout, tmp_path: Path) -> None:
    imported = with_weights(checkout, cxr_bert=str(write_cxr_bert(tmp_path / "released")))
    jobs = imported.plan("biovil")
    assert Counter(job.rule for job in jobs)["import_weights"] == 1
    assert "biovil/biovil" in models_of(jobs) and "biovil/cxr_bert" not in models_of(jobs)


def test_phase_three_goes_on_from_an_imported_phase_two(checkout: Checkout, tmp_path: Path) -> None:
    imported = with_weights(checkout, cxr_bert_phase2=str(write_cxr_bert(tmp_path / "released")))
    planned = imported.planned("results/models/biovil/cxr_bert/seed0/run.json")
    assert planned["import_weights"] == planned["pretrain_text"] == 1
    # Neither our vocabulary nor the corpora that are cut with it are of use to it.
    assert not {"build_vocabulary", "tokenise_documents"} & planned.keys()


def test_biovil_is_scored_without_any_training(checkout: Checkout, tmp_path: Path) -> None:
    write_biovil(tmp_path / "released")
    weights = {"path": str(tmp_path / "released"), "geometry": "shorter128"}
    target = "results/benchmarks/biovil/phrase_grounding/biovil/biovil/seed0/metrics.json"
    planned = with_weights(checkout, biovil=weights).planned(target)
    assert planned["import_weights"] == planned["evaluate"] == 1
    assert not [rule for rule in planned if rule.startswith("pretrain")]


@pytest.mark.slow
def test_an_import_runs_and_reruns_when_its_file_changes(checkout, tmp_path):
    folder = write_cxr_bert(tmp_path / "released")
    run = with_weights(checkout, cxr_bert=str(folder))
    target = "results/models/biovil/cxr_bert/seed0/run.json"
    done = run.snakemake("--cores", "1", target)
    assert done.returncode == 0, done.stdout
    made = (checkout.folder / target).parent
    assert {"config.json", "model.safetensors", "vocab.txt"} <= {p.name for p in made.iterdir()}
    assert run.planned(target) == {}
    words = (folder / "vocab.txt").read_text()
    (folder / "vocab.txt").write_text(words.replace("edema", "oedema"))
    assert run.planned(target) == {"import_weights": 1}
