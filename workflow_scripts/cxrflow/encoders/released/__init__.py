"""Published weights as ours, and ours as theirs: explicit maps of names, never remote code."""
