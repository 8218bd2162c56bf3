"""Damaged files for every reader: each must end in a motion or in a DataError, soon, and in bounded memory.

    python tests/fuzz.py --cases 20000 --seed 0

The cases run in a process of their own, limited in memory and watched, so that a crash of native code is a
finding like any other. ``--seed S --only N`` makes case N again and shows its traceback, and ``--keep DIR``
writes its files there.
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

from fuzz_damage import ways
from fuzz_seeds import Seed, seeds

from jeanie.datasets import read_motion
from jeanie.errors import DataError

__all__ = ["main"]

CPU_SECONDS = 10.0
SILENT_SECONDS = 150
MEMORY = 3 * 2**29  # above what the process has when all is loaded


class TooSlow(BaseException):
    """A case took more processor time than it may."""


def main() -> int:
    """Run the cases and report; 0 if nothing was found."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--cases", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", type=int, help="run one case here and show its traceback")
    options.add_argument("--keep", type=Path, help="folder for the files of that case")
    options.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    options.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.work:
        return work(chosen.seed, *chosen.work)
    if chosen.only is not None:
        return show(chosen.seed, chosen.only, chosen.keep)
    report = watch(chosen.seed, chosen.cases, quiet=chosen.json)
    sys.stdout.write((json.dumps(report) if chosen.json else json.dumps(report, indent=1)) + "\n")
    return 1 if report["findings"] else 0


def case(seed: int, number: int, start: list[Seed]) -> tuple[Seed, dict[str, bytes]]:
    """The files of a case."""
    chance = random.Random(f"{seed}:{number}")
    chosen = chance.choices(start, [one.weight for one in start])[0]
    files = dict(chosen.files)
    name = chance.choice(chosen.damage)
    data = files[name]
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = chance.choice(ways(name))(data, chance)
    files[name] = data
    if chance.random() < 0.01:
        del files[name]
    if len(chosen.files) == 1 and chance.random() < 0.25:
        chosen = replace(chosen, name=f"read_motion as {chosen.name}", read=read_motion)
    return chosen, files


def put(folder: Path, files: dict[str, bytes]) -> Path:
    """Write the files of a case; the path that its reader is given."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def attempt(start: Seed, folder: Path) -> str:
    """What became of a case: Motion, DataError, or what should not have come."""
    path = folder if len(start.files) > 1 else folder / next(iter(start.files))
    try:
        start.read(path)
    except DataError as error:
        return "DataError" if str(folder) in str(error) else f"DataError without the file: {str(error)[:200]}"
    return "Motion"


def work(seed: int, first: int, stop: int) -> int:
    """Run cases, and say on standard output what is begun and what came of it."""
    warnings.simplefilter("error")
    start = seeds()
    limits()
    signal.signal(signal.SIGPROF, too_slow)
    with tempfile.TemporaryDirectory() as place:
        for number in range(first, stop):
            chosen, files = case(seed, number, start)
            folder = put(Path(place) / "case", files)
            say({"begin": number, "seed": chosen.name})
            before = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            try:
                outcome = attempt(chosen, folder)
            except (Exception, TooSlow) as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                place_of = f"{Path(where.filename).name}:{where.lineno}"
                outcome = f"{type(error).__name__}: {str(error)[:200]} at {place_of}"
            signal.setitimer(signal.ITIMER_PROF, 0)
            say({"end": number, "outcome": outcome, "seconds": time.process_time() - before})
    say({"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024})
    return 0


def limits() -> None:
    """Bound the memory of this process."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        size = int(statm.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def too_slow(*_: object) -> None:
    raise TooSlow(f"more than {CPU_SECONDS} seconds of processor time")


def say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def watch(seed: int, cases: int, *, quiet: bool) -> dict[str, object]:
    """Run all cases in working processes, a new one after each that broke down."""
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
        for line in heard(process):
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
        if ended and first < cases:
            said = (
                f"the process ended with {ended}"
                if ended != -9
                else f"no end after {SILENT_SECONDS} s, or killed"
            )
            findings.append({"case": state["begin"], "reader": state["seed"], "outcome": said})
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


def heard(process: "subprocess.Popen[bytes]"):
    """What a working process says; it is killed when it is silent for too long."""
    waiting = b""
    while True:
        if not select.select([process.stdout], [], [], SILENT_SECONDS)[0]:
            process.kill()
        more = os.read(process.stdout.fileno(), 65536)
        if not more:
            process.stdout.close()
            return
        *whole, waiting = (waiting + more).split(b"\n")
        yield from map(json.loads, whole)


def show(seed: int, number: int, keep: Path | None) -> int:
    """Run one case here."""
    chosen, files = case(seed, number, seeds())
    folder = put((keep or Path(tempfile.mkdtemp())) / "case", files)
    sys.stdout.write(f"{chosen.name} in {folder}\n")
    sys.stdout.write(attempt(chosen, folder) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
