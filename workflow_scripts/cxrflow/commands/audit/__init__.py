"""What data sets share, and what is damaged in them: ``cxrflow audit``."""
