"""Settings of the synthetic hospital: its size, its variety, and its data sets.

Every share is a probability in [0, 1]. A patient depends on ``seed`` and its own index alone, so
a larger hospital holds the smaller one.
"""

from typing import Annotated, Literal

from pydantic import Field

from cxr_files.settings import Before, Seed, Settings

Share = Annotated[float, Field(ge=0, le=1)]  # a probability
FurtherFinding = Literal[
    "Enlarged Cardiomediastinum", "Pleural Other", "Emphysema", "Fibrosis", "Hernia"
]

#: The data sets that depend on a setting, by writer; all do on a setting that is not listed.
OF = {
    "ms_cxr_patient_share": ("ms_cxr",),
    "rsna_images": ("rsna",),
    "rsna_opacity_share": ("rsna",),
    "rsna_not_normal_share": ("rsna",),
    "abstracts": ("pubmed",),
    "mednli_pairs": ("mednli",),
    "radnli_pairs": ("radnli",),
    # Notes and RadNLI's pairs are of patients after those of the reports before them.
    "notes": ("mimic_iii", "radnli"),
    "splitter_reports": ("stanza_text", "stanza_entities", "mimic_iii", "radnli"),
}

# In a statement of its own: an entry above would count as code of every data set (source_files).
OF.update(covidx_shortcut=("covidx",), generic_pictures=("imagenet",))
OF.update(captioned_pictures=("captioned_pictures",), nih_patients=("nih",))
OF.update(rsna_mapping=("rsna",), padchest_patients=("padchest", "padchest_gr"))
OF.update(chexpert_test_patients=("chexpert",), finding_truth=("mimic_cxr",))
OF.update({name: (*OF[name], "nih") for name in ("rsna_images", "rsna_opacity_share")})
OF.update(rsna_not_normal_share=("rsna", "nih"))


class FollowedSettings(Settings):
    """Patients who are followed closely: those of MS-CXR-T, beside all others of the hospital.

    Each has several studies and findings whose progression MS-CXR-T asks for; more of their studies
    have a second frontal image, spoilt in more ways than other patients' (BioViL-T, Figure A.7).
    """

    patients: int = Field(
        250, ge=1, le=100_000, description="in the MIMIC-CXR copy, after the rest"
    )
    second_frontal_share: Share = Field(0.35, description="studies with a second frontal image")
    second_reading_share: Share = Field(
        0.3, description="labels that a second radiologist has read, blinded"
    )
    gold_share: Share = Field(0.04, description="other patients in Chest ImaGenome's gold data set")
    sentence_pairs: int = Field(
        361, ge=10, description="of MS-CXR-T, in the shares of BioViL-T Table C.2"
    )


