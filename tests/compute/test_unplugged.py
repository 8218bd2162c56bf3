"""Three hosts as network namespaces, one of which is unplugged in the middle of a training."""

import json
import os
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from dask_cluster import Cluster
from training_tasks import train_on_some_host, train_tiny
from waiting import PATIENCE, wait_for

from jeanie.compute.processes import use_one_thread
from jeanie.compute.tasks import map_tasks

pytest.importorskip("distributed", reason="no Dask: pip install 'jeanie[cluster]'")
pytestmark = pytest.mark.processes

NETWORK = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 256}"  # another one in another run
SHORT = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s"}  # Dask's own limit is five minutes


def run_ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def make_hosts(count):
    """Yield the names of namespaces that a bridge of this host connects."""
    name = uuid.uuid4().hex[:6]
    hosts = [f"jn{name}{number}" for number in range(count)]
    try:
        run_ip("link", "add", f"jb{name}", "type", "bridge")
    except FileNotFoundError:
        pytest.skip("no command ip: install the package iproute2")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no privilege to make network namespaces: {error.stderr.decode().strip()}")
    try:
        run_ip("address", "add", f"{NETWORK}.254/24", "dev", f"jb{name}")
        run_ip("link", "set", f"jb{name}", "up")
        for number, host in enumerate(hosts, 1):
            run_ip("netns", "add", host)
            run_ip("link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", host)
            run_ip("link", "set", host, "master", f"jb{name}", "up")
            run_ip("-n", host, "address", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
            run_ip("-n", host, "link", "set", "eth0", "up")
            run_ip("-n", host, "link", "set", "lo", "up")
        yield hosts
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "delete", host], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", f"jb{name}"], capture_output=True, check=False)


def find_host(process):
    """Return the namespace of a process."""
    shown = subprocess.run(
        ["ip", "netns", "identify", str(process)], capture_output=True, text=True, check=True
    )
    return shown.stdout.strip()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="no privilege: only root makes hosts"
)
def test_a_training_goes_on_elsewhere_when_its_host_is_unplugged_and_the_old_one_writes_no_more(tmp_path):
    run = tmp_path / "run"
    log = tmp_path / "0.started"
    with make_hosts(3) as (first, *others), ThreadPoolExecutor(1) as client:
        cluster = Cluster(tmp_path, host=f"{NETWORK}.1", **SHORT)
        try:
            cluster.start_scheduler(prefix=["ip", "netns", "exec", first])
            for number, host in enumerate(others):
                prefix = ["ip", "netns", "exec", host]
                cluster.start_workers([f"worker {number}"], "--preload", "training_tasks", prefix=prefix)
            options = {"cluster": cluster.address, "key": str}
            call = client.submit(lambda: list(map_tasks(train_on_some_host, [run], **options)))
            wait_for(lambda: next(run.glob("*/last/state.json"), None), calls=[call])
            process = int(log.read_text())
            host = find_host(process)
            assert host in others
            run_ip("link", "set", host, "down")
            wait_for(lambda: len(log.read_text().split()) == 2, calls=[call])
            assert [path for _, path in call.result(PATIENCE)] == [run]
            wait_for((tmp_path / f"{process}.replaced").exists)
            second = int(log.read_text().split()[1])
            assert {host, find_host(second)} == set(others), "the other host has taken over"
        finally:
            cluster.stop()
    attempts = [session["attempt"] for session in json.loads((run / "run.json").read_bytes())["sessions"]]
    assert len(set(attempts)) == 2
    with use_one_thread():
        whole = train_tiny(tmp_path / "whole", 4)
    for name in ("model/model.safetensors", "last/episode-40.safetensors"):
        (ours,), (theirs,) = (list(folder.glob(f"*/{name}")) for folder in (run, whole))
        assert ours.read_bytes() == theirs.read_bytes()
