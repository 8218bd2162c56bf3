"""Draws the pictures of the documentation into docs/pictures: ``make pictures``."""
