"""The words of the synthetic hospital's reports, as data for ``cxr_hospital.grammar``."""
