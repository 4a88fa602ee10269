"""Models that are imported instead of trained, in the graph and on the page."""

import pytest

from released_files import write_biovil, write_cxr_bert


def planned(checkout, weights, *targets):
    name = checkout.write("weights.yaml", {"weights": weights})
    return type(checkout)(checkout.folder, (name,)).planned(*targets)


def test_an_imported_text_model_is_not_trained(checkout, tmp_path):
    write_cxr_bert(tmp_path / "released")
    before = checkout.planned("biovil")
    after = planned(checkout, {"cxr_bert": str(tmp_path / "released")}, "biovil")
    assert after["import_text"] == 1
    assert after["pretrain_text"] == before["pretrain_text"] - 1
    assert after["pretrain_joint"] == before["pretrain_joint"]


def test_phase_three_goes_on_from_an_imported_phase_two(checkout, tmp_path):
    write_cxr_bert(tmp_path / "released")
    target = "results/models/cxr_bert/seed0/run.json"
    after = planned(checkout, {"cxr_bert_phase2": str(tmp_path / "released")}, target)
    assert after["import_text"] == after["pretrain_text"] == 1
    # Neither our vocabulary nor the corpora that are cut with it are of use to it.
    assert not {"build_vocabulary", "tokenise_documents"} & after.keys()
    assert "import_text" not in checkout.planned(target)


def test_biovil_is_scored_without_any_training(checkout, tmp_path):
    write_biovil(tmp_path / "released")
    weights = {"biovil": {"path": str(tmp_path / "released"), "geometry": "shorter128"}}
    target = "results/benchmarks/phrase_grounding/biovil/seed0/metrics.json"
    after = planned(checkout, weights, target)
    assert after["import_joint"] == after["evaluate_phrase_grounding"] == 1
    assert not [rule for rule in after if rule.startswith("pretrain")]


def test_missing_weights_are_one_line(checkout):
    name = checkout.write("weights.yaml", {"weights": {"cxr_bert": "/nowhere"}})
    done = type(checkout)(checkout.folder, (name,)).snakemake("-n", "--cores", "2")
    assert done.returncode != 0 and "Traceback" not in done.stdout
    assert "weights.yaml: key 'weights.cxr_bert' is '/nowhere': no such folder" in done.stdout


@pytest.mark.slow
def test_an_import_runs_and_reruns_when_its_file_changes(checkout, tmp_path):
    folder = write_cxr_bert(tmp_path / "released")
    name = checkout.write("weights.yaml", {"weights": {"cxr_bert": str(folder)}})
    run = type(checkout)(checkout.folder, (name,))
    target = "results/models/cxr_bert/seed0/run.json"
    done = run.snakemake("--cores", "1", target)
    assert done.returncode == 0, done.stdout
    made = checkout.folder / "results/models/cxr_bert/seed0"
    assert {"config.json", "model.safetensors", "vocab.txt"} <= {p.name for p in made.iterdir()}
    assert run.planned(target) == {}
    words = (folder / "vocab.txt").read_text()
    (folder / "vocab.txt").write_text(words.replace("edema", "oedema"))
    assert run.planned(target) == {"import_text": 1}
