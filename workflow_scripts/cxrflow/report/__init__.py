"""Tables of papers, and the page that shows a run."""
