"""The command ``jeanie``. Exit codes: 0 done, 1 failed, 2 wrong usage or bad input."""
