"""The frame of every program: its options, its log, its exit codes, and the names of them all."""
