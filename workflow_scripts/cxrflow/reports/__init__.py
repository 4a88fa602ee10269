"""Radiology reports: sections, sentences, findings."""
