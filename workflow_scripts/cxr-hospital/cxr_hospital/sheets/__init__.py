"""Pictures of the hospital for the documentation: findings, classes of images, courses."""
