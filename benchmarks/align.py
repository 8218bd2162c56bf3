"""How fast alignment is, beside what else there is: one run, interleaved, medians, ratios. `make bench`.

Writes benchmarks/results/align.json and docs/results/align.md. Times are CPU milliseconds on one thread and wall
milliseconds on all threads; compare within a row, not between machines.
"""

import json
import multiprocessing
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import peers
import torch
from torch import Tensor

import jeanie
from jeanie.alignment import get_instruction_set
from jeanie.alignment.backends.kernel_library import load_library

ROOT = Path(__file__).resolve().parent.parent
GAMMA = 0.01
BUDGET_S = 1.5  # of one contestant in one comparison
MAX_ROUNDS = 15
PAUSE_S = 0.02  # before each turn: threads of the contestant before spin on for a while, on cores that this one needs
QUICK_S = 0.1  # steps below are done once before they are timed, as the others have left them cold caches
# (contestant, how many times faster forward+backward should be, in which cases)
GOALS = (
    ("pysdtw", 12, "soft-DTW"), ("tslearn", 60, "soft-DTW"),
    ("jeanie torch", 30, "64 pairs, 7x7"), ("plain numba", 150, "64 pairs, 7x7"),
)  # fmt: skip
Step = Callable[[], object]
Times = dict[str, float]


def interleaved(contestants: dict[str, Step], clock: Callable[[], float]) -> Times:
    """Median milliseconds of each, measured in turns so that noise hits all alike; slow ones take fewer turns."""
    threads = torch.get_num_threads()

    def timed(step: Step, warm: bool = False) -> float:
        torch.set_num_threads(threads)  # numba, once it runs, resets the number for the whole process
        numba.set_num_threads(threads)
        time.sleep(PAUSE_S)
        if warm:
            step()
        start = clock()
        step()
        return clock() - start

    times: dict[str, list[float]] = {name: [] for name in contestants}
    turns = {}
    for name, step in contestants.items():
        timed(step)  # compiles, loads and warms up
        seconds = max(timed(step), 1e-5)
        times[name].append(seconds)
        turns[name] = min(MAX_ROUNDS, int(BUDGET_S / seconds))
    for turn in range(max(turns.values())):
        for name, step in contestants.items():
            if turn < turns[name]:
                times[name].append(timed(step, warm=times[name][0] < QUICK_S))
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def gradient_step(function: Callable[[Tensor], Tensor], x: Tensor) -> Step:
    leaf = x.clone().requires_grad_()

    def both() -> None:
        leaf.grad = None
        function(leaf).sum().backward()

    return both


