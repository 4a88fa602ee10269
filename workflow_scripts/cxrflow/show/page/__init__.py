"""The page that shows a run: what was made of which data, curves, tables, pictures."""
