"""Protocols, predictions, statistics and reports: how well a model recognises new actions."""
