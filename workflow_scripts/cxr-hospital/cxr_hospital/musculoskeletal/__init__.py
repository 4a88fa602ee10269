"""Bones of the arm: images and reports of the musculoskeletal set and the MURA copy."""
