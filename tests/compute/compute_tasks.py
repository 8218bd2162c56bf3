"""Functions that the tests run in worker processes and on clusters: every worker can import this module."""

import os
import signal
import time
from pathlib import Path

import torch

from jeanie.errors import DataError

SLOW = 0.2  # seconds


def square(task):
    time.sleep(SLOW if task == 0 else 0)
    return task * task, os.getpid(), torch.get_num_threads()


def fail_at_two(task):
    if task == 2:
        raise DataError("clip 2 is bad")
    return task


def die_once(place):
    """Kill this worker the first time; leave a line per call."""
    folder, number = place
    with (folder / f"{number}.log").open("a") as log:
        log.write(f"{os.getpid()}\n")
    if number == 1 and len((folder / "1.log").read_text().splitlines()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_always(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def run_out_of_memory(number):
    if number == 1:
        raise MemoryError("too much")
    return number


def wait_forever(place):
    """Wait for a stop, as an evaluation does."""
    folder, number = place
    started = folder / f"{number}.started"
    try:
        with started.open("a") as log:
            log.write(f"{os.getpid()}\n")
        while True:
            time.sleep(0.02)
    finally:
        (Path(folder) / f"{number}.stopped").touch()
