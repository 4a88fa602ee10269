"""One program a benchmark, its protocol kept with its result (docs/protocols.md)."""
