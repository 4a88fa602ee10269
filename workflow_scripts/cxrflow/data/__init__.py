"""Data sets and the cohorts made from them (docs/data.md).

``layouts`` describes each data set, ``readers`` turns its files into common tables, and ``cohorts``
filters, joins, splits and checks them.
"""
