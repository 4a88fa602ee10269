"""The benchmark of a training's series of checkpoints."""
