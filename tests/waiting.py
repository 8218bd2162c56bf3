"""Wait for a condition of other processes or threads, never for a time."""

import time

__all__ = ["PATIENCE", "wait_for"]

PATIENCE = 300  # seconds; a busy machine is slow


def wait_for(condition, what="a condition", calls=()):
    """Wait until ``condition()`` is true, and return its value; raise the exception of a call that has failed."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        for call in calls:
            if call.done():
                call.result()
        assert time.monotonic() < deadline, f"waited {PATIENCE} s for {what}"
        time.sleep(0.02)
    return value
