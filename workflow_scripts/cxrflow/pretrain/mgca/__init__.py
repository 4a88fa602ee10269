"""MGCA's training, on images and their whole reports."""
