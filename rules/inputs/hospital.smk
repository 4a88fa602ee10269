"""What the rules of hospital.smk read, and how it stands on their command lines."""

# By far the largest copy, which most of a run waits for. It is drawn first: a job of two cores that
# comes later waits while smaller ones go on taking the first core that is free.
LARGEST, ITS_CORES = "mimic_cxr", 2


def drawing_threads(wildcards):
    """The processes that draw a copy."""
    asked = need("draw_phantom").threads
    return max(asked, ITS_CORES) if wildcards.phantom == LARGEST else asked


def drawing_priority(wildcards):
    """That of a copy's data set; of the largest above what takes its cores otherwise.

    The scheduler adds up the priorities of jobs that fit beside each other.
    """
    first = ITS_CORES * urgency(lambda needs: True) + 1
    return first if wildcards.phantom == LARGEST else dataset_priority(wildcards.phantom)


def pictures_drawn_before(wildcards):
    """The DICOM copy, where a cohort's images are MIMIC-CXR-JPG's; else its tables are enough."""
    stores = (run.cohorts[cohort] for cohort, _ in run.whole.stores)
    holders = {layout(holder) for cohort in stores for holder in cohort.holders}
    copied = wildcards.phantom == "mimic_cxr_jpg" and "mimic_cxr_jpg" in holders
    return ["<results>/phantom/mimic_cxr/MANIFEST.json"] if copied else []


def drawing_settings(wildcards, dump):
    """The hospital's settings that matter to this copy, a record or all values."""
    hospital, fields = run.values.synthetic_hospital, HospitalSettings.fields_of(wildcards.phantom)
    return as_json({} if hospital is None else dump(hospital, include=fields))
