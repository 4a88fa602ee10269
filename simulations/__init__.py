"""Simulations behind the figures of docs/inference.md; each is a program."""
