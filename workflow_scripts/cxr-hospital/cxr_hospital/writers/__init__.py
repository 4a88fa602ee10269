"""One writer a data set: the synthetic hospital in the byte layout of the published collections."""
