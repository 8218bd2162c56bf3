"""A service in processes of its own, started as a user would."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager


@contextmanager
def run_service(library, *options, environment=None):
    """Start ``jeanie serve`` on a free port; yield its process, which has the attribute ``url``."""
    command = [sys.executable, "-m", "jeanie", "serve", "--library", str(library), "--port", "0"]
    with subprocess.Popen(
        [*command, "--no-browser", "--json", *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
    ) as process:
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            process.url = json.loads(line)["url"]
            yield process
        finally:
            process.terminate()
            process.log = [line for line in process.stderr.read().splitlines() if line.startswith("{")]
