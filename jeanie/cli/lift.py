"""``jeanie lift``: estimate the depth of 2-D key points, and train the network that does it."""

from pathlib import Path
from typing import Annotated

import torch
import typer

from jeanie.cli.options import (
    Pattern,
    SkipBad,
    accept_option_groups,
    list_skipped,
    open_source,
    skip_unreadable,
)
from jeanie.cli.prepare import describe_archive
from jeanie.cli.terminal import AsJson, exit_on_error, print_report, show_progress, track_command
from jeanie.datasets import ReadOptions, open_dataset
from jeanie.datasets.archive.prepare import prepare
from jeanie.datasets.dataset import Dataset
from jeanie.datasets.lifter import Lifter
from jeanie.datasets.lifter_training import collect_poses, measure_lifter, train_lifter
from jeanie.datasets.lifting import lift_dataset
from jeanie.errors import ConfigError, DataError
from jeanie.skeleton import Motion

__all__ = ["lift"]

lift = typer.Typer(
    no_args_is_help=True, help="Lift 2-D key points to 3-D joints: apply the network, or train it."
)


Root = Annotated[
    Path | None, typer.Option(help="Folder of the data set SOURCE (default: $JEANIE_DATA/SOURCE).")
]


@lift.command("apply")
@track_command
@accept_option_groups
def apply_lifter(
    source: Annotated[
        str, typer.Argument(help="Key points: an archive, a folder of recordings, or a data set by name.")
    ],
    out: Annotated[Path, typer.Argument(help="Archive to write; an existing one is replaced at the end.")],
    lifter: Annotated[
        Path | None,
        typer.Option(help="Weights that jeanie lift train wrote (default: those that ship with jeanie)."),
    ] = None,
    root: Root = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 1,
    pattern: Pattern = None,
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
    *,
    options: ReadOptions,
) -> None:
    """Write an archive of key points with depth: x and y stay, z is estimated."""
    with exit_on_error(as_json):
        dataset = _open_source(source, root, pattern, options)
        if dataset.layout.dims != 2:
            raise ConfigError(
                f"{source}: already has 3-D joints ({dataset.layout.name}); give 2-D key points"
            )
        network = Lifter.load(lifter)
        with show_progress(not as_json) as bar:
            report = prepare(
                lift_dataset(dataset, network), out, source=source, jobs=jobs, skip_bad=skip_bad, progress=bar
            )
        facts = describe_archive(out, report)
        print_report(facts, [f"wrote {out}: {report['kept']} clips"], as_json, facts["skipped"])


@lift.command("train")
@track_command
@accept_option_groups
def train(
    source: Annotated[
        str, typer.Argument(help="3-D motions in metres: cmu, or an archive or folder of recordings.")
    ],
    out: Annotated[Path, typer.Argument(help="File to write the weights to, such as lifter.safetensors.")],
    width: Annotated[int, typer.Option(min=1, help="Outputs of a hidden layer.")] = 1024,
    blocks: Annotated[int, typer.Option(min=0, help="Number of residual blocks.")] = 2,
    dropout: Annotated[float, typer.Option(min=0, help="Share of hidden outputs that training drops.")] = 0.5,
    steps: Annotated[int, typer.Option(min=1, help="Number of training steps.")] = 20_000,
    batch: Annotated[int, typer.Option(min=2, help="Poses per step, each seen by its own camera.")] = 512,
    learning_rate: Annotated[float, typer.Option(min=0, help="Learning rate at the start.")] = 1e-3,
    every: Annotated[int, typer.Option(min=1, help="Use every n-th frame of the motions.")] = 5,
    held_out: Annotated[
        int,
        typer.Option(min=2, help="Test on subjects whose number is a multiple of this; train on the rest."),
    ] = 5,
    half: Annotated[bool, typer.Option("--half", help="Write 16-bit weights.")] = False,
    root: Root = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, poses and cameras.")] = 0,
    pattern: Pattern = None,
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
    *,
    options: ReadOptions,
) -> None:
    """Train a lifter on 3-D motions seen by random cameras, and measure it on held-out subjects."""
    with exit_on_error(as_json):
        dataset = _open_source(source, root, pattern, options)
        dataset = skip_unreadable(dataset) if skip_bad else dataset
        training, held_out_motions = _split_subjects(dataset, every, held_out)
        poses, test = collect_poses(training), collect_poses(held_out_motions)
        with show_progress(not as_json, "steps") as bar:
            lifter = train_lifter(
                poses, generator=torch.Generator().manual_seed(seed), steps=steps, batch=batch, rate=learning_rate,
                width=width, blocks=blocks, dropout=dropout, progress=bar,
            )  # fmt: skip
        lifter.save(out, half=half)
        error = measure_lifter(Lifter.load(out), test, generator=torch.Generator().manual_seed(seed + 1))
        facts = {
            "lifter": str(out),
            "training_poses": len(poses),
            "held_out_poses": error.poses,
            "joint_error_m": round(error.joints, 4),
            "depth_error_m": round(error.depth, 4),
            "flat_depth_error_m": round(error.flat, 4),
            "seed": seed,
            **lifter.config,
        }
        text = (
            f"wrote {out}: {1000 * error.depth:.0f} mm error of depth on held-out subjects "
            f"({1000 * error.flat:.0f} mm without a lifter), {1000 * error.joints:.0f} mm per joint"
        )
        print_report(facts, [text], as_json, list_skipped(dataset))


def _open_source(source: str, root: Path | None, pattern: str | None, options: ReadOptions) -> Dataset:
    if root is None:
        return open_source(source, pattern, options)
    return open_dataset(source, root, pattern=pattern, options=options)


def _split_subjects(dataset: Dataset, frame_step: int, held_out: int) -> tuple[list[Motion], list[Motion]]:
    """Return every n-th frame of the motions of the training subjects and of the held-out ones."""
    training: list[Motion] = []
    held_out_motions: list[Motion] = []
    for motion, subject in zip(dataset.motions, dataset.subjects, strict=True):
        digits = "".join(letter for letter in str(subject) if letter.isdecimal())
        is_held_out = bool(digits) and int(digits) % held_out == 0
        (held_out_motions if is_held_out else training).append(motion[::frame_step])
    if not training or not held_out_motions:
        raise DataError(
            f"data set {dataset.name!r}: with --held-out {held_out} no subjects remain for training or for the test; "
            f"its subjects are {sorted({str(subject) for subject in dataset.subjects})[:10]}"
        )
    return training, held_out_motions
