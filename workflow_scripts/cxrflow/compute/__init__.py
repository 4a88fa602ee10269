"""Work on cores and devices: processes, progress, keyed random numbers, copies to a device."""
