"""Metrics and their intervals: pure functions of arrays."""
