"""Cohorts: the rows that models are trained and tested on, a module a kind.

Kinds are ``pairs``, ``grounding``, ``classification``, ``nli``, ``progression`` and ``retrieval``.
They share ``filters``, ``priors``, ``splits``, ``validation`` and ``held_out``. ``texts`` joins the
reports, ``leakage`` checks the result, ``flow`` counts each step. ``build_cohort`` is the program,
for which ``cohort`` reads the data sets.
"""
