"""Terms of an objective: which a model has, what its settings hold, where their code is."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from small_programs import terms_program
from torch import Tensor

from cxr_files.errors import InputError
from cxr_files.settings import overlay
from cxrflow.pretrain.objective import Batch, Term, TermsProgram, Views
from cxrflow.pretrain.registry import TERMS, TRAINING_PROGRAMS
from cxrflow.pretrain.settings import (
    JointPretrainingSettings,
    ReportTrainingSettings,
    TextPretrainingSettings,
)
from cxrflow.pretrain.terms import term_class
from cxrflow.pretrain.terms.base_settings import NOTHING, Needs, TermSettings
from cxrflow.pretrain.terms.cutmix_settings import CutmixSettings
from cxrflow.pretrain.terms.settings import (
    JointTerms,
    MaskedLanguageSettings,
    StudyTerms,
    TextTerms,
)
from cxrflow.programs.source_code import PACKAGE, imported_by
from cxrflow.training.processes import ALONE
from cxrflow.training.samples import SampleTable

CUTMIX = "cxrflow.pretrain.terms.cutmix"
CONTROLS = get_args(get_args(CutmixSettings.model_fields["control"].annotation)[0])
BIOVIL = {"mlm": {"weight": 1.0}, "global_alignment": {"weight": 0.5}}
JOINT = {"training": {"batch_size": 4, "epochs": 1}, "augmentation": {}}
COMPILED = {"batch_size": 4, "epochs": 1, "compile": True}


def test_settings_hold_the_terms_that_are_named_and_no_others() -> None:
    settings = JointPretrainingSettings(**JOINT, terms=BIOVIL)
    dumped = settings.record()
    assert list(dumped["terms"]) == list(settings.terms.named()) == ["global_alignment", "mlm"]
    assert dumped["terms"]["global_alignment"]["temperature"] == 0.5
    assert JointPretrainingSettings.model_validate(dumped) == settings


def test_an_overlay_adds_changes_and_removes_terms() -> None:
    above = {"global_alignment": {"temperature": 0.1}, "local_alignment": {}, "mlm": None}
    terms = JointTerms.model_validate(overlay(BIOVIL, above))
    assert list(terms.named()) == ["global_alignment", "local_alignment"]
    assert terms.global_alignment is not None
    assert (terms.global_alignment.weight, terms.global_alignment.temperature) == (0.5, 0.1)


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        ({}, "names no term; expected one of global_alignment, local_alignment, mlm"),
        ({"mlm": None}, "names no term"),
        ({"classification": {}}, "unknown key"),
        ({"mlm": {"weight": 0}}, "greater than 0"),
    ],
)
def test_wrong_terms_are_refused(terms: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        JointTerms.model_validate(terms)


@pytest.mark.parametrize("change", [{"weight": 0.1}, {"forward": "shared"}])
def test_mlm_alone_has_nothing_to_be_balanced_with(change: dict[str, object]) -> None:
    assert TextTerms(mlm=change, section_matching={})
    with pytest.raises(ValidationError, match="balance MLM with section_matching"):
        TextTerms(mlm=change)


@pytest.mark.parametrize("name", ["mirrored_pairs", "pair_matching"])
def test_no_mask_tells_true_texts_from_false_ones(name: str) -> None:
    assert StudyTerms.model_validate({name: {}, "mlm": {}})
    assert StudyTerms.model_validate({"global_alignment": {}, "mlm": {"forward": "shared"}})
    said = f"mlm.forward is shared with {name}, .* expected mlm.forward: separate"
    with pytest.raises(ValidationError, match=said):
        StudyTerms.model_validate({name: {}, "mlm": {"forward": "shared"}})


def test_contrastive_terms_need_whole_batches() -> None:
    training = {"batch_size": 4, "epochs": 1, "accumulate": 2}
    assert TextPretrainingSettings(training=training, terms={"mlm": {}})
    for settings in (
        lambda: TextPretrainingSettings(training=training, terms={"section_matching": {}}),
        lambda: JointPretrainingSettings(**{**JOINT, "training": training}, terms=BIOVIL),
    ):
        with pytest.raises(ValidationError, match="expected 1: only packed corpora"):
            settings()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ghost_batch": 2}, "ghost_batch is 2; .* expected None"),
        (
            {"training": {**JOINT["training"], "compile": True}},
            "compile is True; .* expected False",
        ),
    ],
)
def test_a_report_decoder_with_prior_images_has_uneven_batches(change, said):
    settings = {**JOINT, "terms": {"report_likelihood": {}}, **change}
    with pytest.raises(ValidationError, match=said):
        ReportTrainingSettings.model_validate(settings)
    for without in ({"decoder": {"prior_image": False}}, {"image_rate": 0}):
        assert ReportTrainingSettings.model_validate(settings | without)


WRITTEN = {**JOINT, "terms": {"report_likelihood": {}}, "decoder": {"prior_image": False}}
CAPTIONS = {**WRITTEN, "decoder": {"kind": "captioning_lstm"}}


@pytest.mark.parametrize(
    ("program", "values", "monitors"),
    [
        ("joint", {**JOINT, "terms": BIOVIL}, ["loss", "mlm", "selection/auroc"]),
        ("text", {"terms": {"mlm": {}}}, ["loss", "mlm"]),
        ("joint", {**JOINT, "terms": {**BIOVIL, "cutmix": {"layer": 3}}}, ["selection/auroc"]),
        ("report", WRITTEN, ["loss", "report_likelihood", "bleu_2", "rouge_l"]),
        ("caption", CAPTIONS, ["cider", "cider_d"]),
    ],
)
def test_what_is_monitored_is_a_value_of_the_validation(program, values, monitors):
    def validated(monitor: str, **changes: object) -> None:
        training = {**JOINT["training"], "stopping": {"monitor": monitor}}
        TRAINING_PROGRAMS[program].settings.model_validate(
            {**values, "training": training, **changes}
        )

    for monitor in monitors:
        validated(monitor)
    for monitor in ("cidre", "cutmix"):  # in validation the term cutmix is none
        said = rf"stopping.monitor is '{monitor}'; expected one of loss"
        with pytest.raises(ValidationError, match=said):
            validated(monitor)
    if monitors[-1] in getattr(TRAINING_PROGRAMS[program].settings, "written", ()):
        said = (
            rf"monitor is '{monitors[-1]}', but written_validation is 0; expected one of loss, re"
        )
        with pytest.raises(ValidationError, match=said):
            validated(monitors[-1], written_validation=0)
        validated("loss", written_validation=0)


def kind_of(name: str) -> type[Term]:
    """The class of a term."""
    module = import_module(f"cxrflow.pretrain.terms.{name}")
    kind: type[Term] = getattr(module, name.title().replace("_", ""))
    return kind


def test_every_term_has_its_module_which_nobody_imports() -> None:
    assert all(issubclass(kind_of(name), Term) for name in TERMS)
    modules = {f"cxrflow.pretrain.terms.{name}" for name in TERMS}
    files = {path.stem for path in (PACKAGE / "pretrain/terms").glob("*.py")}
    controls = "cutmix_controls"  # built on the term, and found by name as well
    known = {*TERMS, controls, "__init__"}
    assert {name for name in files if not name.endswith("settings")} == known
    for path in PACKAGE.rglob("*.py"):
        read = imported_by(path, typing=True) - ({CUTMIX} if path.stem == controls else set())
        assert not modules & read, path
    found = {name: term_class("cutmix", CutmixSettings(control=name)) for name in CONTROLS}
    assert all(issubclass(term, kind_of("cutmix")) for term in found.values())
    assert len({*found.values(), term_class("cutmix", CutmixSettings())}) == len(CONTROLS) + 1
    with_control = JointTerms(cutmix=CutmixSettings(control=CONTROLS[0]))
    assert with_control.modules == [controls] and CUTMIX.endswith(JointTerms(cutmix={}).modules[0])


class Doubled(Term):
    """The sum of a view, and how often it was told of an update."""

    needs = Needs()
    compares = False
    updates = 0

    def loss(self, views: "Rows") -> Tensor:
        return 2 * views.values.sum()

    def after_update(self) -> None:
        self.updates += 1


def samples(train: int, validate: int) -> dict[str, SampleTable]:
    return {"train": SampleTable(range(train)), "validate": SampleTable(range(validate))}


class Rows(Views):
    """Counts how often it is computed."""

    computed = 0

    @property
    def values(self) -> Tensor:
        self.computed += 1
        return torch.from_numpy(self.batch.own).double()


def test_the_objective_is_the_weighted_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = {"mlm": {"weight": 0.25}, "section_matching": {"weight": 3.0}}
    program = terms_program(monkeypatch, samples(3, 0), dict.fromkeys(terms, Doubled), terms)
    assert list(program.modules) == ["text", "section_matching", "mlm"]
    losses = program.objective(Rows(Batch(np.array([1, 2, 3]), 0, 0, ALONE)))
    assert {name: float(value) for name, value in losses.terms.items()} == {
        "section_matching": 12,
        "mlm": 12,
    }
    assert (float(losses.total), losses.samples, losses.tokens) == (3 * 12 + 0.25 * 12, 3, 0)
    program.after_update()
    assert [term.updates for term in program.terms.values()] == [1, 1]


class Value(Term):
    """The mean of a view, whatever its settings read."""

    needs = Needs()
    compares = False

    def loss(self, views: "Rows") -> Tensor:
        return views.values.mean()


class ComparedValue(Value):
    """The same, as if it were of each sample beside the others of its batch."""

    compares = True


@pytest.mark.parametrize(
    ("kinds", "sizes"), [((Value, Value), [2, 3, 2]), ((Value, ComparedValue), [3, 3])]
)
def test_validation_is_on_every_sample_unless_a_term_compares_them(kinds, sizes, monkeypatch):
    named = dict(zip(("section_matching", "mlm"), kinds, strict=True))
    program = terms_program(monkeypatch, samples(3, 7), named, batch_size=3)
    seen: list[Batch] = []
    monkeypatch.setattr(program, "views", lambda split, batch: seen.append(batch) or Rows(batch))
    values = program.validate()
    assert sorted(len(batch.rows) for batch in seen) == sorted(sizes)
    assert values["mlm"] == pytest.approx(np.concatenate([batch.rows for batch in seen]).mean())


def test_samples_that_are_compared_in_a_batch_of_fewer_are_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def made(**kinds: type[Term]) -> TermsProgram:
        return terms_program(monkeypatch, samples(2, 7), kinds, batch_size=3)

    assert made(mlm=Value).sampler.rows(0, 0).shape == (2,)
    assert not caplog.messages
    assert made(mlm=Value, section_matching=ComparedValue).sampler.rows(0, 0).shape == (2,)
    assert "batch_size is 3, but only 2 training samples are left" in caplog.text


def test_every_term_says_whether_it_compares_samples_and_which_views_it_reads() -> None:
    """None inherits an answer: what compares is validated on whole batches."""
    for name in TERMS:
        kind = kind_of(name)
        assert isinstance(vars(kind).get("compares"), bool), name
        code = Path(inspect.getfile(kind)).read_text("utf-8")
        reads = set(re.findall(r"views\.(images|texts|masked)", code))
        assert bool(reads) == (TERMS[name].needs is not TermSettings.needs), name
        # Samples are compared where those of other processes are gathered, or keys of a queue.
        gathers = "batch.gather(" in code or "PairLosses(" in code
        assert not kind.compares or gathers, name


def test_needs_of_terms_are_joined() -> None:
    mlm = MaskedLanguageSettings()
    words, pooled = frozenset({"words"}), frozenset({"pooled"})
    needs = [mlm.needs, Needs(images=1, texts=("intact",), layers=4, parts=words)]
    needs += [Needs(images=2, parts=pooled), Needs(texts=("other", "intact"), parts=NOTHING)]
    joined = Needs(2, ("intact", "other"), 4, mlm.masking, parts=words | pooled)
    assert Needs.of_all(needs) == joined
    assert Needs.of_all([mlm.needs]).layers == 0  # no text is read intact


def test_a_text_that_a_program_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reader(Value):
        needs = Needs(texts=("pasted",))

    with pytest.raises(InputError, match="terms.mlm reads the text 'pasted', .* it has none"):
        terms_program(monkeypatch, samples(7, 7), {"mlm": Reader})
