"""What figures share: their columns, sheets of pictures, distributions."""
