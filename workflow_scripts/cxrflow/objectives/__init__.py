"""Losses, one file each, with the number of their equation."""
