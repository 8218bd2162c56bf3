"""Ways to compare two feature sequences."""
