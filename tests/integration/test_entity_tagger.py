"""A stanza entity tagger trained on synthetic reports in seconds, used as the published one is."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from cxr_files.errors import InputError
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.stanza_entities import write_stanza_entities
from cxr_hospital.writers.stanza_text import write_stanza_text
from cxrflow.benchmarks.generation.report_scores import Scorer
from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.metrics.entity_match import corpus_f1
from cxrflow.reports.entities.tagged_text import read_tagged
from cxrflow.reports.entities.taggers import StanzaTagger
from cxrflow.reports.settings import EntityTaggerSettings, SentenceSplitterSettings
from cxrflow.reports.train_entity_tagger import main, train
from cxrflow.reports.train_sentence_splitter import train as train_tokenizer

HOSPITAL = HospitalSettings(patients=4, splitter_reports=120)
STEPS = '{"steps": 150, "hidden_size": 48, "learning_rate": 0.01}'


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the tagged sentences, beside it the tokenizer's models."""
    folder = tmp_path_factory.mktemp("text")
    write_stanza_text(HOSPITAL, folder / "stanza_text")
    write_stanza_entities(HOSPITAL, folder / "stanza_entities")
    train_tokenizer(folder / "stanza_text", folder / "tokenizer", SentenceSplitterSettings())
    return folder / "stanza_entities"


@pytest.fixture(scope="module")
def stanza(text: Path) -> Path:
    """Folder of the trained models."""
    output = text.parent / "stanza" / "entities"
    given = {"--text": text, "--tokenizer": text.parent / "tokenizer", "--output": output}
    main([str(part) for pair in given.items() for part in pair] + ["--settings", STEPS])
    return output


@pytest.mark.slow
def test_the_trained_tagger_finds_entities_of_new_reports(text: Path, stanza: Path) -> None:
    about = json.loads((stanza / "tagger.json").read_text())
    assert about["synthetic"] is True and about["settings"]["steps"] == 150
    assert about["test"]["all"]["f1"] > 0.8
    assert b".partial" not in (stanza / "en/ner/radiology.pt").read_bytes()  # as it was written
    assert about["sentences"]["test"] == len(read_tagged(text / "test.bioes"))
    sentence = "There is a new small right pleural effusion."
    found, nothing = StanzaTagger(stanza).tag([f"  {sentence}\n\nThe lungs are clear.", " \n"])
    assert nothing == []
    here = {entity.text: entity for entity in found}
    assert here["effusion"].type == "OBSERVATION"
    assert here["lungs"].type == "ANATOMY"
    assert here["effusion"].start == 2 + sentence.index("effusion")
    assert all(e.end - e.start == len(e.text) for e in found)


@pytest.mark.slow
def test_scores_of_generated_reports(text: Path, stanza: Path) -> None:
    """The same reports match wholly; with other words of change TEM falls and NEM hardly."""
    scorer = Scorer(ReportGenerationSettings(), stanza)
    sentences = [one.text for one in read_tagged(text / "test.bioes")]
    references = [" ".join(sentences[i : i + 3]) for i in range(0, 60, 3)]
    references.append("New pleural effusion. Stable cardiomegaly.")
    changed = [report.replace("New", "Old").replace("table", "mall") for report in references]
    same, other = (scorer.columns(references, texts) for texts in (references, changed))
    everyone = np.ones(len(references))
    assert corpus_f1(same["tem"], everyone) == corpus_f1(same["nem"], everyone) == 1
    assert corpus_f1(other["tem"], everyone) < 1 and corpus_f1(other["nem"], everyone) > 0.9


@pytest.mark.slow
def test_model_folders_that_do_not_fit_are_named(text: Path, stanza: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="resources.json: not found"):
        StanzaTagger(tmp_path)
    with pytest.raises(InputError, match=r"en/ner/radiology.pt: not found"):
        StanzaTagger(text.parent / "tokenizer")
    shutil.copytree(stanza, tmp_path / "broken")
    broken = tmp_path / "broken" / "en" / "ner" / "radiology.pt"
    broken.write_bytes(b"no model")
    with pytest.raises(InputError, match="radiology.pt: cut off or not a file of weights"):
        StanzaTagger(tmp_path / "broken")
    torch.save({"another": torch.ones(1)}, broken)
    with pytest.raises(InputError, match="radiology.pt: stanza cannot load it"):
        StanzaTagger(tmp_path / "broken")


@pytest.mark.slow
def test_a_model_of_other_entities_is_refused(stanza, monkeypatch):
    monkeypatch.setattr("cxrflow.reports.entities.taggers.COUNTED", ("ANATOMY", "PROBLEM"))
    with pytest.raises(InputError, match="ANATOMY.*; expected PROBLEM too"):
        StanzaTagger(stanza)


def test_training_text_that_does_not_fit_is_refused(text: Path, tmp_path: Path) -> None:
    for name in ("train", "dev", "test"):
        shutil.copy(text / f"{name}.bioes", tmp_path)
    output = tmp_path / "out"
    with pytest.raises(InputError, match="en/tokenize/mimic.pt: not found"):
        train(tmp_path, tmp_path, output, EntityTaggerSettings())
    (tmp_path / "train.bioes").write_text("# text = A rib.\nA\tO\nrib\tS-ANATOMY\n.\tO\n")
    with pytest.raises(InputError, match="no entity of the type OBSERVATION, OBSERVATION_MOD"):
        train(tmp_path, text.parent / "tokenizer", output, EntityTaggerSettings())
    (tmp_path / "train.bioes").unlink()
    with pytest.raises(InputError, match="train.bioes: file not found"):
        train(tmp_path, text.parent / "tokenizer", output, EntityTaggerSettings())
    assert not output.exists()
