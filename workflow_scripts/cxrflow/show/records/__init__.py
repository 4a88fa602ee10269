"""Runs that are written down: their tables and claims, and the pages that show them."""
