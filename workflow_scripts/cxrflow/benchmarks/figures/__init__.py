"""Figures of several models: their columns, sheets of pictures, distributions."""
