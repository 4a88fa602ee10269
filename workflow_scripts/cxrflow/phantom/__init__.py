"""The synthetic hospital: patients, images, reports, in the layouts of the data sets."""
