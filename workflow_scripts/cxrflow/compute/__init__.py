"""Computing on cores and devices: queues, random numbers, copies to a device."""
