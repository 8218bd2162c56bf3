"""A Dask cluster on 127.0.0.1, started by the commands that docs/cluster.md shows."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from waiting import PATIENCE, wait_for

HERE = Path(__file__).resolve().parent
IMPORTS = [str(place) for place in (HERE, HERE.parent)]
DASK = [sys.executable, "-m", "dask"]


class Cluster:
    """A scheduler and its workers, as processes.

    Args:
        folder: Folder for logs and the files of the workers.
        host: Address of the scheduler.
        settings: Environment variables of all processes.
    """

    def __init__(self, folder, host="127.0.0.1", **settings):
        self.folder, self.host = folder, host
        paths = os.pathsep.join(IMPORTS)
        patience = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": f"{PATIENCE}s"}  # a busy machine is slow
        self.environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **patience, **settings}
        self.processes = []
        self.scheduler = self.address = None

    def start(self, name, *command, prefix=()):
        """Start a process that writes to its own log."""
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                [*prefix, *DASK, *map(str, command)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def start_scheduler(self, *options, port=0, prefix=()):
        """Start the scheduler, with further options of dask scheduler, and wait for its address."""
        log = self.folder / "scheduler.log"
        command = ["scheduler", "--host", self.host, "--port", port, "--no-dashboard", "--no-show"]
        self.scheduler = self.start("scheduler", *command, *options, prefix=prefix)
        line = wait_for(
            lambda: next((line for line in log.read_text().splitlines() if "Scheduler at" in line), "")
        )
        self.address = line.split()[-1]

    def start_workers(self, names, *options, prefix=()):
        """Start one worker per name, with further options of dask worker."""
        for name in names:
            self.start(
                name, "worker", self.address, "--nthreads", 1, "--name", name, "--no-dashboard",
                "--local-directory", self.folder / "space", "--death-timeout", 120, *options, prefix=prefix,
            )  # fmt: skip

    def stop(self):
        """End all processes."""
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()


@contextmanager
def run_cluster(folder, workers=("one", "two", "three"), **settings):
    """Yield a running cluster."""
    cluster = Cluster(folder, **settings)
    try:
        cluster.start_scheduler()
        cluster.start_workers(workers)
        yield cluster
    finally:
        cluster.stop()
