"""The ``scope`` engine: mentions and cue words with their reach; needs no model."""
