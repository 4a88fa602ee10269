"""The benchmark of generated reports."""
