"""What a text encoder knows: masked words, inference, similarity, vocabularies."""
