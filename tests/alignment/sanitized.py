"""Run the tests of the compiled kernel on a build with AddressSanitizer and UndefinedBehaviorSanitizer.

``python tests/alignment/sanitized.py [--cases COUNT]`` builds the kernel into a temporary folder, runs the tests with
it, and runs COUNT random cases per test on the instruction sets. Any report ends the process with an error.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
MLP = "tests/encoders/test_joint_mlp.py"
BOUNDS = "tests/recogniser/search/test_bounds.py"
RANDOM = "tests/alignment/test_random_cases.py"
# these measure memory, which the sanitizer multiplies, or build a kernel themselves
SLOW = "not memory and not large and not takes_the_place and not large_batch and not two_thousand"


def find_runtime(name: str) -> str:
    """Return the path of a runtime library of the compiler."""
    result = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def build(folder: Path) -> Path:
    """Build the kernel with sanitizers and return its file."""
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-DJEANIE_SANITIZE=ON"], check=True)
    subprocess.run(["cmake", "--build", folder, "--parallel", "2"], check=True)
    return folder / "_kernel.so"


def run_tests(environment: dict[str, str], *arguments: str) -> int:
    """Run pytest in a process of its own and return its exit code."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "--capture=sys",
        *arguments,
    ]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def main(count: int) -> int:
    """Return 0 if every test passes without a report."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "JEANIE_KERNEL": str(build(Path(folder))),
            "JEANIE_RANDOM_CASES": str(count),
            # libstdc++ must be there before the sanitizer looks for the functions that throw exceptions
            "LD_PRELOAD": f"{find_runtime('libasan.so')} {find_runtime('libstdc++.so')}",
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:abort_on_error=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        narrow, middle = ({**environment, "JEANIE_ISA": name} for name in ("baseline", "avx2"))
        own = ("tests/alignment", "tests/kernel", MLP, BOUNDS)
        tests = (*own, "--ignore", "tests/kernel/test_build.py", "-k", SLOW)
        return (
            run_tests(environment, *tests)
            or run_tests(narrow, RANDOM, MLP, BOUNDS)
            or run_tests(middle, MLP, BOUNDS)
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the tests of the compiled kernel with sanitizers.")
    parser.add_argument("--cases", type=int, default=1000, help="random cases per test (default: 1000)")
    sys.exit(main(parser.parse_args().cases))
