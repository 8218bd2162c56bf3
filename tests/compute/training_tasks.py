"""Trainings that the tests run on clusters: every worker can import this module."""

import os
import time
from functools import partial
from importlib import import_module

from compute_tasks import is_first, note_start
from tiny_task import dataset, model_config, split

from jeanie.training.augment import AugmentConfig
from jeanie.training.config import TrainConfig
from jeanie.training.run import TrainingReplaced
from jeanie.training.train import train


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


def hold_first_table_training(folder):
    """Make the first training of a table wait for ever in the middle; a file names its process."""

    def pause(progress):
        if progress.episode == 4 and is_first(folder / "held"):  # there is a checkpoint of an earlier episode
            while True:
                time.sleep(60)

    import_module("jeanie.paper.tables.measure").train = partial(train, progress=pause)


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
