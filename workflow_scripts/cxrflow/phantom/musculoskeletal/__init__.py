"""Bones of the arm: what the musculoskeletal set and the MURA copy show and say."""
