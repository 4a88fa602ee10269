"""Settings of a cohort: which studies it keeps, which image stands for a study, and how it splits.

The defaults are BioViL's (§4.1: frontal views, IMPRESSION present, evaluation patients held out).
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import Field, field_validator, model_validator

from cxr_files.settings import Before, Seed, Settings

Split = Literal["train", "validate", "test"]
SPLITS = get_args(Split)
# What published split files call the three parts.
PART_NAMES = {"val": "validate", "valid": "validate", "dev": "validate", "validation": "validate"}
SplitMethod = Literal["auto", "patients", "folders", "official", "file", "ordered", "all"]
CohortKind = Literal["pairs", "grounding", "classification", "nli", "progression", "retrieval"]


#: A view that some lists say, and that is said of what is predicted to be AP or PA.
FRONTAL = "FRONTAL"

#: Windsor et al. 2023, Table 1; train is p12 to p19.
FOLDERS: dict[str, Split] = {"p10": "test", "p11": "validate"}


#: Of the patients of labelled images that no one has split; the test share is `test_share`'s.
LABELLED_SHARES: dict[str, float] = {"train": 0.7, "test": 0.3}

#: The methods of splitting that read a value.
READ_BY: dict[str, tuple[SplitMethod, ...]] = {
    "seed": ("patients", "ordered", "official"),
    "shares": ("patients",),
    "test_share": ("ordered",),
    "halve_test": ("ordered",),
    "parts": ("official", "ordered"),
}


class ValidationSettings(Settings):
    """The part of the publisher's training images that validates, as a count or a share."""

    unit: Literal["patients", "images"] = Field(
        "patients",
        description="what is drawn. patients: whole ones, in random order until they have the "
        "images wanted; images: one by one, so that a patient may both train and validate "
        "(ConVIRT, Appendix B)",
    )
    count: int | None = Field(None, ge=1, description="images wanted")
    share: float | None = Field(None, gt=0, lt=1, description="the same, of the training images")

    @model_validator(mode="after")
    def _one_size(self) -> "ValidationSettings":
        if (self.count is None) == (self.share is None):
            raise ValueError("expected either count or share")
        return self


class TrainingShare(NamedTuple):
    """The training rows whose number in [0, 1) is below ``share``, at least ``fewest``.

    ``subset``: of a seed; the numbers are turned by it, so that seeds have rows in common only
    where shares are large.
    """

    share: float = 1.0
    fewest: int = 1
    subset: int = 0


ALL = TrainingShare()


