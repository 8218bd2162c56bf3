"""Tiny searches, and workers for them that run in their own processes."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from tiny_task import dataset, model_config, split

from jeanie.evaluation.protocols import Protocol, get_protocol
from jeanie.paper.tuning import Dimension, Tuning, open_study, tune
from jeanie.paper.tuning.worker import run_trials
from jeanie.training.augment import AugmentConfig
from jeanie.training.config import TrainConfig
from jeanie.training.recipes import Recipe

USELESS = 1e-3  # a width of the rbf distance that gives every two blocks the largest distance


class ForbiddenEpisodes(Sequence):
    """Test episodes that nobody may read; their length is 0, since run-time type checkers read the first one."""

    def __len__(self):
        return 0

    def __iter__(self):
        raise AssertionError("the test episodes were iterated")

    def __getitem__(self, index):
        raise AssertionError("a test episode was read")


@dataclass(frozen=True)
class TinyProtocol(Protocol):
    """A protocol of tiny splits whose test episodes nobody may read."""

    count: int = 1

    def splits(self, dataset, **options):
        one = replace(split(), test=ForbiddenEpisodes(), test_variants={"other": ForbiddenEpisodes()})
        return tuple(replace(one, name=f"tiny {number}") for number in range(self.count))


def tiny_protocol(count=1):
    base = get_protocol("synthetic")
    return TinyProtocol(**{field.name: getattr(base, field.name) for field in fields(base)}, count=count)


def tiny_tuning(storage, **values):
    recipe = Recipe(
        model=model_config(dropout=0.0, metric="rbf", sigma=USELESS, relative=False, normalise=None),
        train=TrainConfig(
            episodes=4,
            batch=2,
            queries=1,
            validate_every=2,
            checkpoint_every=4,
            mirror=False,
            augment=AugmentConfig(),
        ),
    )
    space = {"align.sigma": Dimension(low=USELESS, high=10, log=True)}
    return Tuning(
        **{
            "protocol": "synthetic",
            "recipe": recipe,
            "space": space,
            "storage": storage,
            "trials": 8,
            **values,
        }
    )


def run_search(tuning, count=1, **options):
    return tune(tuning, protocol=tiny_protocol(count), dataset=dataset(), **options)


def trial_states(study):
    """Return the sorted states of all trials."""
    return sorted(one.state.name for one in study.get_trials(deepcopy=False))


def search_with_others(tuning, worker, barrier, numbers):
    """Search as one of several workers; send the numbers of this worker's trials.

    No worker trains before every worker has a trial, so that each of them has at least one.
    """
    torch.set_num_threads(1)
    clips = dataset()
    is_first = [True]

    def read(clip):
        if is_first[0]:
            is_first[0] = False
            barrier.wait()
        return clips.read(clip)

    barrier.wait()
    study = open_study(tuning)
    run_trials(study, tuning, tiny_protocol(), replace(clips, read=read), None, worker=worker)
    numbers.send([trial.number for trial in study.trials if trial.user_attrs.get("worker") == os.getpid()])


def search_until_killed(tuning, sender):
    """Search with a worker that dies without warning in its second trial, after its first heartbeat."""
    torch.set_num_threads(1)
    study, clips, reads = open_study(tuning), dataset(), [0]
    engine = study._storage._backend.engine

    def read(clip):
        reads[0] += 1
        if reads[0] > len(clips):
            while _count_heartbeats(engine) < 2:
                time.sleep(0.01)
            sender.send_bytes(b"dies")
            os.kill(os.getpid(), signal.SIGKILL)
        return clips.read(clip)

    run_trials(study, tuning, tiny_protocol(), replace(clips, read=read), None)


def _count_heartbeats(engine):
    with engine.connect() as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM trial_heartbeats").scalar()
