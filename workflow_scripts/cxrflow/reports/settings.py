"""Settings of report processing: sections, spelling, sentences and CheXpert labels."""

from typing import Literal

from pydantic import Field

from cxrflow.command import Settings


class SectionSettings(Settings):
    """How a report's text becomes sections."""

    special_cases: str | None = Field(
        "published",
        description="the studies of mimic_cxr whose conclusion stands in an odd place: published "
        "(the 54 of MIMIC-CXR's parser), none, or a file: a CSV with study_id,section,start,end, "
        "or a copy of section_parser.py, which is read and never run",
    )
    heading_spelling: Literal["published", "nearest"] = Field(
        "nearest",
        description="misspelt headings that are read: published (those on MIMIC-CXR's list), "
        "nearest (also those one letter away from a known heading)",
    )
    published_ndication: bool = Field(
        False,
        description="repeat the published parser's slip of reading the heading 'NDICATION' as "
        "the impression instead of the indication",
    )
    published_empty_paragraph: bool = Field(
        False,
        description="repeat the published parser's slip of letting a last paragraph without text "
        "stand before a comparison with text",
    )
    notes_section: Literal["impression", "findings"] = Field(
        "impression", description="the section a text without headings counts as (covid_chestxray)"
    )
    max_characters: int = Field(
        200_000, ge=1, description="a longer report is counted as bad and skipped"
    )

    @property
    def special_cases_file(self) -> str | None:
        """The file that ``special_cases`` names, if it names one."""
        return None if self.special_cases in ("published", "none") else self.special_cases


class LabelSettings(Settings):
    """How labels are read off a report."""

    engine: Literal["scope", "dependency", "chexbert"] = Field(
        "scope",
        description="what reads the labels: scope (phrases, cue words and their reach; no model), "
        "dependency (the CheXpert labeller's published phrases and patterns on dependency "
        "graphs), chexbert (that network, with weights of yours)",
    )
    parser: str | None = Field(
        None,
        description="engine dependency: stanza model folder with tokenize, pos, lemma, depparse",
    )
    parses: str | None = Field(
        None,
        description="engine dependency: CoNLL-U file, or folder of them, in place of a parser",
    )
    chexbert: str | None = Field(
        None, description="engine chexbert: the weights, chexbert.pth or a folder that holds it"
    )
    alternatives: Literal["uncertain", "positive"] = Field(
        "uncertain",
        description="what 'A or B', 'A/B' and 'A versus B' say of both: uncertain, as in the "
        "CheXpert labeller, or positive, as human indexers of Open-I read them",
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
        None, description="CSV study_id,wrong,right: spelling corrections made before sectioning"
    )
    sections: SectionSettings = SectionSettings()
    labels: LabelSettings = LabelSettings()
    chunk: int = Field(500, ge=1, description="reports a worker takes at a time")
    max_failed_share: float = Field(
        0.05, ge=0, le=1, description="the program fails above this share of unusable reports"
    )

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
    seed: int = 1234
