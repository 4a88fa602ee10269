"""Training a decoder that writes the report of an image: what programs share, and each kind."""