def soft_dtw(pairs: int, blocks: int, features: int, clock: Callable[[], float]) -> dict[str, Times]:
    """Soft-DTW between features, distances included."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(pairs, blocks, features, generator=generator) / features**0.5 for _ in range(2))

    def ours(backend: str) -> Callable[[Tensor], Tensor]:
        options = {"metric": "sqeuclidean", "gamma": GAMMA, "pairs": "matched", "backend": backend}
        return lambda q: jeanie.distances(q, y, **options)

    forward: dict[str, Step] = {
        "jeanie native": lambda: ours("native")(x),
        "jeanie torch": lambda: ours("reference")(x),
        "aeon": peers.aeon_step(x, y, GAMMA),
    }
    both = {
        "jeanie native": gradient_step(ours("native"), x),
        "jeanie torch": gradient_step(ours("reference"), x),
    }
    forward["pysdtw"], both["pysdtw"] = peers.pysdtw_steps(x, y, GAMMA)
    forward["tslearn"], both["tslearn"] = peers.tslearn_steps(x, y, GAMMA)
    return {"forward": interleaved(forward, clock), "forward+backward": interleaved(both, clock)}


def viewpoints(
    pairs: int, views: tuple[int, ...], blocks: int, shift: int, clock: Callable[[], float]
) -> dict[str, Times]:
    """JEANIE on random costs in [0, 1]."""
    cost = torch.rand(pairs, blocks, blocks, *views, generator=torch.Generator().manual_seed(0))

    def ours(backend: str) -> Callable[[Tensor], Tensor]:
        return lambda c: jeanie.align(c, gamma=GAMMA, shift=shift, backend=backend)

    forward: dict[str, Step] = {
        "jeanie native": lambda: ours("native")(cost),
        "jeanie torch": lambda: ours("reference")(cost),
        "plain torch": lambda: peers.torch_plain(cost, GAMMA, shift),
    }
    both = {
        "jeanie native": gradient_step(ours("native"), cost),
        "jeanie torch": gradient_step(ours("reference"), cost),
        "plain torch": gradient_step(lambda c: peers.torch_plain(c, GAMMA, shift), cost),
    }
    forward["plain numba"], both["plain numba"] = peers.numba_steps(cost, GAMMA, shift)
    return {"forward": interleaved(forward, clock), "forward+backward": interleaved(both, clock)}


def scaling() -> dict[str, dict[str, float]]:
    """Nanoseconds a cell, one thread, CPU time: over pairs (7x7, 30, shift 2), over shifts (9x9, 20).

    A cell is one number of the cost. The time is that of a whole ``align`` on given costs and its backward: Python,
    torch and the memory for plan and gradient included.
    """
    torch.set_num_threads(1)
    by_pairs = {n: torch.rand(n, 30, 30, 7, 7) for n in (16, 64, 256)}
    steps: dict[str, Step] = {
        str(n): gradient_step(lambda c: jeanie.align(c, shift=2), c) for n, c in by_pairs.items()
    }
    pairs = interleaved(steps, time.process_time)
    wide = torch.rand(64, 20, 20, 9, 9)
    shifts = interleaved(
        {str(s): gradient_step(lambda c, s=s: jeanie.align(c, shift=s), wide) for s in (1, 2, 3, 4, 6, 8)},
        time.process_time,
    )
    return {
        "pairs": {n: 1e6 * ms / by_pairs[int(n)].numel() for n, ms in pairs.items()},
        "shift": {s: 1e6 * ms / wide.numel() for s, ms in shifts.items()},
    }


def instructions() -> dict[str, float] | str:
    """Instructions a cell by callgrind, which counts the same on any load."""
    library, compiler = load_library(), shutil.which("c++") or shutil.which("g++")
    if not shutil.which("valgrind") or not compiler or library is None:
        return "not measured: needs valgrind, a C++ compiler and the kernel"
    cases = {"7x7, 30 blocks, shift 2": (64, 30, 7, 7, 2), "5x5, 20 blocks, shift 1": (64, 20, 5, 5, 1),
             "no views, 64 blocks": (64, 64, 1, 1, 0)}  # fmt: skip
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/instructions"
        subprocess.run(
            [compiler, "-O2", "-o", program, str(ROOT / "benchmarks/instructions.cpp"), "-ldl"], check=True
        )
        for name, case in cases.items():
            for backward in (0, 1):
                shown = subprocess.run(
                    ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=jeanie_align",
                     program, library._name, *map(str, (*case, backward))],
                    capture_output=True, text=True, check=True)  # fmt: skip
                count = int(
                    next(line for line in shown.stderr.splitlines() if "Collected" in line).split()[-1]
                )
                pairs, blocks, a, b, _ = case
                label = "forward+backward" if backward else "forward"
                found[f"{name}, {label}"] = count / (pairs * blocks * blocks * a * b)
    return found


_MEMORY = """
import re, torch, jeanie
def peak():  # not ru_maxrss, which begins with the size of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
x = torch.rand(2, 3, 3, 3, 3, requires_grad=True); jeanie.align(x).sum().backward()
if {kind!r} == "align":
    x = torch.rand(1024, 30, 30, 7, 7).requires_grad_(); start = peak()
    jeanie.align(x, shift=2).sum().backward()
    print((peak() - start) / (x.numel() * 4 / 2**20))
else:
    q, s = torch.rand(1000, 30, 7, 7, 32), torch.rand(100, 30, 32)
    jeanie.distances(q, s, shift=2)
    print(peak())
"""


def memory() -> Times:
    """Peak extra memory of align as a multiple of its cost, and of a large all-pairs call in MB."""

    def run(kind: str) -> float:
        code = _MEMORY.format(kind=kind)
        return float(
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        )

    return {
        "align, extra over cost": run("align"),
        "1000 x 100 motions of 7x7 x 30 blocks, MB": run("distances"),
    }


CASES: dict[str, tuple[Callable[..., dict[str, Times]], tuple[Any, ...]]] = {
    "soft-DTW, 64 pairs x 64 blocks x 64 features": (soft_dtw, (64, 64, 64)),
    "soft-DTW, 16 pairs x 512 blocks x 64 features": (soft_dtw, (16, 512, 64)),
    "64 pairs, 7x7 views, 30 blocks, shift 2": (viewpoints, (64, (7, 7), 30, 2)),
    "256 pairs, 5x5 views, 20 blocks, shift 1": (viewpoints, (256, (5, 5), 20, 1)),
    "64 pairs, 3x3 with 3x3 views, 20 blocks, shift 1": (viewpoints, (64, (3, 3, 3, 3), 20, 1)),
}


def compare(case: str, threads: int) -> dict[str, Times]:
    """One comparison of the table: CPU time of one thread, wall time of several."""
    torch.set_num_threads(threads)
    function, arguments = CASES[case]
    return function(*arguments, time.process_time if threads == 1 else time.perf_counter)


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """A measurement in a new process, so that none finds the heap as another left it.

    Where an earlier case had left gigabytes of free memory, tslearn's temporaries of 64 MB needed no new pages and
    took a third of the time that they take in a process that has just begun.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def commit() -> str:
    shown = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT)
    return shown.stdout.strip()


