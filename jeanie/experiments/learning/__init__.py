"""What training is made of: the step, its settings, variety, checkpoints, several processes."""
