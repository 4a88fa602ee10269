"""Figures of several tables: bars, curves, and the pictures that they share."""