def measure() -> dict[str, object]:
    result: dict[str, object] = {
        "machine": platform.processor() or platform.machine(), "cores": torch.get_num_threads(),
        "instruction_set": get_instruction_set(), "torch": torch.__version__, "python": platform.python_version(),
        "commit": commit(),
        "gamma": GAMMA, "dtype": "float32", "seed": 0,
    }  # fmt: skip
    for threads in (1, torch.get_num_threads()):
        key = "1 thread, CPU ms" if threads == 1 else f"{threads} threads, wall ms"
        result[key] = {case: apart(compare, case, threads) for case in CASES}
        print(json.dumps(result[key], indent=1), flush=True)
    result["ns a cell, forward+backward, 1 thread"] = apart(scaling)
    result["instructions a cell"] = instructions()
    result["memory"] = memory()
    return result


def markdown(result: dict[str, object]) -> str:
    """The tables that docs/results/align.md shows."""
    head = ", ".join(
        f"{k} {result[k]}"
        for k in ("machine", "cores", "instruction_set", "torch", "commit", "dtype", "gamma")
    )
    lines = [
        "# Alignment: speed",
        "",
        "Written by `make bench` (`benchmarks/align.py`); medians of interleaved rounds.",
        "In brackets: how many times slower than `jeanie native` in the same run.",
        "",
        "Soft-DTW starts from features: distances, alignment and, with backward, the gradient by the first argument's",
        "features. The cases with views start from costs. Times include Python and torch. One thread is CPU time; all",
        "threads is wall time, where pysdtw, tslearn and numba's own threads count as well. Every case runs in a",
        "process of its own: new memory costs page faults there, as it does in a program of yours. Where a process",
        "holds free memory from earlier work, temporaries need no new pages: tslearn's forward+backward at 64 blocks",
        "on two threads then took 48 ms instead of 150, 32 times as long as ours instead of more than 100 times.",
        "",
        head + ".",
        "",
    ]
    for key, cases in result.items():
        if not key.endswith(" ms"):
            continue
        lines += [f"## {key}", "", "| case | pass | contestants |", "|---|---|---|"]
        for case, passes in cases.items():  # type: ignore[attr-defined]
            for name, times in passes.items():
                ours = times["jeanie native"]
                shown = ", ".join(
                    f"{n} {ms:.3g} ({ms / ours:.1f}x)" for n, ms in sorted(times.items(), key=lambda x: x[1])
                )
                lines.append(f"| {case} | {name} | {shown} |")
        lines.append("")
    lines += goals(result)
    for key in ("ns a cell, forward+backward, 1 thread", "instructions a cell", "memory"):
        lines += [f"## {key}", "", "```", json.dumps(result[key], indent=1), "```", ""]
    return "\n".join(lines)


def goals(result: dict[str, Any]) -> list[str]:
    """What was aimed at, forward+backward, and whether this run reached it."""
    lines = ["## Goals, forward+backward", "", "| goal | case | run | reached |", "|---|---|---|---|"]
    for name, least, start in GOALS:
        for key in (key for key in result if key.endswith(" ms")):
            for case in (case for case in result[key] if case.startswith(start)):
                times = result[key][case]["forward+backward"]
                ratio = times[name] / times["jeanie native"]
                verdict = "yes" if ratio >= least else "no"
                lines.append(f"| {least}x {name} | {case} | {key} | {verdict}: {ratio:.1f}x |")
    return [*lines, ""]


def main() -> None:
    result = measure()
    for path, text in (
        (ROOT / "benchmarks/results/align.json", json.dumps(result, indent=1) + "\n"),
        (ROOT / "docs/results/align.md", markdown(result)),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(markdown(result))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
