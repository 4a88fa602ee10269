"""Corpora, vocabularies, tokens, and batches of them."""
