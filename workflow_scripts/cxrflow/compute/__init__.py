"""Computing on cores and devices: processes, progress, random numbers, copies to a device."""
