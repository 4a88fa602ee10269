"""Additional supervision of images and texts as in DeCLIP (Li et al. 2022)."""
