"""Speed of alignment compared with other libraries, in one run (`make bench`).

Implementations run in turns, and the report compares their medians. Times are CPU milliseconds with one thread and wall
milliseconds with all threads. Compare times within a row, not between machines. Writes benchmarks/results/align.json
and docs/results/align.md.
"""

import argparse
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
from jeanie.kernel.library import load_library

ROOT = Path(__file__).resolve().parent.parent
GAMMA = 0.01
BUDGET_S = 1.5  # time limit of one library in one comparison
MAX_ROUNDS = 15
PAUSE_S = 0.02  # before each turn: threads of the previous library keep spinning and would occupy the cores
QUICK_S = 0.1  # faster steps run once before they are timed, because the other libraries leave cold caches
# (library, how many times faster forward+backward should be, name of the cases)
GOALS = (
    ("pysdtw", 12, "soft-DTW"), ("tslearn", 60, "soft-DTW"),
    ("jeanie torch", 30, "64 pairs, 7x7"), ("plain numba", 150, "64 pairs, 7x7"),
)  # fmt: skip
Step = Callable[[], object]
Times = dict[str, float]


def measure_in_turns(contestants: dict[str, Step], clock: Callable[[], float]) -> Times:
    """Return the median milliseconds of each library. They run in turns; slow ones run less often."""
    threads = torch.get_num_threads()

    def time_step(step: Step, warm: bool = False) -> float:
        torch.set_num_threads(threads)  # numba resets the number for the whole process
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
        time_step(step)  # compiles, loads and warms up
        seconds = max(time_step(step), 1e-5)
        times[name].append(seconds)
        turns[name] = min(MAX_ROUNDS, int(BUDGET_S / seconds))
    for turn in range(max(turns.values())):
        for name, step in contestants.items():
            if turn < turns[name]:
                times[name].append(time_step(step, warm=times[name][0] < QUICK_S))
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def make_gradient_step(function: Callable[[Tensor], Tensor], x: Tensor) -> Step:
    leaf = x.clone().requires_grad_()

    def run_both_passes() -> None:
        leaf.grad = None
        function(leaf).sum().backward()

    return run_both_passes


