"""Functions that the tests run in worker processes and on clusters. This module loads fast: without torch."""

import os
import signal
import sys
import time
from importlib import import_module

from jeanie._internal.files import write_atomically
from jeanie.compute.cancellation import raise_if_stopped
from jeanie.errors import DataError

SLOW = 0.2  # seconds


def scale(factor, folder, task):
    time.sleep(SLOW if task == 0 else 0)
    return factor * task, os.getpid(), os.getcwd() == folder


def count_threads(task):
    """Return whether this process is new to torch, and how many threads torch has."""
    is_new = "torch" not in sys.modules
    torch = import_module("torch")
    return is_new, torch.get_num_threads()


def fail_at_two(task):
    if task == 2:
        raise DataError("clip 2 is bad")
    return task


def die_always(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def run_out_of_memory(number):
    if number == 1:
        raise MemoryError("too much")
    return number


def wait_forever(place):
    """Wait for a stop, as an evaluation does; one file tells of the start, and one of the end."""
    folder, number = place
    try:
        note_start(place)
        while True:
            raise_if_stopped()
            time.sleep(0.02)
    finally:
        (folder / f"{number}.stopped").touch()


def wait_for_permission(place):
    """Wait until the file "go" exists."""
    folder, number = place
    note_start(place)
    while not (folder / "go").exists():
        raise_if_stopped()
        time.sleep(0.02)
    return number


def wait_in_first_process(place):
    """Never end in the process that is the first to start this task."""
    while len(note_start(place)) == 1 and place[1] == 1:
        time.sleep(60)
    return place[1]


def note_start(place):
    """Add a line with this process to the log of a task, and return all lines."""
    folder, number = place
    path = folder / f"{number}.started"
    with path.open("a") as log:
        log.write(f"{os.getpid()}\n")
    return path.read_text().split()


def write_once(place):
    """Write the file of a task unless it is there. All tasks but the first one wait until the file "go" exists."""
    folder, number = place
    path = folder / f"{number}.done"
    if not path.exists():
        while not ((folder / "go").exists() or is_first(folder / "first")):
            raise_if_stopped()
            time.sleep(0.02)
        write_atomically(path, b"done")
    return number


def is_first(path):
    """Return whether this process is the first to ask; the file then names it."""
    try:
        with path.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return False
    return True
