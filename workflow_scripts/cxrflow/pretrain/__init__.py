"""The three training programs: text, image, joint."""
