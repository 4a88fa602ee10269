"""Settings of the measures of MedCutMix's pairs (Wang et al. 2026, section 2)."""

from typing import Annotated, Literal

from pydantic import Field

from cxr_files.settings import Seed
from cxrflow.benchmarks.settings import EncodingSettings, Section
from cxrflow.data.cohorts.settings import Split
from cxrflow.kinds import Reads
from cxrflow.pretrain.terms.cutmix_settings import CUTMIX_CLASSES


class MixedPairsSettings(EncodingSettings):
    """Pairs drawn and mixed as the term does it; what it does not say is in its settings."""

    split: Split | None = Field(
        default="train", description="images that are paired; the term pairs those of training"
    )
    sections: tuple[Section, ...] = Field(
        default=("impression", "findings"), min_length=1, description="of a report, in this order"
    )
    cleaned: bool = Field(
        default=True, description="sentences as MGCA's code cleans and cuts them; false: ours"
    )
    length: int = Field(
        default=112,
        ge=3,
        description="tokens of a text; sentences beyond are cut off, as MGCA does",
    )
    classes: tuple[str, ...] = Field(
        default=CUTMIX_CLASSES, min_length=1, description="of the cohort's labels"
    )
    pairs: int = Field(default=20, ge=1, description="of each class, at most")
    seed: Seed = Field(default=0, description="of the pairs")
    sentences: Annotated[
        Literal["name", "labeller"], Reads("labeller", "cxr_labels/rules/scope/*.yaml")
    ] = Field(
        default="name",
        description="diagnostic sentences: those with the class's name (Eq. 1), or, ours, those in "
        "which our labeller reads the finding as present",
    )
    first: bool = Field(default=False, description="the first of them alone; false: all")
    layers: int = Field(default=1, ge=1, description="last layers of BERT that are summed to words")
    region_temperature: float = Field(default=0.005, gt=0, description="tau_1 (section 3.1)")
    region: Literal["clip", "printed", "max", "mean"] = Field(
        default="clip", description="of the words' attention, as the term's"
    )
