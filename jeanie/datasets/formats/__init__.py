"""Readers for skeleton file formats, one module per format."""
