"""What a person types: ``cxrflow load``, ``ground``, ``draft``, ``export`` and ``verify``."""
