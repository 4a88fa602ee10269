"""Readers of published data sets, a module a layout, and what they share.

Most return the common tables of :mod:`.common_tables`: studies, images, boxes, labels, sentence
pairs, progressions, splits. ``mimic_iii`` and ``pubmed`` write documents of text; ``mimic_iv``
reads demographics and ``open_i_terms`` human labels. They share ``boxes`` (impossible boxes),
``dicom_headers`` and ``study_time``. Whatever a reader leaves out is counted.
"""
