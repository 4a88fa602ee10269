"""Readers of published data sets, one file each, and what they have in common."""
