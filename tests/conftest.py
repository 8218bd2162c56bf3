"""Shared set-up of the tests, and the rule that nothing is skipped silently."""

import importlib.util
import os
import signal
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # for oracles

import json_output  # these are beside this file
from postgres import postgres_server, schema

if importlib.util.find_spec("ezc3d"):
    import ezc3d  # noqa: F401  # before faiss: see build_index

__all__ = ["postgres_server", "schema"]  # fixtures

collect_ignore_glob = ["**/conftest.py"]  # they hold fixtures, not tests

# A skip is allowed only for a data set that is not here. Its reason says so with one of these words.
DATA_REASONS = ("JEANIE_DATA", "recordings")

json_output.watch_runner()
settings.register_profile("jeanie", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("sample", settings.get_profile("jeanie"), max_examples=10)
settings.register_profile("explore", settings.get_profile("jeanie"), derandomize=False)
settings.load_profile("jeanie")


def pytest_addoption(parser):
    parser.addoption(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="run every N-th test of each file and every N-th case of each test, beginning with the first, "
        "and 10 examples per property",
    )
    parser.addoption(
        "--explore",
        action="store_true",
        help="draw new random examples for every property; without it, every run has the same examples",
    )


def pytest_configure(config):
    # A shell that starts the tests in the background ignores Ctrl-C for them; children inherit that, and tests that
    # interrupt a child would wait for ever.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("sample") > 1:
        settings.load_profile("sample")
    if config.getoption("explore"):
        settings.load_profile("explore")


def pytest_collection_modifyitems(config, items):
    """Sort the files by their length, and keep a sample of the tests."""
    sort_files(items)
    keep_sample(config, items)


def sort_files(items):
    """Start files that wait for other processes first, then those with the most test functions.

    A worker of pytest-xdist takes the next file when it is done with one. A long file that starts last would leave the
    other workers idle.
    """
    functions = defaultdict(set)
    for item in items:
        functions[item.path].add(getattr(item, "originalname", item.name))
    waiting = {item.path for item in items if item.get_closest_marker("processes")}
    items.sort(key=lambda item: (item.path not in waiting, -len(functions[item.path]), item.path))


def keep_sample(config, items):
    """Keep every N-th test of each file, and every N-th case of these."""
    step = config.getoption("sample")
    tests: dict[str, list[str]] = {}  # file -> names of its tests, in order
    cases = Counter()
    selected, left_out = [], []
    for item in items:
        file, _, name = item.nodeid.partition("[")[0].partition("::")
        names = tests.setdefault(file, [])
        if name not in names:
            names.append(name)
        is_left_out = names.index(name) % step or cases[file, name] % step
        (left_out if is_left_out else selected).append(item)
        cases[file, name] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = selected


@pytest.fixture(scope="module")
def script(request):
    """The script of the folder benchmarks that a module of tests names as its SCRIPT."""
    folder = str(Path(__file__).resolve().parents[1] / "benchmarks")
    sys.path.insert(0, folder)  # as where it is run
    try:
        return importlib.import_module(request.module.SCRIPT)
    finally:
        sys.path.remove(folder)


def skip_reason(report):
    """Return why a test was skipped, or None if it ran or waits for a data set."""
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    return reason if reason and not any(word in reason for word in DATA_REASONS) else None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Turn a skip for a missing tool into a failure on CI."""
    outcome = yield
    report = outcome.get_result()
    reason = skip_reason(report)
    if reason and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped on CI: {reason}. Install what is missing; only data sets may be absent."


def pytest_terminal_summary(terminalreporter):
    """List tests that did not run because a tool is missing."""
    missing = sorted(
        {reason for one in terminalreporter.stats.get("skipped", ()) if (reason := skip_reason(one))}
    )
    if missing:
        terminalreporter.section("not run: missing tools")
        for reason in missing:
            terminalreporter.line(reason.removeprefix("Skipped: "))
