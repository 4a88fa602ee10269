"""Readers of what became of findings between two images, which lie in other data sets."""
