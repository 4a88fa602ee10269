"""Projection heads: a kind is a module with an ``ImageHead`` and a ``TextHead``."""
