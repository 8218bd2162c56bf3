"""Functions that write a file of the corpus: text, JSON, numpy arrays and tables."""

import json

import numpy as np

from corpus.body import CORE, FRAMES, RATE, stack


def text_file(name, make):
    def write(folder):
        (folder / name).write_text(make(), encoding="utf-8")
        return folder / name

    return write


def json_file(name, make):
    return text_file(name, lambda: json.dumps(make()))


def npy_file(name, make):
    def write(folder):
        np.save(folder / name, make())
        return folder / name

    return write


def bytes_file(name, make):
    def write(folder):
        (folder / name).write_bytes(make())
        return folder / name

    return write


def npz_file(name, **make):
    def write(folder):
        np.savez(folder / name, **{key: array() for key, array in make.items()})
        return folder / name

    return write


def table(titles, rows, separator=","):
    lines = [separator.join(titles)] if titles else []
    return "\n".join([*lines, *(separator.join(map(str, row)) for row in rows)]) + "\n"


def wide(names, points, title="{name}_{axis}", axes="xyz", before=(), scale=1.0):
    """A table with one row per frame and a column for each axis of each name."""
    titles = [title.format(name=name, axis=axis) for name in names for axis in axes]
    rows = [
        [*(value(frame) for _, value in before), *np.round(points[frame].ravel() * scale, 6).tolist()]
        for frame in range(len(points))
    ]
    return table([*(name for name, _ in before), *titles], rows)


def long(names, points):
    rows = [
        [f, name, *np.round(points[f, j], 6).tolist(), 0.98]
        for f in range(FRAMES)
        for j, name in enumerate(names)
    ]
    return table(["frame", "landmark", "x", "y", "z", "visibility"], rows)


TIME = ("time", lambda frame: round(frame / RATE, 6))


def core(before=(TIME,), **options):
    """A plain table of 15 joints, the base of the variations below."""
    return wide(CORE, stack(CORE), before=list(before), **options)


def frame_folder(make):
    """A folder with one JSON file per frame."""

    def write(folder):
        (folder / "take").mkdir()
        for frame in range(FRAMES):
            (folder / "take" / f"frame_{frame + 9}.json").write_text(json.dumps(make(frame)))
        return folder / "take"

    return write
