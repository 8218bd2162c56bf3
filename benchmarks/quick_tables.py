"""Run ``jeanie tables NAME --quick`` for every table on synthetic stand-ins in the formats of its data sets.

Writes stand-ins of MSRAction3D, 3D Action Pairs, UWA3D, UWA3D Multiview, NTU-60, NTU-120, Kinetics, NW-UCLA and SBU to
FOLDER/data, results into FOLDER/out/NAME, and prints a Markdown table: cells, minutes, and peak memory of a process.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.archive.writer import write_archive
from jeanie.paper.tables import load_tables
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

FRAMES = 24
NW_UCLA = (1, 2, 3, 4, 5, 6, 8, 9, 11, 12)


def body(joints: int, label: int, take: int) -> NDArray[np.float64]:
    """A body of ``joints`` joints 3 m in front of the camera that swings with a frequency of its class."""
    draw = np.random.default_rng([label, take])
    rest = np.random.default_rng(joints).normal(size=(joints, 3)) * (0.25, 0.5, 0.15)
    time_ = np.linspace(0, 1, FRAMES)[:, None, None]
    phase = np.cos(label * np.arange(joints))[:, None]
    swing = 0.15 * np.sin(2 * np.pi * (1 + label % 5) * time_ + label) * phase
    values: NDArray[np.float64] = rest + swing + 0.02 * draw.normal(size=(FRAMES, joints, 3)) + (0, 0, 3.0)
    return values


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def rows(values: NDArray[np.float64]) -> str:
    return "".join(" ".join(f"{x:.4f}" for x in row) + "\n" for row in values)


def with_confidence(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([values, np.ones((*values.shape[:-1], 1))], -1)


def write_msr(root: Path) -> None:
    for a, s, e in product(range(1, 21), range(1, 7), (1, 2)):
        name = f"a{a:02}_s{s:02}_e{e:02}_skeleton3D.txt"
        write(root / name, rows(with_confidence(body(20, a, 10 * s + e)).reshape(-1, 4)))


def write_pairs(root: Path) -> None:
    for a, s, e in product(range(1, 13), range(1, 7), (1, 2)):
        frames = with_confidence(body(20, a, 10 * s + e)).repeat(2, axis=1)
        text = f"{FRAMES} 20\n" + "".join("40\n" + rows(frame) for frame in frames)
        write(root / f"a{a:02}_s{s:02}_e{e:02}_skeleton.txt", text)


def write_uwa(root: Path, views: Iterable[int] = ()) -> None:
    cameras = [f"_v{view:02}" for view in views] or [""]
    for a, s, e, v in product(range(1, 31), range(1, 8), (1,), cameras):
        values = body(15, a, 10 * s + len(v) * int(v[-1:] or 0))
        write(root / f"a{a:02}_s{s:02}_e{e:02}{v}.txt", rows(1000 * values.reshape(FRAMES, 45)))


def write_ntu60(root: Path) -> None:
    for a, c, p in product(range(1, 61), (1, 2, 3), (1, 2, 8)):
        lines = [f"{FRAMES}\n"]
        for frame in body(25, a, 10 * p + c):
            joints = "".join(f"{x:.4f} {y:.4f} {z:.4f} 250 200 900 500 0 0 0 1 2\n" for x, y, z in frame)
            lines.append("1\n72057594037931101 0 1 1 1 1 0 0.02 -0.1 2\n25\n" + joints)
        write(root / f"S001C{c:03}P{p:03}R001A{a:03}.skeleton", "".join(lines))


def write_ntu120(root: Path) -> None:
    """Many clips, so they go into an archive, as ``jeanie prepare`` writes it; heights of setups beside it.

    Both halves of the classes have a bottom, a centre and a top camera: setups 7, 1 and 16 as published, 18 to 20 in
    the table.
    """

    def motions() -> Iterable[Motion]:
        for a in range(1, 121):
            setups = (1, 7, 16) if a <= 60 else (18, 19, 20)
            cameras = {(s, 3) for s in setups} | {(setups[0], c) for c in (1, 2, 3)}
            for (s, c), p in product(sorted(cameras), (1, 2, 3, 4, 5, 6, 8)):
                yield Motion(
                    body(25, a, 100 * s + 10 * p + c).astype(np.float32), LAYOUTS["ntu25"], label=a, subject=p, setup=s,
                    view=c, name=f"S{s:03}C{c:03}P{p:03}R001A{a:03}",
                )  # fmt: skip

    write_archive(motions(), root, name="ntu120")
    write(root.with_name("setups.csv"), "setup,height,distance\n18,0.5,4.5\n19,1.7,3.5\n20,2.7,3.5\n")


def write_kinetics(root: Path) -> None:
    for label, take in product(range(400), range(3)):
        values = body(18, label, take)
        flat = 0.5 + values[..., :2] / 4
        frames = [
            {
                "frame_index": t + 1,
                "skeleton": [{"pose": pose.round(4).ravel().tolist(), "score": [0.9] * 18}],
            }
            for t, pose in enumerate(flat)
        ]
        content = {"data": frames, "label": f"class {label:03}", "label_index": label}
        write(root / "kinetics_train" / f"clip{label:03}{take}.json", json.dumps(content))


def write_nw_ucla(root: Path) -> None:
    for a, s, e, v in product(NW_UCLA, range(1, 6), (1, 2), (1, 2, 3)):
        name = f"a{a:02}_s{s:02}_e{e:02}_v{v:02}"
        values = body(20, a, 100 * s + 10 * e + v).round(4).tolist()
        write(root / f"{name}.json", json.dumps({"file_name": name, "skeletons": values, "label": a}))


def write_sbu(root: Path) -> None:
    for number, pair in enumerate(("s01s02", "s03s04", "s05s06", "s07s02")):
        for a in range(1, 9):
            persons = np.concatenate([body(15, a, number), body(15, a, 9 + number)], 1) / 10 + 0.3
            text = "".join(f"{t + 1}," + ",".join(f"{x:.5f}" for x in row) + "\n"
                           for t, row in enumerate(persons.reshape(FRAMES, 90)))  # fmt: skip
            write(root / pair / f"{a:02}" / "001" / "skeleton_pos.txt", text)


def write_data(root: Path) -> None:
    writers = {
        "msraction3d": write_msr, "action-pairs": write_pairs, "uwa3d": write_uwa,
        "uwa3d-multiview": lambda folder: write_uwa(folder, (1, 2, 3, 4)), "ntu60": write_ntu60,
        "ntu120": write_ntu120, "kinetics": write_kinetics, "nw-ucla": write_nw_ucla, "sbu": write_sbu,
    }  # fmt: skip
    for name, writer in writers.items():
        if not (root / name).exists():
            writer(root / name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder for stand-ins and results")
    parser.add_argument("tables", nargs="*", help="names of tables (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default: 2)")
    options = parser.parse_args()
    folder, names = options.folder, options.tables or list(load_tables())
    write_data(folder / "data")
    print(
        "| table | cells | minutes | minutes of one core | peak GB of a process |\n|---|---|---|---|---|",
        flush=True,
    )
    for name in names:
        print(_measure(name, folder, options.jobs), flush=True)


def _measure(name: str, folder: Path, jobs: int) -> str:
    """Run a table in a process and return a row of Markdown.

    Every table has its own folder of results, because tables share measurements.
    """
    places = ["--data", str(folder / "data"), "--out", str(folder / "out" / name), "--jobs", str(jobs)]
    command = [sys.executable, "-m", "jeanie", "tables", name, "--quick", "--json", *places]
    start = time.monotonic()
    with (folder / "stdout").open("w+") as output, subprocess.Popen(command, stdout=output) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        shown = output.read()
    minutes, busy = (time.monotonic() - start) / 60, (usage.ru_utime + usage.ru_stime) / 60
    if process.returncode:
        return f"| `{name}` | exit code {process.returncode}: {shown[-300:]} | | | |"
    facts = json.loads(shown)
    failed = f", {facts['failed']} failed" if facts["failed"] else ""
    memory = usage.ru_maxrss * 1024 / 1e9
    return f"| `{name}` | {facts['measured']}{failed} | {minutes:.1f} | {busy:.1f} | {memory:.2f} |"


if __name__ == "__main__":
    main()
