"""Exercises: repetitions are counted, and a performance is scored against references."""
