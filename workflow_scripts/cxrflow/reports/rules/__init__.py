"""Phrase and rule files of the labeller, read by ``cxrflow.reports.mentions`` and ``cues``."""
