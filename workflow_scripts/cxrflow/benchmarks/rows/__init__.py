"""Rows without a model of ours: baselines that have learnt nothing of it, files from elsewhere."""
