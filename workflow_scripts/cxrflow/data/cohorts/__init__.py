"""Cohorts: which studies a paper reads, how they split, and the checks that nothing leaks."""
