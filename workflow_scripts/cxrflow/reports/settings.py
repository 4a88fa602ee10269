"""Settings of report processing: sections, spelling, sentences and CheXpert labels."""

from typing import Literal

from pydantic import Field

from cxrflow.command import Seed, Settings


class SectionSettings(Settings):
    """How a report's text becomes sections."""

    as_published: bool = Field(
        False,
        description="only the misspelt headings on MIMIC-CXR's list are read, not those one letter "
        "away from a known one, and its parser's slips are repeated: 'NDICATION' is the "
        "impression, and a last paragraph without text stands before a comparison with text",
    )
    max_characters: int = Field(
        200_000, ge=1, description="a longer report is counted as bad and skipped"
    )


class LabelSettings(Settings):
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


class ReportSettings(Settings):
    """Everything the report programs need."""

    splitter: Literal["rules", "stanza"] = Field(
        "rules", description="sentence splitter; stanza needs --stanza, a local model folder"
    )
    typo_list: str | None = Field(
        None,
        description="spelling corrections made before sectioning: a copy of the section_parser.py "
        "that BioViL-T points to, which is read and never run",
    )
    sections: SectionSettings = SectionSettings()
    labels: LabelSettings = LabelSettings()
    chunk: int = Field(500, ge=1, description="reports a worker takes at a time")
    max_failed_share: float = Field(
        0.05, ge=0, le=1, description="the program fails above this share of unusable reports"
    )

    @property
    def uses_torch(self) -> bool:
        """Whether a network splits or labels."""
        return self.splitter == "stanza" or self.labels.engine == "chexbert"

    def of_layout(self, layout: str) -> "ReportSettings":
        """The settings with what is labelled filled in, as the data set's layout says."""
        if self.labels.text is not None:
            return self
        text = "conclusion" if layout == "mimic_cxr" else "findings_and_impression"
        labels = self.labels.model_copy(update={"text": text})
        return self.model_copy(update={"labels": labels})


class SentenceSplitterSettings(Settings):
    """Training of the small stanza tokenizer that stands in for the published one."""

    steps: int = Field(200, ge=1, description="optimiser steps")
    batch_size: int = Field(8, ge=1, description="paragraph chunks a step")
    hidden_size: int = Field(32, ge=1, description="width of the tokenizer's LSTM")
    embedding_size: int = Field(16, ge=1, description="width of the character embedding")
    seed: Seed = 1234
