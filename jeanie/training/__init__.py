"""Episodic training: recipes, the training step, checkpoints, augmentation and run folders."""
