"""How files are read, written and replaced: bounded, checked, whole or absent."""
