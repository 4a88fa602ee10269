"""What every program shares: its options, its log, its exit codes, and the names of them all."""
