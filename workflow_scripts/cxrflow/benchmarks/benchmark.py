"""The description of a benchmark, as the registry holds it.

Nothing is computed here. The modules that it names are not imported here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cxr_files.settings import Settings
from cxrflow.data.cohorts.settings import CohortKind

# What a benchmark may need of a model.
NEEDS = (
    *("image", "text", "joint", "report", "decoder", "frames", "guided", "checkpoints", "run"),
)
# The options that name what a benchmark reads.
READ_BY = {
    "samples": {"cohort"},
    "pixels": {"cohort", "pixels"},
    "features": {"cohort", "features"},
    "vocabularies": {"cohort", "vocabulary"},
    "registration": {"cohort", "pixels", "registration"},
    "curation": {"curation"},
    "datasets": {"dataset", "root", "studies_layout", "studies_root"},
}

#: What a ceiling knows: the answers of a drawn data set; the state behind a drawn report; labels,
#: which a real data set has as well; what a second radiologist has read, which some have.
Knows = Literal["answers", "states", "labels", "second_readings"]


def rows(*floors: str, **ceilings: Knows) -> Any:
    """What an entry says of its rows without a model: floors, and what each ceiling knows."""
    return {"references": (*floors, *ceilings), "ceilings": ceilings}


@dataclass(frozen=True)
class Benchmark:
    """An entry: the inputs of a benchmark, and how its samples pair.

    ``program``: its module below ``cxrflow.benchmarks`` (:mod:`cxrflow.benchmarks.runner` says what
    it offers). ``kind``: of its cohort; None: any. ``needs``: what a model must offer (image, text,
    joint, report, decoder, frames, guided, checkpoints; run: that it was trained here); none: it is
    measured on the data themselves. ``reads``: beside the cohort's rows, or in their place
    (curation, data sets as published). ``split``: its cohort must have a part to train on and
    another to test on. ``training``: the kind of a second cohort, which it learns from.
    ``reports``: a task may name a cohort of pairs instead, whose reports say which of its texts a
    model has read, or what was written of a patient before.

    Rows of a table are tested against each other by ``statistic`` of the module of this name (the
    program's, where none is named; None: nothing is scored) on predictions.parquet. ``key``: the
    columns that name a sample; ``clusters`` (module:function): which samples are drawn together;
    ``own``: protocol that belongs to the model, and may differ between models that are compared.

    ``compares``: it compares images with texts, as the model's similarity does.

    ``of_training``: it measures what a training does with its data, and so may use what a model has
    learnt from.

    ``of_task``: it puts every checkpoint of a training to a task, whose benchmark and settings its
    own hold. ``demographics``: a task may name a data set that says who the patients are.

    ``resumes``: it trains, and takes a folder for the state of what is not finished.
    ``shows``: settings that draw pictures with images or report text in them, by what they show;
    where that may not be shown they have their defaults, which draw none.
    ``truth``: it takes what only the synthetic hospital knows of its images, and cannot do without
    (needed), or does more with it (used); findings: what the hospital knows of findings in images
    and reports, without which it cannot do (``finding_truth`` of the hospital).

    ``references``: names of rows without a model that are scored like models; the class
    ``baselines`` (module:class) of :mod:`cxrflow.benchmarks.rows` answers for them. ``ceilings``:
    those of them that must succeed, the first of all, and what each knows (:data:`Knows`). The
    others are the *floors*. ``no_rows``: why there are neither. ``external``: a file of predictions
    that were made elsewhere is scored, too.

    ``outside``: the class outside of the package, ``module:Class``, that is its program; then
    ``program``, ``clusters`` and ``baselines`` may be objects in the place of names, and
    ``metrics`` are those of the class.
    """

    program: Any
    settings: type[Settings]
    kind: CohortKind | None
    needs: frozenset[str] = frozenset()
    reads: Literal[
        "samples", "pixels", "features", "registration", "vocabularies", "datasets", "curation"
    ] = "samples"
    split: bool = False
    training: CohortKind | None = None
    reports: bool = False
    statistic: Any = ""
    key: tuple[str, ...] = ("sample_id",)
    clusters: Any = "result:patients"
    own: tuple[str, ...] = ()
    compares: bool = False
    of_training: bool = False
    of_task: bool = False
    demographics: bool = False
    resumes: bool = False
    shows: Mapping[str, Literal["images", "text"]] = field(default_factory=dict)
    truth: Literal["needed", "used", "findings"] | None = None
    references: Sequence[str] = ()
    ceilings: Mapping[str, Knows] = field(default_factory=dict)
    no_rows: str = ""
    baselines: Any = ""
    external: bool = False
    metrics: tuple[str, ...] = ()
    outside: str = ""

    def code(self, place: Any) -> str:
        """What `code_digest` takes for the module of a program or class of this entry."""
        is_name = isinstance(place, str)
        return f"benchmarks.{place.partition(':')[0]}" if is_name else self.outside

    @property
    def floors(self) -> tuple[str, ...]:
        """The rows that a model should be above."""
        return tuple(name for name in self.references if name not in self.ceilings)

    @property
    def of_states(self) -> frozenset[str]:
        """The rows that read the states that the hospital drew."""
        return frozenset(name for name, knowledge in self.ceilings.items() if knowledge == "states")

    @property
    def images(self) -> bool:
        """True if it reads images, as pixels or as features of a model."""
        return bool({"pixels", "features"} & READ_BY[self.reads])

    @property
    def statistic_module(self) -> Any:
        """The module of the statistic by which rows are compared; None where nothing is scored."""
        return (
            (self.statistic or self.program) if self.needs and self.statistic is not None else None
        )

    def inputs(
        self, settings: Settings, without_model: bool = False, reads_states: bool = False
    ) -> set[str]:
        """Return the options of ``cxrflow evaluate`` that name what is read: cohort, pixels, …

        A reference row and a table from elsewhere have no model: of images they read the pixels.
        """
        read = READ_BY[self.reads]
        if without_model:
            read = {"cohort"} if self.reads == "samples" else {"cohort", "pixels"}
        more = {
            "model": bool(self.needs) and not without_model,
            "pixels": getattr(settings, "augmentation", None) is not None,
            "registration": getattr(settings, "registered", False) and not without_model,
            "stanza": getattr(settings, "tagger", None) == "stanza",
            "training": self.training is not None,
            "state": self.resumes and not without_model,
            "truth": self.truth in ("needed", "findings") or reads_states,
        }
        return read | {name for name, needed in more.items() if needed}

    def files(self, settings: Settings, without_model: bool, reads_states: bool) -> set[str]:
        """Return all that name what is read, if it exists included."""
        return self.inputs(settings, without_model, reads_states) | self.optional_inputs()

    def optional_inputs(self) -> set[str]:
        """Return the options that name inputs which are read only if they exist."""
        more = {
            "training": self.reports,
            "truth": self.truth == "used",
            "demographics": self.demographics,
        }
        return {name for name, is_read in more.items() if is_read}
