"""Builds the documentation: pages of the repository, generated reference pages, Sphinx."""
