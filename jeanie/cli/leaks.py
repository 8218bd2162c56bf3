"""Whether a training run saw classes that a protocol tests."""

from collections.abc import Sequence

from jeanie.errors import ConfigError
from jeanie.evaluation.protocols import Protocol, get_protocol
from jeanie.evaluation.protocols.splits import Split
from jeanie.training.run import Run

__all__ = ["check_no_leak"]


def check_no_leak(run: Run, protocol: Protocol, splits: Sequence[Split]) -> None:
    """Raise ConfigError if the protocol tests a class that the run was trained on."""
    if (run.dataset or get_protocol(run.protocol).dataset) != protocol.dataset:
        return
    by_name = {split.name: split for split in splits}
    for row in run.facts["splits"]:
        training_classes = set(row["train_classes"]) | set(row["validation_classes"])
        tested = [by_name.get(row["name"])] if run.protocol == protocol.name else list(splits)
        for split in tested:
            if (
                split is not None
                and split.shot > row.get("shot", split.shot)
                and training_classes & set(split.test_classes)
            ):
                raise ConfigError(
                    f"{run.path}: training held back {row['shot']} supports per class, but the test uses {split.shot}; "
                    f"train it with --shot {split.shot}, so that it does not see the supports"
                )
            if split is None or (
                split.name == row["name"] and set(split.test_classes) == set(row["test_classes"])
            ):
                continue
            if training_classes & set(split.test_classes):
                raise ConfigError(
                    f"{run.path}: was trained on classes that split {split.name!r} of {protocol.name} tests; "
                    "evaluate it with the same protocol and --train-classes as in training"
                )
