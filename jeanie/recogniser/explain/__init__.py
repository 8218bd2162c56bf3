"""Explanations of a match: views, tempo and joints."""
