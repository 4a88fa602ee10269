"""Commands for single models, images and data sets.

``load`` describes a model, ``export`` writes it with the names of the released weights, ``ground``
finds phrases in an image, ``draft`` writes a report, ``verify`` compares files with checksums.
"""
