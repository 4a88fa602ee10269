"""What a training's validation measures beside its loss."""
