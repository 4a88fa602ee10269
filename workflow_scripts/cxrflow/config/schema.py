"""The keys of a configuration: data sets, sizes, resources and what may be shown."""

import os
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from cxr_files.settings import Seed, Settings
from cxr_hospital.settings import HospitalSettings
from cxrflow.benchmarks.settings import FeatureSettings, IntervalSettings
from cxrflow.config.parts import Dataset, LabelAgreement, Privacy, Rehearsal, Reports, Resources
from cxrflow.config.weights import Weights
from cxrflow.images.settings import PixelSettings, RegistrationSettings
from cxrflow.names import ShortName
from cxrflow.text.settings import CorpusSettings, TokensSettings

Overrides = dict[str, dict[str, Any]]
# Snakemake reads braces and angle brackets in it.
Folder = Annotated[str, StringConstraints(pattern=r"^[^{}<>]+$")]


class Values(Settings):
    """The keys of a configuration."""

    scale: str = Field("demo", description="sizes that papers give under this name; paper: theirs")
    extent: Literal["headline", "all"] = Field(
        "all", description="headline: the rows that each paper names so; all: every row"
    )
    seeds: list[Seed] | None = Field(
        [0],
        min_length=1,
        description="null: of each paper as many, from 0, as its authors made runs at this scale",
    )
    runs: dict[ShortName, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict, description="laid over the papers', and over `seeds`, by paper"
    )
    shared_models: Literal["once", "each"] = Field(
        "once", description="models whose recipe says `seeds: shared`: trained once, or once a seed"
    )
    papers: list[str] = Field(["biovil"], min_length=1, description="names, or paths of YAML files")
    datasets: dict[ShortName, Dataset | None]
    synthetic_hospital: HospitalSettings | None = HospitalSettings()
    reports: Reports = Reports()
    corpora: CorpusSettings = CorpusSettings()
    tokens: TokensSettings = TokensSettings()
    pixels: PixelSettings = PixelSettings()
    registration: RegistrationSettings = RegistrationSettings()
    features: FeatureSettings = FeatureSettings()
    label_agreement: LabelAgreement = LabelAgreement()
    paired_tests: IntervalSettings = IntervalSettings()
    cohorts: dict[str, dict[str, Any] | None] = Field(
        default_factory=dict, description="laid over the papers'; null leaves one out"
    )
    vocabularies: Overrides = Field(default_factory=dict, description="laid over the papers'")
    models: Overrides = Field(
        default_factory=dict, description="settings laid over the papers', and `geometry`"
    )
    tasks: Overrides = Field(default_factory=dict, description="settings laid over the papers'")
    weights: dict[str, Weights] = Field(default_factory=dict)
    leave_out: list[str] = Field(
        default_factory=list,
        description="papers, and `paper/name` of models, tasks and tables: the run goes without",
    )
    resources: dict[str, Resources] = Field(default_factory=dict)
    privacy: Privacy = Privacy()
    rehearsal: Rehearsal | None = Field(
        None, description="what `cxrflow rehearse` makes of this run; null: the run itself"
    )
    pathvars: dict[Literal["results"], Folder] = Field(default_factory=dict)

    @property
    def results(self) -> str:
        """The folder of all products: ``results``, unless ``pathvars`` moves it."""
        return os.path.normpath(os.path.expanduser(self.pathvars.get("results", "results")))
