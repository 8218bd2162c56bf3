"""Short trainings on a tiny task."""

import os
import signal

import torch
from safetensors.torch import load_file
from tiny_task import dataset, model_config, split

from jeanie.training.augment import AugmentConfig
from jeanie.training.config import TrainConfig
from jeanie.training.train import train

PLAIN = TrainConfig(mirror=False, augment=AugmentConfig(), queries=1)
SHORT = TrainConfig(
    episodes=12,
    batch=2,
    queries=2,
    validate_every=4,
    checkpoint_every=4,
    mirror=True,
    augment=AugmentConfig(yaw=20, tilt=10, scale=0.1, warp=0.3),
)


def run_training(out, config=SHORT, model=None, **options):
    options = {"dataset": dataset(), "split": split(), **options}
    return train(model_config() if model is None else model, "synthetic", config=config, out=out, **options)


def interrupt_at(episode):
    """A watcher that presses Ctrl-C; the step after it is finished and kept."""
    return lambda moment: os.kill(os.getpid(), signal.SIGINT) if moment.episode == episode else None


def list_tensors(run):
    """Everything that a run wrote as tensors: weights, loss and optimiser of the checkpoint, the best weights."""
    folder = run.folder()
    (last,) = (folder / "last").glob("*.safetensors")
    return load_file(last) | {
        f"best.{k}": v for k, v in load_file(folder / "model/model.safetensors").items()
    }


def assert_same_run(one, other):
    left, right = list_tensors(one), list_tensors(other)
    assert left.keys() == right.keys()
    assert any(name.startswith("optimiser.") for name in left)
    assert [name for name in left if not torch.equal(left[name], right[name])] == []
    lines = [[{**line, "seconds": None} for line in run.metrics()] for run in (one, other)]
    assert lines[0] == lines[1]
