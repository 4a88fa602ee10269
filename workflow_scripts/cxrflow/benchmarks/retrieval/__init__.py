"""Retrieval: the images of a query's category, for a query that is an image or a text."""