class HospitalSettings(Settings):
    """Size and variety of the synthetic hospital; the defaults are the demo's."""

    seed: Seed = Field(2022, description="seed of everything the hospital holds")
    patients: int = Field(1750, ge=1, description="patients of the MIMIC-CXR copy")
    image_size: int = Field(256, ge=64, le=3072, description="pixels of an image's shorter side")

    # The course of a patient.
    several_studies_share: Share = Field(
        0.67, description="patients with two to five studies (BioViL-T: 67 %)"
    )
    no_pathology_share: Share = Field(
        0.34, description="first studies without any pathology (devices not counted)"
    )
    prevalence: Annotated[Literal["even", "long_tail"], Before("even")] = Field(
        "even",
        description="of findings: even (so that MS-CXR's eight classes are about as frequent), or "
        "long_tail, about as MIMIC-CXR's reports have them, from Lung Opacity to Pleural Other",
    )
    further_findings: dict[FurtherFinding, Share] | None = Field(
        None,
        description="further findings, each with the share of patients who get it at some time, "
        "beside all others, from a random stream of its own; null: none",
    )
    several_pathologies_share: Share = Field(
        0.36, description="first studies with two or three pathologies, never more"
    )
    device_share: Share = Field(
        0.13, description="first studies with a device, independent of the rest"
    )
    time_tie_share: Share = Field(0.01, description="studies at the very time of the one before")

    followed: FollowedSettings | None = Field(
        None, description="patients of MS-CXR-T; null: none, and neither it nor Chest ImaGenome"
    )

    # How images are acquired; never a function of the findings.
    ap_share: Share = Field(0.55, description="studies taken with a portable AP film")
    lateral_share: Share = Field(0.45, description="PA studies with a lateral view")
    lateral_only_share: Share = Field(0.03, description="studies whose only image is a lateral")
    second_frontal_share: Share = Field(0.10, description="studies with a second frontal image")
    blank_view_share: Share = Field(0.03, description="images whose view is blank in the header")
    spoilt_share: Share = Field(0.02, description="images clipped, blurred, overexposed or turned")
    monochrome1_share: Share = Field(0.12, description="images stored with low values bright")
    marker_share: Share = Field(0.70, description="frontal images with a burnt-in L or R")
    compressed_share: Share = Field(0.12, description="images with a compressed transfer syntax")

    # How reports are written.
    typo_share: Share = Field(0.04, description="sentences with a misspelt word")
    impression_share: Share = Field(
        0.90, description="reports with an IMPRESSION section (MIMIC-CXR: 83 %)"
    )
    findings_section_share: Share = Field(0.82, description="reports with a FINDINGS section")
    stock_impression_share: Annotated[Share, Before(0.0)] = Field(
        0.0,
        description="studies without a pathology whose IMPRESSION is one of a few stock sentences, "
        "so that many are equal, as in real collections (Open-I: 57 % have an equal one)",
    )
    exact_name_share: Annotated[Share, Before(0.0)] = Field(
        0.0, description="positive sentences that hold the exact name of their CheXpert class"
    )
    misleading_share: Annotated[Share, Before(0.0)] = Field(
        0.0,
        description="findings of one side before whose sentence in the IMPRESSION stands one with "
        "the same name about the other side: that it is absent there, or has resolved",
    )
    finding_truth: Annotated[bool, Before(False)] = Field(
        False,
        description="write beside the MIMIC-CXR copy which sentences state each finding, and its "
        "boxes in every image, for benchmarks alone",
    )

    # The other data sets.
    ms_cxr_patient_share: Share = Field(
        0.1, description="patients whose images carry MS-CXR boxes and phrases"
    )
    rsna_images: int = Field(800, ge=1, description="images of the RSNA copy")
    rsna_opacity_share: Share = Field(0.33, description="RSNA images of class 'Lung Opacity'")
    rsna_not_normal_share: Share = Field(
        0.33, description="RSNA images of class 'No Lung Opacity / Not Normal'"
    )
    rsna_mapping: Annotated[bool, Before(False)] = Field(
        False,
        description="the RSNA copy says which image of the NIH copy each of its own is, and so of "
        "which patient",
    )
    nih_patients: Annotated[int, Before(300)] = Field(
        300, ge=1, description="patients of the NIH copy, of one to three images, beside RSNA's"
    )
    chexpert_test_patients: int | None = Field(
        None,
        ge=2,
        le=500,
        description="patients of the CheXpert copy's test part, a study each; null: a sixtieth of "
        "`patients`, at most the published 500",
    )
    padchest_patients: Annotated[int, Before(400)] = Field(
        400, ge=8, description="patients of the PadChest copy"
    )
    abstracts: int = Field(120, ge=1, description="abstracts of the PubMed copy")
    notes: int = Field(90, ge=1, description="notes of the MIMIC-III copy")
    radnli_pairs: int = Field(
        240, ge=20, multiple_of=2, description="lines of each of the two files of the RadNLI copy"
    )
    mednli_pairs: int = Field(
        1200, ge=12, multiple_of=3, description="lines of the training file of the MedNLI copy"
    )
    covidx_shortcut: Annotated[bool, Before(False)] = Field(
        False,
        description="images of the COVIDx copy look like the collection they come from, as in the "
        "published set, so that the look gives most classes away; false: looks are drawn apart",
    )
    generic_pictures: Annotated[int, Before(1600)] = Field(
        1600, ge=16, description="training pictures of the ImageNet copy, of sixteen classes"
    )
    captioned_pictures: Annotated[int, Before(2000)] = Field(
        2000, ge=1, description="generic pictures with a caption, from which CLIP's stand-in learns"
    )
    splitter_reports: int = Field(
        300, ge=3, description="reports that the sentence splitter and entity tagger learn from"
    )

    @classmethod
    def fields_of(cls, dataset: str) -> set[str]:
        """Fields that ``dataset`` depends on: a change of another one does not draw it anew."""
        return {name for name in cls.model_fields if dataset in OF.get(name, (dataset,))}
