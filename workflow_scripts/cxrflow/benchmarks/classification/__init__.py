"""Which class an image has: by prompts, by linear probes."""
