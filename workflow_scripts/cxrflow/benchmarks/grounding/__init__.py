"""Where a phrase or a class lies in a radiograph: phrase grounding, segmentation."""
