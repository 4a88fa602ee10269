"""Benchmarks of two images of a patient: change of a finding, use of the prior, registration."""
