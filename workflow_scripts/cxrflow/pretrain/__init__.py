"""The training programs: an entry each in ``registry``, a module each, started by its name."""
