"""Radiographs: from DICOM, PNG and JPEG files to batches on the device (BioViL section 4.1).

``decode`` reads one file, ``resize`` and ``geometry`` bring it to the size of a model and keep
track of where boxes go, ``store`` keeps a whole data set as memory-mapped shards, and ``augment``
draws training views from it.
"""
