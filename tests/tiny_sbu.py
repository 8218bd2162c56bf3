"""A tiny SBU data set as files: a real protocol whose trainings and tests take a fraction of a second."""

import math
from functools import partial

import numpy as np
import torch

from jeanie.paper.tables import Preset, Table, list_cells, measure, run_cells
from jeanie.training.train import train

PAIRS, FRAMES = ("s01s02", "s03s04", "s05s06"), 6

# a recipe that trains in a moment: few frames, a narrow network, a handful of episodes
TINY = {
    "episodes": 6,
    "batch": 2,
    "queries": 1,
    "validate_every": 2,
    "checkpoint_every": 2,
    "mirror": False,
    "inputs.prepare.frames": 4,
    "inputs.prepare.persons": 1,
    "encoder.width": 4,
    "encoder.features": 6,
    "encoder.layers": 2,
}


def write_sbu(root):
    """Write eight interactions of three pairs of persons, who move with a frequency and a phase of their class."""
    time = np.arange(FRAMES) / FRAMES
    for action in range(1, 9):
        for number, pair in enumerate(PAIRS):
            draw = np.random.default_rng([action, number])
            rest = np.linspace(0.2, 0.8, 90)
            swing = 0.1 * np.sin(2 * math.pi * (1 + action % 3) * time + action)[:, None]
            values = rest + swing * np.cos(action * np.arange(90)) + 0.03 * draw.normal(size=(FRAMES, 90))
            folder = root / "sbu" / pair / f"{action:02}" / "001"
            folder.mkdir(parents=True)
            rows = [",".join(f"{number:.6f}" for number in (t + 1, *row)) for t, row in enumerate(values)]
            (folder / "skeleton_pos.txt").write_text("\n".join(rows) + "\n")
    return root


def column(**values):
    return {"name": "3-way", "protocol": "sbu", "train_classes": 5, **values}


def tiny_table(columns=None, rows=None, **values):
    """Two columns and four rows, one of which is cited."""
    return Table(
        name="tiny",
        title="A tiny table",
        source="nowhere",
        base="default",
        columns=columns or [column(splits=["seed 0", "seed 1"]), column(name="other", splits=["seed 2"])],
        rows=rows
        or [
            {"name": "others", "cited": True, "printed": [50.0, "-"], "halves": [1.5, "-"]},
            {"name": "nothing learnt", "method": "raw", "printed": [40.0, 60.0]},
            {"name": "no alignment", "method": "pooled"},
            {"name": "soft-DTW", "method": "soft-dtw", "printed": [30.0, "-"]},
        ],
        **{"full": Preset(limit=3, changes=TINY), "against": "soft-dtw", **values},
    )


def measure_until_stopped(out, data, pipe):
    """Measure the tiny table in a process of its own; in the middle of its first training, wait to be stopped."""
    torch.set_num_threads(1)
    is_first = [True]

    def pause(progress):
        if is_first[0] and progress.episode == 4:  # there is a checkpoint of an earlier episode
            is_first[0] = False
            pipe.send_bytes(b"training")
            pipe.recv_bytes()

    measure.train = partial(train, progress=pause)
    run_cells(cells(), out, data=data)


def place_cells(of=None):
    of = tiny_table() if of is None else of
    return list_cells(of, of.full)


def cells(of=None):
    return [one.cell for one in place_cells(of)]
