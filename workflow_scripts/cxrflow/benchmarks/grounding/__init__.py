"""Places of a phrase or a class in a radiograph: phrase grounding, segmentation."""
