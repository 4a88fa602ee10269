"""The ``dependency`` engine: the CheXpert labeller's published rules on dependency graphs."""
