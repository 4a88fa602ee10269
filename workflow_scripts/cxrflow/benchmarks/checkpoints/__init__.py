"""What a training's series of checkpoints says of it."""
