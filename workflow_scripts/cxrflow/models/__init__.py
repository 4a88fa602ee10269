"""A model folder as people use it: loading it, encoding with it, its card."""
