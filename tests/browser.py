"""Pages in Chromium without a window."""

import shutil
import subprocess

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no browser: chromium is not in PATH")


def read_page(url, profile, *flags):
    """Open a page in a browser with a new profile; return the process, whose output is the document."""
    flags = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", *flags)
    command = [CHROMIUM, *flags, "--dump-dom", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)