class SplitSettings(Settings):
    """How patients are assigned to train, validate and test."""

    method: SplitMethod = Field(
        "auto",
        description="patients: shuffle patients by seed and cut at `shares`; folders: by "
        "MIMIC-CXR's folders (`folders`); official: the data set's own split table; file: `file`; "
        "ordered: the GLoRIA/MGCA rule for RSNA (images sorted by id, shuffled by seed, "
        "`test_share` of them for testing); all: everything is test. auto: patients for pairs and "
        "progression, all for grounding, official for nli, whose files are its splits; for "
        "classification ordered for RSNA, else official where the data set has a split of its own, "
        "or patients; retrieval has all",
    )
    seed: Seed = Field(0, description="seed of the shuffle (patients, ordered)")
    shares: dict[str, float] = Field(
        default={"train": 0.87, "validate": 0.13, "test": 0.0},
        description="shares of the patients that are not held out; the default is BioViL's 146.7k "
        "training to 22.2k validation samples, tested on held-out patients alone",
    )
    folders: Annotated[dict[str, Split], Before(FOLDERS)] = Field(
        default=FOLDERS,
        min_length=1,
        description="method folders: parts of MIMIC-CXR's folders p10 to p19, which are the first "
        "two digits of the subject; those not named are train. The default is the low-data study's "
        "(Windsor et al. 2023, Table 1)",
    )
    file: Path | None = Field(
        None, description="CSV with subject_id and split (method file); a MIMIC split table will do"
    )
    test_share: float = Field(0.3, gt=0, lt=1, description="share for testing (method ordered)")
    halve_test: bool = Field(
        False,
        description="method ordered: half of the test share becomes validate (GLoRIA, MGCA: "
        "18,678 / 4,003 / 4,003 images); false keeps all of it as test (BioViL's 70/30: 8,006)",
    )
    validation: ValidationSettings | None = Field(
        None,
        description="kind classification, method official: what of the training part validates, by "
        "`seed`; null: what the data set's own split says",
    )
    parts: dict[str, Split] | None = Field(
        None,
        description="kinds pairs and classification, method official: what the publisher's parts "
        "become, by the publisher's names, as {train: train, valid: test}; method ordered: the "
        "same of those that are drawn, as {test: test}. Parts that are not named are left out. "
        "null: what they are called",
    )

    @field_validator("shares")
    @classmethod
    def _shares_sum_to_one(cls, shares: dict[str, float]) -> dict[str, float]:
        if set(shares) - set(SPLITS) or any(share < 0 for share in shares.values()):
            raise ValueError("expected shares ≥ 0 under the names train, validate, test")
        if abs(sum(shares.values()) - 1) > 1e-6:
            raise ValueError(f"shares must sum to 1, they sum to {sum(shares.values()):g}")
        return {name: shares.get(name, 0.0) for name in SPLITS}

    @field_validator("folders")
    @classmethod
    def _folders_are_of_two_digits(cls, folders: dict[str, Split]) -> dict[str, Split]:
        wrong = [name for name in folders if re.fullmatch(r"p\d\d", name) is None]
        if wrong:
            raise ValueError(f"'{wrong[0]}' is no folder; expected p and two digits, as p10")
        return folders

    @model_validator(mode="after")
    def _file_goes_with_its_method(self) -> "SplitSettings":
        if (self.method == "file") != (self.file is not None):
            raise ValueError("`file` and `method: file` go together")
        if self.validation is not None and self.method != "official":
            raise ValueError("validation is drawn from a training part of method official")
        if self.folders != FOLDERS and self.method != "folders":
            raise ValueError(
                f"`folders` is set, but method is {self.method}; expected method folders"
            )
        if self.parts is not None and self.method not in ("auto", *READ_BY["parts"]):
            raise ValueError("`parts` are the publisher's: expected method official, or ordered")
        return self


