"""CheXpert labels of radiology reports: sections, sentences, labels, explanations, agreement."""

__version__ = "0.1.0"
