"""How a model compares images with texts: a similarity a file, kept in the model's folder."""
