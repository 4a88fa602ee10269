"""The training programs: an entry each in ``registry``, a module each that is called by its name."""
