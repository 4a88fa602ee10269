"""Races against other software at the same work (`make bench`); see docs/performance.md."""