class CohortSettings(Settings):
    """Settings of ``cxrflow build_cohort``."""

    kind: CohortKind = Field(
        "pairs",
        description="pairs: a study's image and report; grounding: a phrase and its boxes; "
        "classification: an image and its labels; nli: a premise, a hypothesis, their relation; "
        "progression: two images of a patient and what became of a finding between them; "
        "retrieval: images to search, and images and texts to search by",
    )
    unit: Literal["study", "image"] = Field(
        "study",
        description="row of pairs.parquet. study: with the image that stands for it; image: each "
        "image of a study with the study's text (ConVIRT). Of a progression: one pair of images "
        "of two studies, or each that is labelled",
    )
    views: tuple[str, ...] | None = Field(
        ("AP", "PA", "AP SUPINE", FRONTAL),
        min_length=1,
        description="view positions that count as frontal, compared in upper case; a blank view "
        "does not. AP SUPINE occurs in covid_chestxray, FRONTAL in Open-I's projection list. "
        "null: every view, laterals too",
    )
    unsaid_views: Annotated[Literal["left_out", "predicted"], Before("left_out")] = Field(
        "left_out",
        description="kind pairs: images whose list says no view. predicted: a classifier that "
        "learns from the others says FRONTAL of some, which `views` must name; its errors on other "
        "patients stand in flow.json. left_out: they are not frontal",
    )
    require: tuple[Literal["image", "findings", "impression", "text"], ...] = Field(
        ("image", "impression"),
        description="what a study must have to be a row of pairs.parquet; text: either section",
    )
    fewest_tokens: int | None = Field(
        None,
        ge=2,
        description="kind pairs: words and marks that both sections of a study have at least "
        "(ConVIRT: 3); null: any text will do",
    )
    choose: Literal["random", "first", "preferred", "all"] = Field(
        "random",
        description="image of a study with several frontal ones. random: by seed and study "
        "(BioViL as BioViL-T describes it); first: first listed; preferred: by the order of "
        "`views`, then random; all: every one, each a sample (kind classification)",
    )
    seed: Seed = Field(0, description="seed of the image choice")
    acquisitions: Annotated[Literal["any", "single"], Before("any")] = Field(
        "any",
        description="single: pairs of studies with exactly one frontal image (BioViL-T 3.3, "
        "of which its model for curation learns)",
    )
    frontal: Annotated[bool, Before(False)] = Field(
        False,
        description="kind classification: of each study the image that a cohort of pairs has, by "
        "`views`, `choose` and `seed`, or with `choose: all` each frontal one; false: every image "
        "that is listed",
    )
    priors: Annotated[bool, Before(False)] = Field(
        False,
        description="grounding: each image with its patient's image before it, chosen by `choose` "
        "(BioViL-T Table 5). Pairs always have theirs",
    )
    directions: Annotated[Literal["three", "five"], Before("three")] = Field(
        "three",
        description="kind progression. three: improving, stable, worsening; a finding that is new "
        "is worsening, one that is resolved improving (BioViL-T Table F.3), and one with several "
        "directions has no label. five: new and resolved as well, and all that is said of a "
        "finding (CheXTemporal)",
    )
    share_unit: Literal["study", "patient"] | None = Field(
        None,
        description="column `share`: a hash in [0, 1) of `seed` and this, the same in every "
        "cohort; rows below 0.01 are a hundredth, and among those below 0.1. study: the low-data "
        "paper counts its 1 to 100 % in pairs (Figure 5); patient: a patient's studies stay "
        "together; null: no such column",
    )
    labels: Literal["reports", "published"] | None = Field(
        None,
        description="kind pairs: column `labels` of the study's 14 CheXpert observations. reports: "
        "those that our labeller reads in its report; published: the data set's own table "
        "(MIMIC-CXR-JPG); null: no such column",
    )
    splits: SplitSettings = SplitSettings()
    max_failed_share: float = Field(
        0.05,
        ge=0,
        le=1,
        description="damaged rows and unreadable or missing files are skipped and counted; above "
        "this share of a list the cohort fails",
    )

    @property
    def split_method(self) -> SplitMethod:
        """The method that ``auto`` stands for in this kind of cohort; see :meth:`split_as`."""
        if self.splits.method != "auto":
            return self.splits.method
        defaults: dict[str, SplitMethod] = {
            "pairs": "patients",
            "grounding": "all",
            "nli": "official",
            "progression": "patients",
        }
        return defaults.get(self.kind, "auto")

    def split_as(self, method: SplitMethod) -> Self:
        """The same, split by a data set's own method where labelled images name none.

        Raises:
            ValueError: a value is set that another method reads.
        """
        if self.split_method != "auto":
            return self
        split_values = self.splits.model_dump(include=self.splits.model_fields_set) | {
            "method": method
        }
        _require_read(self.splits, method, "this data set's labelled images")
        if method == "patients":
            split_values.setdefault("shares", LABELLED_SHARES)
        return self.model_copy(update={"splits": SplitSettings(**split_values)})

    @property
    def split_rule(self) -> tuple[object, ...] | None:
        """Values that determine the split, equal for equal splits.

        None if a patient may be in several parts.
        """
        of, method = self.splits, self.split_method
        # Of the images that the filters before it keep.
        filters = (self.views, self.choose, self.seed) if self.frontal else ()
        validation_rule = of.validation and (
            of.seed,
            *of.validation.model_dump().values(),
            *filters,
        )
        rules: dict[str, tuple[object, ...]] = {
            "patients": (method, of.seed, *of.shares.values()),
            "folders": (method, *sorted(of.folders.items())),
            "official": (method, of.parts and tuple(sorted(of.parts.items())), validation_rule),
            "file": (method, of.file),
        }
        return rules.get(method)

    @model_validator(mode="after")
    def _fields_fit_each_other(self) -> "CohortSettings":
        if self.unit == "image" and "image" not in self.require:
            raise ValueError("unit: image needs image in require")
        if self.choose == "preferred" and self.views is None:
            raise ValueError("choose: preferred needs views")
        if self.unsaid_views == "predicted" and FRONTAL not in (self.views or ()):
            raise ValueError(f"unsaid_views: predicted needs {FRONTAL} in views")
        if self.choose == "all" and self.kind != "classification":
            raise ValueError(
                f"choose of a cohort of kind {self.kind} is all: expected random, first or "
                "preferred"
            )
        for name, differs, neutral, kinds in (
            ("priors", self.priors, "false", ("grounding",)),
            ("frontal", self.frontal, "false", ("classification",)),
            ("acquisitions", self.acquisitions != "any", "any", ("pairs",)),
            ("unsaid_views", self.unsaid_views != "left_out", "left_out", ("pairs",)),
            ("directions", self.directions != "three", "three", ("progression",)),
            ("share_unit", self.share_unit, "null", ("pairs", "classification")),
            ("labels", self.labels, "null", ("pairs",)),
            ("splits.validation", self.splits.validation, "null", ("classification",)),
            ("splits.parts", self.splits.parts is not None, "null", ("pairs", "classification")),
        ):
            if differs and self.kind not in kinds:
                raise ValueError(f"{name} of a cohort of kind {self.kind}: expected {neutral}")
        # Where a method is named, what others read may stand beside it: it may be laid over them.
        if self.splits.method == "auto" != self.split_method:
            _require_read(self.splits, self.split_method, f"a cohort of kind {self.kind}")
        self._choices_are_made()
        if self.kind == "nli" and self.split_method != "official":
            raise ValueError("splits.method of a cohort of kind nli: expected official or auto")
        if self.kind == "progression":
            if self.split_method not in ("patients", "file"):
                raise ValueError("splits.method of a cohort of kind progression: expected patients")
            if self.splits.method == "patients" and self.splits.shares["test"] > 0:
                raise ValueError(
                    "splits.shares.test of a cohort of kind progression: expected 0, since what is "
                    "tested on is what people have labelled"
                )
        return self

    def _choices_are_made(self) -> None:
        """Refuse what says which images or texts are taken where none are chosen by it."""
        chooses, unless = {
            "pairs": (True, ""),
            "grounding": (self.priors, " without priors"),
            "classification": (self.frontal, " without frontal"),
            "progression": (self.unit == "study", " with unit: image"),
        }.get(self.kind, (False, ""))
        pairs = self.kind == "pairs"
        for name, read, where in (
            ("views", chooses, unless),
            ("choose", chooses, unless),
            ("unit", pairs or self.kind == "progression", ""),
            ("require", pairs, ""),
            ("fewest_tokens", pairs, ""),
        ):
            if not read and name in _differing(self):
                message = f"{name} of a cohort of kind {self.kind}{where}: expected its default"
                raise ValueError(message)

    @model_validator(mode="before")
    @classmethod
    def _all_of_a_retrieval_is_test(cls, values: Any) -> Any:
        if not isinstance(values, dict) or values.get("kind") != "retrieval":
            return values
        # As it is written, or whole as it was resolved.
        splits = SplitSettings.model_validate(values.get("splits") or {})
        if splits not in (SplitSettings(), SplitSettings(method="all")):
            raise ValueError("splits of a cohort of kind retrieval: expected method all alone")
        return {**values, "splits": {"method": "all"}}


class Sizes(Settings):
    """Sizes of a rehearsal's data: reports, or documents, of a set; rows of a part of a cohort."""

    reports: int
    samples: int
    training: dict[str, int] = Field({}, description="rows of the training part, by cohort")


def _require_read(splits: SplitSettings, method: SplitMethod, of: str) -> None:
    for name in sorted(_differing(splits) & set(READ_BY)):
        if method not in READ_BY[name]:
            raise ValueError(
                f"splits.{name} is set, but splits.method of {of} is {method} where none is named; "
                f"expected {' or '.join(READ_BY[name])}"
            )


def _differing(settings: Settings) -> set[str]:
    """The fields whose values are not their defaults."""
    fields = type(settings).model_fields
    return {name for name, field in fields.items() if getattr(settings, name) != field.default}
