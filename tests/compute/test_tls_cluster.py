"""A cluster with TLS, set up by the commands of docs/cluster.md; strangers cannot use it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dask_cluster import IMPORTS, Cluster
from waiting import PATIENCE

pytest.importorskip("distributed", reason="no Dask: pip install 'jeanie[cluster]'")
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl in PATH"),
]
PAGE = Path(__file__).resolve().parents[2] / "docs/cluster.md"
CLIENT = """
import os, sys
from compute_tasks import scale
from jeanie.compute.tasks import map_tasks
from jeanie.errors import ConfigError
try:
    print(sorted(result[0] for _, result in map_tasks(scale, range(4), shared=(10, os.getcwd()), cluster=sys.argv[1])))
except ConfigError as error:
    print("ConfigError:", error)
"""


def read_page():
    """Return the commands that make certificates, the TLS options, and the environment of the client."""
    blocks = re.findall(r"```\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    making = next(block for block in blocks if block.startswith("openssl"))
    use = next(block for block in blocks if block.startswith("tls="))
    options = shlex.split(re.search(r'tls="(.*)"', use)[1])
    exports = [word for line in re.findall(r"export (.*)", use) for word in line.split()]
    return making, options, dict(word.split("=") for word in exports)


def make_certificates(folder):
    folder.mkdir()
    script = read_page()[0].replace("rsa:4096", "rsa:2048")  # a large key takes seconds
    subprocess.run(["bash", "-euc", script], cwd=folder, check=True, capture_output=True)


def run_client(folder, address):
    """Run the client in the folder of its certificates; return what it prints."""
    environment = {**os.environ, **read_page()[2], "PYTHONPATH": os.pathsep.join(IMPORTS)}
    environment |= {"OMP_NUM_THREADS": "1", "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s"}
    command = [sys.executable, "-c", CLIENT, address]
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_only_owners_of_a_certificate_can_use_a_cluster_with_tls(tmp_path):
    make_certificates(tmp_path / "own")
    make_certificates(tmp_path / "stranger")
    options = read_page()[1]
    cluster = Cluster(tmp_path / "own")
    try:
        cluster.start_scheduler("--protocol", "tls", *options)
        assert cluster.address.startswith("tls://")
        cluster.start_workers(["one", "two"], *options)
        assert run_client(tmp_path / "own", cluster.address) == "[0, 10, 20, 30]\n"
        assert "no Dask scheduler answers there" in run_client(tmp_path / "stranger", cluster.address)
        unprotected = cluster.address.replace("tls://", "tcp://")
        assert "requires encryption" in run_client(tmp_path / "own", unprotected)
    finally:
        cluster.stop()
