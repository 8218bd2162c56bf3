"""Shared set-up of the tests, and the rule that nothing is skipped silently."""

import importlib
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # for oracles

import json_output  # beside this file

collect_ignore_glob = ["**/conftest.py"]  # they hold fixtures, not tests

# A skip is allowed only for a data set that is not here. Its reason says so with one of these words.
DATA_REASONS = ("JEANIE_DATA", "recordings")

json_output.watch_runner()
settings.register_profile("jeanie", deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True)
settings.load_profile("jeanie")


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
