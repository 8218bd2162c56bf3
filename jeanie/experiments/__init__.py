"""Protocols, training and evaluation: how a model is taught, and how it is measured."""
