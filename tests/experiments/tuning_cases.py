"""Searches in the small, and workers of them that run in processes of their own."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from tiny_task import dataset, model_config, split

from jeanie.experiments.learning.augment import AugmentConfig
from jeanie.experiments.learning.settings import TrainConfig
from jeanie.experiments.protocols import Protocol, protocol
from jeanie.experiments.recipes import Recipe
from jeanie.experiments.tuning import Dimension, Tuning, open_study, tune
from jeanie.experiments.tuning.work import work

USELESS = 1e-3  # a width of the rbf distance at which every two blocks are as far apart as can be


class Sealed(Sequence):
    """Test episodes that nobody may look at; they seem to be none, as run-time checkers of hints look at one."""

    def __len__(self):
        return 0

    def __iter__(self):
        raise AssertionError("the test episodes were gone through")

    def __getitem__(self, index):
        raise AssertionError("a test episode was looked at")


@dataclass(frozen=True)
class TinyProtocol(Protocol):
    """A protocol of one tiny split, or of more, whose tests are sealed."""

    count: int = 1

    def splits(self, dataset, **options):
        one = replace(split(), test=Sealed(), test_variants={"other": Sealed()})
        return tuple(replace(one, name=f"tiny {number}") for number in range(self.count))


def tiny_protocol(count=1):
    base = protocol("synthetic")
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


def searched(tuning, count=1, **options):
    return tune(tuning, protocol=tiny_protocol(count), dataset=dataset(), **options)


def states(study):
    """The states of all trials, sorted."""
    return sorted(one.state.name for one in study.get_trials(deepcopy=False))


def search_beside_others(tuning, worker, start, told):
    """A worker that opens the study together with others, begins together with them, and tells its trials' numbers."""
    torch.set_num_threads(1)
    start.wait()
    study = open_study(tuning, worker)
    start.wait()  # whoever has made the study would otherwise have done much of it before the others come
    work(study, tuning, tiny_protocol(), dataset(), None)
    mine = [one.number for one in study.trials if one.user_attrs.get("worker") == os.getpid()]
    told.send(mine)


def deadly(clips, told):
    """The data set of a process that dies without warning when clips are read for the second trial."""
    reads, read = [0], clips.read

    def counted(clip):
        reads[0] += 1
        if reads[0] > len(clips):
            time.sleep(0.5)  # the first sign of life has been given by then
            told.send_bytes(b"dies")
            os.kill(os.getpid(), signal.SIGKILL)
        return read(clip)

    return replace(clips, read=counted)


def search_until_killed(tuning, told):
    """A worker that dies in its second trial."""
    torch.set_num_threads(1)
    work(open_study(tuning), tuning, tiny_protocol(), deadly(dataset(), told), None)
