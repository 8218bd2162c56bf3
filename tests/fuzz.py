"""Damaged files for every reader: each must end in a motion or a DataError, within limits of time and memory.

    python tests/fuzz.py --cases 20000 --seed 0

The cases run in a worker process with limited memory, so that a crash of native code is a finding like any other.
``--seed S --only N`` repeats case N and shows its traceback; ``--keep DIR`` writes its files there.
"""

import argparse
import json
import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

from fuzz_damage import list_damages
from fuzz_seeds import Seed, make_seeds

from jeanie.datasets import read_motion
from jeanie.errors import DataError, RecordingWarning

__all__ = ["main"]

CPU_SECONDS = 10.0
SILENT_SECONDS = 400  # of a process that hangs; long, because a busy machine makes CPU seconds last
MEMORY = 3 * 2**29  # in addition to the process after its imports


class TooSlow(BaseException):
    """A case took too much processor time."""


def main() -> int:
    """Run the cases and print a report. Return 0 without findings, else 1."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--cases", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", type=int, help="run one case here and show its traceback")
    options.add_argument("--keep", type=Path, help="folder for the files of that case")
    options.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.work:
        return run_cases(chosen.seed, *chosen.work)
    if chosen.only is not None:
        return repeat_case(chosen.seed, chosen.only, chosen.keep)
    report = supervise(chosen.seed, chosen.cases, quiet=chosen.json)
    sys.stdout.write((json.dumps(report) if chosen.json else json.dumps(report, indent=1)) + "\n")
    return 1 if report["findings"] else 0


def make_case(seed: int, number: int, seeds: list[Seed]) -> tuple[Seed, dict[str, bytes]]:
    """Return a seed and its files, damaged."""
    chance = random.Random(f"{seed}:{number}")
    chosen = chance.choices(seeds, [entry.weight for entry in seeds])[0]
    files = dict(chosen.files)
    name = chance.choice(chosen.damage)
    data = files[name]
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = chance.choice(list_damages(name))(data, chance)
    files[name] = data
    if chance.random() < 0.01:
        del files[name]
    if len(chosen.files) == 1 and chance.random() < 0.25:
        chosen = replace(chosen, name=f"read_motion as {chosen.name}", read=read_motion)
    return chosen, files


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    """Write the files of a case into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def read_case(chosen: Seed, folder: Path) -> str:
    """Return the outcome of a case: Motion, DataError, or a description of a wrong error."""
    path = folder if len(chosen.files) > 1 else folder / next(iter(chosen.files))
    try:
        chosen.read(path)
    except DataError as error:
        return "DataError" if str(folder) in str(error) else f"DataError without the file: {str(error)[:200]}"
    return "Motion"


def run_cases(seed: int, first: int, stop: int) -> int:
    """Run cases and print the start and the outcome of each one."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", RecordingWarning)  # damaged files are implausible
    seeds = make_seeds()
    limit_memory()
    signal.signal(signal.SIGPROF, raise_too_slow)
    with tempfile.TemporaryDirectory() as place:
        for number in range(first, stop):
            chosen, files = make_case(seed, number, seeds)
            folder = write_files(Path(place) / "case", files)
            print_line({"begin": number, "seed": chosen.name})
            before = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            try:
                outcome = read_case(chosen, folder)
            except (Exception, TooSlow) as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                location = f"{Path(where.filename).name}:{where.lineno}"
                outcome = f"{type(error).__name__}: {str(error)[:200]} at {location}"
            signal.setitimer(signal.ITIMER_PROF, 0)
            print_line({"end": number, "outcome": outcome, "seconds": time.process_time() - before})
    print_line({"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024})
    return 0


def limit_memory() -> None:
    """Limit the memory of this process."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        size = int(statm.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def raise_too_slow(*_: object) -> None:
    raise TooSlow(f"more than {CPU_SECONDS} seconds of processor time")


def print_line(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def supervise(seed: int, cases: int, *, quiet: bool) -> dict[str, object]:
    """Run all cases in a worker process, and start a new one after each crash."""
    outcomes: Counter[str] = Counter()
    readers: Counter[str] = Counter()
    findings: list[dict[str, object]] = []
    slowest, peak, first = 0.0, 0, 0
    while first < cases:
        state = {"begin": first, "seed": "?"}
        command = [sys.executable, __file__, "--seed", str(seed), "--work", str(first), str(cases)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        for line in read_lines(process):
            if "begin" in line:
                state = line
            elif "peak" in line:
                peak = max(peak, line["peak"])
            else:
                first = line["end"] + 1
                slowest = max(slowest, line["seconds"])
                readers[state["seed"].split()[0]] += 1
                outcomes[line["outcome"] if line["outcome"] in ("Motion", "DataError") else "finding"] += 1
                if line["outcome"] not in ("Motion", "DataError"):
                    findings.append(
                        {"case": line["end"], "reader": state["seed"], "outcome": line["outcome"]}
                    )
                if not quiet and first % 2000 == 0:
                    sys.stderr.write(f"{first} of {cases}: {dict(outcomes)}\n")
        ended = process.wait()
        if ended and state["seed"] == "?":
            raise SystemExit(f"the worker process does not start: exit code {ended}")
        if ended and first < cases:
            outcome = (
                f"the process ended with {ended}"
                if ended != -9
                else f"no output for {SILENT_SECONDS} s, or killed"
            )
            findings.append({"case": state["begin"], "reader": state["seed"], "outcome": outcome})
            outcomes["finding"] += 1
            first = state["begin"] + 1
    return {
        "cases": sum(outcomes.values()),
        "seed": seed,
        "outcomes": dict(outcomes),
        "readers": dict(readers),
        "slowest_cpu_seconds": round(slowest, 3),
        "peak_bytes": peak,
        "findings": findings,
    }


def read_lines(process: "subprocess.Popen[bytes]"):
    """Yield the lines of a worker process; kill it if it is silent for too long."""
    rest = b""
    while True:
        if not select.select([process.stdout], [], [], SILENT_SECONDS)[0]:
            process.kill()
        more = os.read(process.stdout.fileno(), 65536)
        if not more:
            process.stdout.close()
            return
        *complete, rest = (rest + more).split(b"\n")
        yield from map(json.loads, complete)


def repeat_case(seed: int, number: int, keep: Path | None) -> int:
    """Run one case in this process."""
    chosen, files = make_case(seed, number, make_seeds())
    folder = write_files((keep or Path(tempfile.mkdtemp())) / "case", files)
    sys.stdout.write(f"{chosen.name} in {folder}\n")
    sys.stdout.write(read_case(chosen, folder) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
