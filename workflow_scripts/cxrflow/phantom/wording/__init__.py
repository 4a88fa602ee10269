"""The words of the synthetic hospital's reports, as data for ``cxrflow.phantom.grammar``."""
