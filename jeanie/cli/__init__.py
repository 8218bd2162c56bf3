"""The command ``jeanie``. Exit codes: 0 done, 1 failed, 2 wrong usage or bad input."""

from jeanie.cli.commands import app, main

__all__ = ["app", "main"]
