"""The training programs: one entry each, which says all that the rest of the package asks of it.

Light: the configuration reads it in every job. The program ``joint`` is the module
``cxrflow.pretrain.joint``, which runs only where it is called by that name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cxr_files.settings import Settings, from_record
from cxrflow.encoders.released.settings import publication
from cxrflow.kinds import is_outside
from cxrflow.pretrain.settings import (
    CaptionTrainingSettings,
    ImagePretrainingSettings,
    ImageReportSettings,
    InitialSettings,
    JointPretrainingSettings,
    ReportTrainingSettings,
    SentencePairSettings,
    StudyPretrainingSettings,
    SupervisedSettings,
    TemporalPretrainingSettings,
    TextPretrainingSettings,
)
from cxrflow.pretrain.terms.base_settings import Needs, TermSettings


@dataclass(frozen=True)
class TrainingProgram:
    """A way to make a model.

    ``title``: what the page calls such a model.
    ``rule``: the rule of ``rules/pretrain.smk`` that runs it, one for each set of files: a text
    encoder (pretrain_text), an image encoder (pretrain_image, initialise), both (pretrain_joint),
    an image encoder and a decoder (pretrain_report).
    ``offers``: what a benchmark can ask of its models: encoders of images and of texts, both in one
    space (joint), frames, masked words that are guided by the image, a report of an image (which a
    decoder writes, and a joint space finds), a decoder. ``offers_with``: what more, by the term
    that trains it.
    ``requires``: keys of a recipe without which it cannot train (``a or b``: one of them).
    ``accepts``: keys that name what it starts from or reads. ``start``, ``text``, ``image`` and
    ``vocabulary`` reach it as options of these names, ``corpora`` as ``--tokens``, ``selection`` as
    the files and settings of its task, ``truth`` as the folder that holds it.
    ``published``: kinds of published weights (``encoders/released``) that stand for its models.
    ``learns``: its objective has terms and its models are trained, not only written.
    ``table``: the class below :mod:`cxrflow.pretrain` that reads its cohort's rows; ``cohorts``:
    the kinds of cohorts that have them.
    """

    settings: type[Settings]
    title: str
    rule: str
    offers: frozenset[str]
    requires: tuple[str, ...] = ()
    accepts: frozenset[str] = frozenset()
    offers_with: Mapping[str, frozenset[str]] = field(default_factory=dict)
    published: tuple[str, ...] = ()
    learns: bool = True
    table: str = "inputs:Pairs"
    cohorts: tuple[str, ...] = ("pairs",)

    @property
    def terms(self) -> dict[str, type[TermSettings]]:
        """The settings class of each term that its objective may have, by the term's name."""
        terms = self.settings.model_fields.get("terms")
        return {} if terms is None or terms.annotation is None else terms.annotation.classes()


TEXT, IMAGE = frozenset({"text"}), frozenset({"image"})
JOINT = TEXT | IMAGE | {"joint", "report"}
HALVES = frozenset({"text", "image"})  # of a recipe: the models that both encoders start from
# And a task that chooses the kept weights, and what the synthetic hospital knows of findings.
JOINTLY = HALVES | {"selection", "truth"}


def _of_pairs(
    settings: type[Settings], title: str, offers: frozenset[str] = JOINT, **entry: Any
) -> TrainingProgram:
    """A program of images and texts."""
    inputs = ("text", "cohort"), JOINTLY
    return TrainingProgram(settings, title, "pretrain_joint", offers, *inputs, **entry)


TRAINING_PROGRAMS = {
    "text": TrainingProgram(
        TextPretrainingSettings,
        "text encoder",
        "pretrain_text",
        TEXT,
        requires=("vocabulary or start",),
        accepts=frozenset({"vocabulary", "start", "corpora"}),
        published=("cxr_bert", "bert"),
    ),
    "sentence_pairs": TrainingProgram(
        SentencePairSettings,
        "text encoder, of sentence pairs",
        "pretrain_text",
        TEXT,
        requires=("start", "cohort"),
        accepts=frozenset({"start"}),
        table="labelled_sentences:LabelledSentences",
        cohorts=("nli",),
    ),
    "initial": TrainingProgram(
        InitialSettings,
        "image encoder before training",
        "initialise",
        IMAGE,
        accepts=frozenset({"image"}),
        learns=False,
    ),
    "supervised": TrainingProgram(
        SupervisedSettings,
        "image encoder, of labels",
        "pretrain_image",
        IMAGE,
        requires=("cohort",),
        accepts=frozenset({"image"}),
        table="image_classes:LabelledSamples",
        cohorts=("classification", "pairs"),
    ),
    "image": TrainingProgram(
        ImagePretrainingSettings,
        "image encoder",
        "pretrain_image",
        IMAGE,
        requires=("cohort",),
        accepts=frozenset({"image"}),
        published=("biovil_image", "imagenet_resnet", "deit"),
    ),
    "joint": _of_pairs(
        JointPretrainingSettings,
        "image and text",
        published=("biovil", "clip"),
        table="pairs.tables:PairTable",
    ),
    "studies": _of_pairs(
        StudyPretrainingSettings,
        "images and texts of studies",
        table="pairs.tables:StudyTable",
    ),
    "image_reports": _of_pairs(
        ImageReportSettings,
        "images and whole reports",
        published=("vit",),
        table="pairs.whole_reports:ReportTable",
    ),
    "temporal": _of_pairs(
        TemporalPretrainingSettings,
        "image with its prior, and text",
        JOINT | {"frames"},
        offers_with={"mlm": frozenset({"guided"})},
        published=("biovil_t",),
        table="pairs.tables:PriorTable",
    ),
    "report": TrainingProgram(
        ReportTrainingSettings,
        "report decoder",
        "pretrain_report",
        IMAGE | {"report", "decoder"},
        requires=("start", "cohort"),
        accepts=frozenset({"start"}),
    ),
    "caption": TrainingProgram(
        CaptionTrainingSettings,
        "captioning",
        "pretrain_report",
        IMAGE | {"report"},
        requires=("vocabulary", "cohort"),
        accepts=frozenset({"vocabulary", "image", "text"}),
    ),
}

#: The settings class of every term, by the term's name, which is the same in all programs.
TERMS = {
    name: kind for program in TRAINING_PROGRAMS.values() for name, kind in program.terms.items()
}


def recorded_needs(terms: Mapping[str, Any]) -> Needs:
    """What the terms of a ``run.json`` read together; of those from outside nothing is known."""
    known_terms = {
        name: values for name, values in terms.items() if name in TERMS and values is not None
    }
    settings = (from_record(TERMS[name], values, name) for name, values in known_terms.items())
    return Needs.of_all(each.needs for each in settings)


def program_of(published: str) -> str:
    """Return the program whose models published weights of a kind stand for."""
    if is_outside(published):
        return "joint" if "text" in publication(published).encoders else "image"
    return next(n for n, program in TRAINING_PROGRAMS.items() if published in program.published)
