"""Readers of published data sets and the cohorts made from them.

One module a layout (``mimic_cxr`` … ``covid_chestxray``) turns files as published into the common
tables of :mod:`cxrflow.data.readers.common_tables`; :mod:`cxrflow.data.cohorts.cohort` filters,
joins and splits them.
"""
