"""Readers of published data sets and the cohorts made from them.

One module a layout (``mimic_cxr`` … ``covid_chestxray``) turns files as published into the common
tables of :mod:`cxrflow.data.tables`; :mod:`cxrflow.data.cohort` filters, joins and splits them.
"""
