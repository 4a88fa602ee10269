"""Benchmarks of text encoders: masked words, inference, similarity, paraphrases, vocabularies."""
