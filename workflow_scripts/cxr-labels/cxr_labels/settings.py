"""Settings of report processing: sections, spelling, sentences and CheXpert labels."""

from typing import Literal, Self

from pydantic import Field, model_validator

from cxr_files.settings import Settings

SectionName = Literal[
    "findings",
    "impression",
    "comparison",
    "indication",
    "history",
    "examination",
    "technique",
    "recommendations",
    "notification",
    "addendum",
    "wet_read",
]


class SectionSettings(Settings):
    """How a report's text becomes sections."""

    headings: Literal["mimic_cxr", "any", "none"] | None = Field(
        None,
        description="what a heading looks like: mimic_cxr (a line break, one blank, capitals, a "
        "colon: that data set's own rules), any (a known name before a colon, in "
        "any case, flush left or not), none (a text is labelled whole). null: mimic_cxr in that "
        "layout, where no names are given, any elsewhere",
    )
    names: dict[SectionName, list[str]] = Field(
        {},
        description="a hospital's own headings by section, in any case, beside those that are "
        "known; for headings: any",
    )
    as_published: bool = Field(
        False,
        description="only the misspelt headings on MIMIC-CXR's list are read, not those one letter "
        "away from a known one, and its parser's slips are repeated: 'NDICATION' is the "
        "impression, and a last paragraph without text stands before a comparison with text",
    )
    max_characters: int = Field(
        200_000, ge=1, description="a longer report is counted as bad and skipped"
    )

    @model_validator(mode="after")
    def _names_are_read(self) -> Self:
        if self.names and self.headings not in (None, "any"):
            raise ValueError(f"names need headings: any, and headings are {self.headings!r}")
        return self


class LabellerSettings(Settings):
    """How labels are read off a report."""

    engine: Literal["scope", "chexbert"] = Field(
        "scope",
        description="what reads the labels: scope (phrases, cue words and their reach; no model), "
        "chexbert (that network, with weights of yours)",
    )
    chexbert: str | None = Field(
        None, description="engine chexbert: the weights, chexbert.pth or a folder that holds it"
    )
    text: Literal["conclusion", "findings_and_impression"] | None = Field(
        None,
        description="what is labelled: the conclusion text that MIMIC-CXR-JPG labelled "
        "(impression, else findings, else last paragraph, else comparison), or both sections; "
        "null: the conclusion of mimic_cxr, both sections elsewhere, as Open-I's indexers read",
    )
    least_known: float = Field(
        0.35,
        ge=0,
        le=1,
        description="a text with a smaller share of English words, among those that no other "
        "language has as well, is not labelled; 0 labels everything",
    )


class ReportSettings(Settings):
    """Everything the report programs need."""

    splitter: Literal["rules", "lines", "stanza"] | None = Field(
        None,
        description="sentence splitter: rules (lines are wrapped, and joined again), lines (a line "
        "that starts a statement is one, without a stop above it too), stanza (needs --stanza, a "
        "local model folder); null: rules of mimic_cxr, lines elsewhere",
    )
    typo_list: str | None = Field(
        None,
        description="spelling corrections made before sectioning: a copy of the section_parser.py "
        "that BioViL-T points to, which is read and never run",
    )
    sections: SectionSettings = SectionSettings()
    labels: LabellerSettings = LabellerSettings()
    chunk: int = Field(500, ge=1, description="reports a worker takes at a time")
    max_failed_share: float = Field(
        0.05, ge=0, le=1, description="the program fails above this share of unusable reports"
    )

    @property
    def uses_torch(self) -> bool:
        """True if a network splits or labels."""
        return self.splitter == "stanza" or self.labels.engine == "chexbert"

    def of_layout(self, layout: str) -> "ReportSettings":
        """Fill in the headings, splitter and labelled text that depend on the layout."""
        mimic = layout == "mimic_cxr"
        text = self.labels.text or ("conclusion" if mimic else "findings_and_impression")
        headings = self.sections.headings or (
            "mimic_cxr" if mimic and not self.sections.names else "any"
        )
        filled = {
            "labels": self.labels.model_copy(update={"text": text}),
            "sections": self.sections.model_copy(update={"headings": headings}),
            "splitter": self.splitter or ("rules" if mimic else "lines"),
        }
        return self.model_copy(update=filled)
