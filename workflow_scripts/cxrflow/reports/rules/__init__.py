"""Phrase and rule files of the labelling engines, one folder each."""
