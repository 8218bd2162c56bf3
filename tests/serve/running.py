"""A service in processes of its own, started as a user would."""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager


@contextmanager
def run_service(library, *options, environment=None):
    """Start ``jeanie serve`` on a free port; yield its process with ``url``, and ``read_log`` for when it has ended."""
    command = [sys.executable, "-m", "jeanie", "serve", "--library", str(library), "--port", "0"]
    with (
        tempfile.TemporaryFile(
            "w+"
        ) as errors,  # a pipe that nobody reads would stop the service when it is full
        subprocess.Popen(
            [*command, "--no-browser", "--json", *map(str, options)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        ) as process,
    ):
        try:
            process.read_log = lambda: [one for one in read_all(errors).splitlines() if one.startswith("{")]
            line = process.stdout.readline()
            assert line, read_all(errors)
            process.url = json.loads(line)["url"]
            yield process
        finally:
            process.terminate()
            process.wait()
            process.log = process.read_log()


def read_all(file):
    """Return the text of a file that another process writes."""
    file.seek(0)
    return file.read()
