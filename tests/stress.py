"""Repeat the tests that depend on processes or timing while other processes keep every core busy twice over.

    python tests/stress.py --rounds 20

A test that fails once in twenty rounds is a defect. The exit code is 1 if any round fails.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

OPTIONS = ["-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--explore"]
COMMAND = [sys.executable, "-m", "pytest", "-o", "addopts=--strict-markers -ra", "-m", "processes", *OPTIONS]


def find_marked_files() -> list[str]:
    """Return the files with tests that are marked; to collect all others would take longer than many of the tests."""
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    return [str(path) for path in files if "mark.processes" in path.read_text()]


def burn_cpu() -> None:
    """Keep one core busy until the process is terminated."""
    while True:
        pass


def main() -> int:
    """Run the rounds and return the exit code."""
    parser = argparse.ArgumentParser(description="Repeat process and timing tests under CPU load.")
    parser.add_argument("--rounds", type=int, default=20, help="number of repetitions")
    parser.add_argument("--load", type=float, default=2.0, help="busy processes per core")
    parser.add_argument("tests", nargs="*", default=find_marked_files(), help="files to select tests from")
    options = parser.parse_args()
    burners = [
        multiprocessing.Process(target=burn_cpu, daemon=True)
        for _ in range(round(options.load * (os.cpu_count() or 1)))
    ]
    for burner in burners:
        burner.start()
    failed = []
    try:
        for number in range(1, options.rounds + 1):
            start = time.monotonic()
            code = subprocess.run([*COMMAND, *options.tests], check=False).returncode
            print(f"round {number}: exit code {code}, {time.monotonic() - start:.0f} s", flush=True)  # noqa: T201
            failed += [number] if code else []
    finally:
        for burner in burners:
            burner.kill()
    print(f"{len(failed)} of {options.rounds} rounds failed {failed or ''}".rstrip())  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
