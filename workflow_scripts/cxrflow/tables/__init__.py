"""Tables of papers, our rows beside the published ones, and the orders claimed in them."""
