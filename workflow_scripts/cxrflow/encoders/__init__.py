"""Text and image encoders with the parameter names of the released weights."""
