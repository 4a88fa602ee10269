"""The published cells that need no training, and what a run lacks for them."""

import pytest
from config_overlays import real

from cxr_files.errors import InputError
from cxrflow.config.released import released_cells, released_notes, released_results

NAMED = ("biovil/biovil", "biovil/cxr_bert_phase2", "biovil_t/biovil_t")
SETS = (
    *("mimic_cxr", "mimic_cxr_jpg", "ms_cxr", "ms_cxr_t", "chest_imagenome", "rsna", "radnli"),
    *("mednli", "mimic_iii", "mimic_iv", "pubmed", "chexpert", "retrieval_8x200"),
)


def with_weights(*names, **more):
    return {"weights": dict.fromkeys(names, "/weights"), **more}


def place_of(cell):
    return cell.paper, cell.table, cell.row, cell.column


def test_what_published_weights_score_without_any_training(unrooted):
    config = unrooted(with_weights(*NAMED))
    results = set(released_results(config))
    biovil, temporal = "biovil/biovil", "biovil_t/biovil_t"
    assert results >= {
        *((f"biovil/{task}", biovil) for task in ("phrase_grounding", "zero_shot_classification",
          "segmentation", "linear_probe", "mask_prediction", "sentence_similarity")),
        *((f"biovil_t/phrase_grounding{own}", temporal) for own in ("", "_with_prior")),
        *((f"biovil_t/sentence_similarity{of}", model) for of in ("", "_radnli")
          for model in (biovil, temporal, "biovil/cxr_bert_phase2")),
        ("biovil/ms_cxr_statistics", None),
    }  # fmt: skip
    # Fine-tuning on MedNLI, heads of change, and vocabularies are trainings of ours.
    tasks = {task for task, _ in results}
    assert not tasks & {"biovil/natural_language_inference", "biovil/vocabulary"}
    assert not {task for task in tasks if task.startswith("biovil_t/temporal")}
    assert not any(
        config.models[name].trained for _, model in results if model
        for name in config.models[model].ancestors
    )  # fmt: skip


def test_a_cell_is_measured_only_where_all_is_there(unrooted):
    config = unrooted(with_weights("biovil/biovil", datasets={"rsna": None}))
    results = released_results(config)
    assert ("biovil/phrase_grounding", "biovil/biovil") in results
    assert not [task for task, _ in results if task == "biovil/zero_shot_classification"]
    auroc = ("biovil", "table6", "BioViL, zero-shot", "auroc")
    lacks = [cell.lacks for cell in released_cells(config) if place_of(cell) == auroc]
    assert [lack.reason for lack in lacks[0]] == ["data set rsna"]
    note = released_notes(config)[0]
    assert "`weights: {biovil_t/biovil_t: BiomedVLP-BioViL-T}`" in note
    assert "`datasets: {rsna: {root: FOLDER}}`" in note


def test_weights_of_a_later_stage_and_with_a_new_head_are_judged_by_nothing(unrooted):
    """CXR-BERT-specialized in the place of CXR-BERT after phase III, say."""
    config = unrooted(with_weights("biovil/biovil", "biovil/cxr_bert", "biovil/simclr"))
    models = {model for _, model in released_results(config)}
    assert "biovil/biovil" in models and not models & {"biovil/cxr_bert", "biovil/simclr"}
    masks = ("biovil/mask_prediction", "biovil/clinical_bert")
    assert masks in released_results(unrooted(with_weights("biovil/clinical_bert")))
    new = {"biovil/clinical_bert": {"path": "/weights", "new_token_head": True}}
    assert masks not in released_results(
        unrooted({"weights": {**new, "biovil/biovil": "/weights"}})
    )


def test_a_model_made_of_weights_without_learning_counts(unrooted):
    config = unrooted(with_weights("convirt/imagenet_pretraining", papers=["convirt"]))
    assert released_results(config) == [("convirt/image_retrieval", "convirt/imagenet")]


def test_what_stands_in_the_place_of_a_data_set_is_not_it(unrooted):
    place = {"open_i": {"root": "/data/open_i", "in_place_of": "mimic_cxr"}}
    radnli = {"root": "/data/radnli", "layout": "radnli"}
    datasets = {**place, "radnli": radnli}
    config = unrooted(with_weights("biovil/biovil", datasets=datasets, papers=["biovil"]))
    results = released_results(config)
    assert ("biovil/sentence_similarity", "biovil/biovil") in results
    assert ("biovil/mask_prediction", "biovil/biovil") not in results
    assert "(mimic_cxr itself, in whose place open_i stands)" in released_notes(config)[0]


def test_drawn_data_are_judged_only_alone(unrooted):
    both = unrooted(with_weights(*NAMED, datasets=real("radnli")))
    assert {task for task, model in released_results(both) if model} == {
        "biovil/sentence_similarity", "biovil_t/sentence_similarity_radnli"
    }  # fmt: skip


def test_without_weights_the_error_names_the_lines(unrooted):
    with pytest.raises(InputError) as raised:
        released_results(unrooted({}))
    for line in (
        "biovil/biovil: BiomedVLP-CXR-BERT-specialized",
        "biovil/cxr_bert_phase2: BiomedVLP-CXR-BERT-general",
        "biovil_t/biovil_t: BiomedVLP-BioViL-T",
    ):
        assert str(raised.value).count(f"`weights: {{{line}}}` (microsoft on Hugging Face") == 1
    assert "biovil/cxr_bert:" not in str(raised.value) and "simclr" not in str(raised.value)


def test_at_the_papers_scale_nothing_but_the_data_is_said(unrooted):
    stanza = {"stanza_folder": "/s", "entities": {"stanza_folder": "/s"}}
    more = {"scale": "paper", "datasets": real(*SETS), "synthetic_hospital": None}
    notes = released_notes(
        unrooted(with_weights(*NAMED[:2], reports=stanza, papers=["biovil"], **more))
    )
    assert len(notes) == 1 and notes[0].count("need `weights:") == 2
    small = released_notes(unrooted(with_weights(*NAMED)))
    assert any("scale `demo`" in note for note in small)
    assert any("`stanza_folder`" in note for note in small)
