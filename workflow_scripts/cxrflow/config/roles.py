"""Which cohort plays which part: the roles of a configuration, and what each kind is for."""

from pydantic import Field

from cxrflow.command import Settings


class Roles(Settings):
    """Which cohort plays which part in the models and benchmarks; null leaves the part out."""

    reports: str = Field(description="cohort of the report sections: CXR-BERT phases II and III")
    images: str | None = Field(None, description="cohort of image pretraining")
    pairs: str | None = Field(None, description="cohort of joint training")
    pairs_more: str | None = Field(None, description="the same with more training pairs")
    pairs_raw: str | None = Field(
        None, description="as many as pairs_more, images from DICOM files instead of JPGs"
    )
    corpora: list[str] = Field(default_factory=list, description="data sets of text, phases I, II")
    grounding: str | None = Field(None, description="cohort of phrase grounding")
    grounding_raw: str | None = Field(
        None, description="the same phrases, images from DICOM files: for models of pairs_raw"
    )
    classification: str | None = Field(None, description="cohort of classification")
    inference: str | None = Field(None, description="cohort of sentence pairs to test on (RadNLI)")
    inference_training: str | None = Field(None, description="and to fine-tune on (MedNLI)")
    demographics: str | None = Field(None, description="data set of MS-CXR's patients: mimic_iv")

    def cohorts(self, *roles: str) -> list[str]:
        """The cohorts that play these roles, each once."""
        named = (getattr(self, role) for role in roles)
        return list(dict.fromkeys(cohort for cohort in named if cohort is not None))


LEARNT_ROLES = ("reports", "images", "pairs", "pairs_more", "pairs_raw")
PICTURED_ROLES = (
    *("images", "pairs", "pairs_more", "pairs_raw"),
    *("grounding", "grounding_raw", "classification"),
)
COHORT_ROLES = ("reports", *PICTURED_ROLES, "inference", "inference_training")