def compare_soft_dtw(pairs: int, blocks: int, features: int, clock: Callable[[], float]) -> dict[str, Times]:
    """Return the times of soft-DTW between features, including the base distances."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(pairs, blocks, features, generator=generator) / features**0.5 for _ in range(2))

    def make_align(backend: str) -> Callable[[Tensor], Tensor]:
        options = {"metric": "sqeuclidean", "gamma": GAMMA, "pairs": "matched", "backend": backend}
        return lambda q: jeanie.distances(q, y, **options)

    forward: dict[str, Step] = {
        "jeanie native": lambda: make_align("native")(x),
        "jeanie torch": lambda: make_align("reference")(x),
        "aeon": peers.make_aeon_step(x, y, GAMMA),
    }
    both_passes = {
        "jeanie native": make_gradient_step(make_align("native"), x),
        "jeanie torch": make_gradient_step(make_align("reference"), x),
    }
    forward["pysdtw"], both_passes["pysdtw"] = peers.make_pysdtw_steps(x, y, GAMMA)
    forward["tslearn"], both_passes["tslearn"] = peers.make_tslearn_steps(x, y, GAMMA)
    return {
        "forward": measure_in_turns(forward, clock),
        "forward+backward": measure_in_turns(both_passes, clock),
    }


def compare_viewpoints(
    pairs: int, views: tuple[int, ...], blocks: int, shift: int, clock: Callable[[], float]
) -> dict[str, Times]:
    """Return the times of JEANIE on random costs in [0, 1]."""
    cost = torch.rand(pairs, blocks, blocks, *views, generator=torch.Generator().manual_seed(0))

    def make_align(backend: str) -> Callable[[Tensor], Tensor]:
        return lambda c: jeanie.align(c, gamma=GAMMA, shift=shift, backend=backend)

    forward: dict[str, Step] = {
        "jeanie native": lambda: make_align("native")(cost),
        "jeanie torch": lambda: make_align("reference")(cost),
        "plain torch": lambda: peers.align_plain(cost, GAMMA, shift),
    }
    both_passes = {
        "jeanie native": make_gradient_step(make_align("native"), cost),
        "jeanie torch": make_gradient_step(make_align("reference"), cost),
        "plain torch": make_gradient_step(lambda c: peers.align_plain(c, GAMMA, shift), cost),
    }
    forward["plain numba"], both_passes["plain numba"] = peers.make_numba_steps(cost, GAMMA, shift)
    return {
        "forward": measure_in_turns(forward, clock),
        "forward+backward": measure_in_turns(both_passes, clock),
    }


def measure_scaling() -> dict[str, dict[str, float]]:
    """Return nanoseconds per cell, one thread, CPU time: by pairs (7x7, 30, shift 2) and by shift (9x9, 20).

    A cell is one number of the cost. The time covers ``align`` on given costs and its backward pass, including Python,
    torch and the memory for plan and gradient.
    """
    torch.set_num_threads(1)
    by_pairs = {n: torch.rand(n, 30, 30, 7, 7) for n in (16, 64, 256)}
    steps: dict[str, Step] = {
        str(n): make_gradient_step(lambda c: jeanie.align(c, shift=2), c) for n, c in by_pairs.items()
    }
    pairs = measure_in_turns(steps, time.process_time)
    wide = torch.rand(64, 20, 20, 9, 9)
    shifts = measure_in_turns(
        {
            str(s): make_gradient_step(lambda c, s=s: jeanie.align(c, shift=s), wide)
            for s in (1, 2, 3, 4, 6, 8)
        },
        time.process_time,
    )
    return {
        "pairs": {n: 1e6 * ms / by_pairs[int(n)].numel() for n, ms in pairs.items()},
        "shift": {s: 1e6 * ms / wide.numel() for s, ms in shifts.items()},
    }


def count_instructions() -> dict[str, float] | str:
    """Return the instructions per cell. Callgrind counts them, so the load of the machine does not matter."""
    library, compiler = load_library(), shutil.which("c++") or shutil.which("g++")
    if not shutil.which("valgrind") or not compiler or library is None:
        return "not measured: needs valgrind, a C++ compiler and the kernel"
    cases = {"7x7, 30 blocks, shift 2": (64, 30, 7, 7, 2), "5x5, 20 blocks, shift 1": (64, 20, 5, 5, 1),
             "no views, 64 blocks": (64, 64, 1, 1, 0)}  # fmt: skip
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/instructions"
        subprocess.run(
            [compiler, "-O2", "-o", program, str(ROOT / "benchmarks/instructions.cpp"), "-ldl"], check=True
        )
        for name, case in cases.items():
            for backward in (0, 1):
                output = subprocess.run(
                    ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=jeanie_align",
                     program, library._name, *map(str, (*case, backward))],
                    capture_output=True, text=True, check=True)  # fmt: skip
                count = int(
                    next(line for line in output.stderr.splitlines() if "Collected" in line).split()[-1]
                )
                pairs, blocks, a, b, _ = case
                label = "forward+backward" if backward else "forward"
                counts[f"{name}, {label}"] = count / (pairs * blocks * blocks * a * b)
    return counts


_MEMORY = """
import re, torch, jeanie
def peak():  # not ru_maxrss, which starts with the size of the parent process
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


def measure_memory() -> Times:
    """Return the extra peak memory of align as a multiple of its cost, and the peak of a large all-pairs call in MB."""

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
    "soft-DTW, 64 pairs x 64 blocks x 64 features": (compare_soft_dtw, (64, 64, 64)),
    "soft-DTW, 16 pairs x 512 blocks x 64 features": (compare_soft_dtw, (16, 512, 64)),
    "64 pairs, 7x7 views, 30 blocks, shift 2": (compare_viewpoints, (64, (7, 7), 30, 2)),
    "256 pairs, 5x5 views, 20 blocks, shift 1": (compare_viewpoints, (256, (5, 5), 20, 1)),
    "64 pairs, 3x3 with 3x3 views, 20 blocks, shift 1": (compare_viewpoints, (64, (3, 3, 3, 3), 20, 1)),
}


def compare(case: str, threads: int) -> dict[str, Times]:
    """Return the times of one case: CPU time with one thread, wall time with several."""
    torch.set_num_threads(threads)
    function, arguments = CASES[case]
    return function(*arguments, time.process_time if threads == 1 else time.perf_counter)


