"""The synthetic hospital: patients, images, reports, in the layouts of the data sets."""

__version__ = "0.1.0"
