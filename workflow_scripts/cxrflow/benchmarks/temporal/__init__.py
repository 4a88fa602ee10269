"""What became of a finding between two images."""