def run_in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a measurement in a new process, so that it does not use the heap of an earlier one.

    If an earlier case leaves gigabytes of free memory, tslearn's temporary tensors of 64 MB need no new pages and take
    a third of the time that they take in a new process.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def read_commit() -> str:
    output = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT)
    return output.stdout.strip()


def measure() -> dict[str, object]:
    result: dict[str, object] = {
        "machine": platform.processor() or platform.machine(), "cores": torch.get_num_threads(),
        "instruction_set": get_instruction_set(), "torch": torch.__version__, "python": platform.python_version(),
        "commit": read_commit(),
        "gamma": GAMMA, "dtype": "float32", "seed": 0,
    }  # fmt: skip
    for threads in (1, torch.get_num_threads()):
        key = "1 thread, CPU ms" if threads == 1 else f"{threads} threads, wall ms"
        result[key] = {case: run_in_new_process(compare, case, threads) for case in CASES}
        print(json.dumps(result[key], indent=1), flush=True)
    result["ns per cell, forward+backward, 1 thread"] = run_in_new_process(measure_scaling)
    result["instructions per cell"] = count_instructions()
    result["memory"] = measure_memory()
    return result


def format_page(result: dict[str, object]) -> str:
    """Return the text of docs/results/align.md."""
    head = ", ".join(
        f"{k} {result[k]}"
        for k in ("machine", "cores", "instruction_set", "torch", "commit", "dtype", "gamma")
    )
    lines = [
        "# Alignment speed compared with other libraries",
        "",
        "Written by `make bench` (`benchmarks/align.py`). Medians of rounds in which all libraries run in turns.",
        "In parentheses: how many times slower than `jeanie native` in the same run.",
        "",
        "Soft-DTW cases start from features: base distances, alignment and, with backward, the gradient with respect",
        "to the first argument. Cases with views start from costs. Times include Python and torch. One thread is CPU",
        "time. All threads is wall time; pysdtw, tslearn and numba also use their own threads. Every case runs in a",
        "new process, where new memory causes page faults, as in a user's program. If a process has free memory from",
        "earlier work, temporary tensors need no new pages: then tslearn's forward+backward at 64 blocks on two",
        "threads took 48 ms instead of 150, which is 32 times as long as jeanie instead of more than 100 times.",
        "",
        head + ".",
        "",
    ]
    for key, cases in result.items():
        if not key.endswith(" ms"):
            continue
        lines += [f"## {key}", "", "| case | pass | milliseconds |", "|---|---|---|"]
        for case, passes in cases.items():  # type: ignore[attr-defined]
            for name, times in passes.items():
                kernel_ms = times["jeanie native"]
                output = ", ".join(
                    f"{library} {format_number(ms)} ({format_number(ms / kernel_ms)}x)"
                    for library, ms in sorted(times.items(), key=lambda entry: entry[1])
                )
                lines.append(f"| {case} | {name} | {output} |")
        lines.append("")
    lines += format_goals(result)
    key = "ns per cell, forward+backward, 1 thread"
    lines += [f"## {key}", ""]
    for axis, times in result[key].items():  # type: ignore[attr-defined]
        lines += [f"| {axis} | {' | '.join(times)} |", "|---" * (1 + len(times)) + "|"]
        lines += [f"| ns per cell | {' | '.join(map(format_number, times.values()))} |", ""]
    for key, unit in (("instructions per cell", "instructions"), ("memory", "peak")):
        lines += [f"## {key}", "", f"| case | {unit} |", "|---|---|"]
        lines += [f"| {case} | {format_number(value)} |" for case, value in result[key].items()]  # type: ignore[attr-defined]
        lines.append("")
    return "\n".join(lines)


def format_number(value: float) -> str:
    """Return a number with three digits, without an exponent.

    >>> format_number(4213.7), format_number(1.896), format_number(18.83)
    ('4,210', '1.9', '18.8')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def format_goals(result: dict[str, Any]) -> list[str]:
    """Return the table of the speed goals for forward+backward, and whether this run reached them."""
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--page", action="store_true", help="measure nothing; write the page from the stored results"
    )
    stored = ROOT / "benchmarks/results/align.json"
    result = json.loads(stored.read_text()) if parser.parse_args().page else measure()
    stored.parent.mkdir(parents=True, exist_ok=True)
    stored.write_text(json.dumps(result, indent=1) + "\n")
    (ROOT / "docs/results/align.md").write_text(format_page(result))
    print(format_page(result))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
