"""Tables of papers, our rows beside the published ones, and the rankings claimed in them."""
