"""Measures of the data themselves: agreement of report labels, statistics."""
