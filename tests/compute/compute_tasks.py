"""Functions that the tests run in worker processes and on clusters: every worker can import this module."""

import os
import signal
import time

import torch
from tiny_task import dataset, model_config, split

from jeanie._internal.files import write_atomically
from jeanie.compute.cancellation import raise_if_stopped
from jeanie.errors import DataError
from jeanie.training.augment import AugmentConfig
from jeanie.training.config import TrainConfig
from jeanie.training.run import TrainingReplaced
from jeanie.training.train import train

SLOW = 0.2  # seconds


def scale(factor, folder, task):
    time.sleep(SLOW if task == 0 else 0)
    return factor * task, os.getpid(), torch.get_num_threads(), os.getcwd() == folder


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
    """Write the file of a task, slowly, unless it is there."""
    folder, number = place
    path = folder / f"{number}.done"
    if not path.exists():
        note_start(place)
        time.sleep(SLOW)
        write_atomically(path, b"done")
    return number


def train_slowly(folder):
    """Train with a checkpoint at the end alone; a file tells when the first step is done, and one ends the pauses."""

    def pause(progress):
        (folder.parent / "training").touch()
        if not (folder.parent / "fast").exists():
            time.sleep(0.1)

    return train_tiny(folder, 40, pause)


def train_on_some_host(folder):
    """Train with many checkpoints. The first process waits in the middle until another one has started.

    Every process notes its start, and the end if it was replaced.
    """
    is_first = len(note_start((folder.parent, 0))) == 1

    def pause(progress):
        while (
            is_first and progress.episode == 10 and len((folder.parent / "0.started").read_text().split()) < 2
        ):
            time.sleep(0.05)

    try:
        return train_tiny(folder, 4, pause)
    except TrainingReplaced:
        (folder.parent / f"{os.getpid()}.replaced").touch()
        raise


def train_tiny(folder, checkpoints, progress=None):
    """Train 40 episodes of a tiny task, with a checkpoint every so many episodes."""
    config = TrainConfig(
        episodes=40,
        batch=2,
        queries=2,
        validate_every=40,
        checkpoint_every=checkpoints,
        augment=AugmentConfig(yaw=20),
    )
    options = {"dataset": dataset(), "split": [split()], "resume": folder.exists(), "progress": progress}
    return train(model_config(), "synthetic", config=config, out=folder, **options).path


def return_what_cannot_travel(task):
    return (number for number in range(task))
