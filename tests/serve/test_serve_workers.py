"""Several worker processes behind one socket: they share a library, and nothing acknowledged is lost by a kill."""

import json
import threading
import time

import httpx2
import psutil
import pytest
from running import run_service
from takes import make_take

from jeanie.recogniser.library.library import Library

pytestmark = pytest.mark.processes

PATIENCE = 240  # seconds; a busy machine is slow


def list_workers(process):
    """Return the worker processes: children that serve, not those that track resources."""
    children = psutil.Process(process.pid).children()
    return {child.pid: child for child in children if "spawn_main" in " ".join(child.cmdline())}


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE} s for {what}"
        time.sleep(0.2)


def ask(url, method, path, **options):
    """Send a request on a new connection, which any worker process may accept; None if that one was killed."""
    try:
        return httpx2.request(method, f"{url}{path}", timeout=PATIENCE, **options)
    except httpx2.TransportError:
        return None


def enrol_until(url, stop, acknowledged):
    """Enrol takes, each under a label of its own, and note those that the service has acknowledged."""
    take = make_take("wave")
    for number in range(10_000):
        if stop.is_set():
            return
        label = f"action {number}"
        answer = ask(url, "POST", "api/v1/examples", json={"label": label, "frames": take})
        if answer is not None and answer.status_code == 201:
            acknowledged.append(label)


def test_a_killed_worker_is_replaced_and_no_acknowledged_example_is_lost(tmp_path):
    place, acknowledged, stop = tmp_path / "library.db", [], threading.Event()
    with run_service(place, "--workers", "2") as process:
        wait_for(lambda: len(list_workers(process)) == 2, "two workers")
        writer = threading.Thread(target=enrol_until, args=(process.url, stop, acknowledged))
        writer.start()
        wait_for(lambda: len(acknowledged) >= 5, "some examples")
        before = list_workers(process)
        next(iter(before.values())).kill()
        done = len(acknowledged)
        wait_for(lambda: len(acknowledged) >= done + 5, "examples after the kill")
        wait_for(lambda: len(list_workers(process).keys() - before.keys()) == 1, "a new worker")
        stop.set()
        writer.join(PATIENCE)
        # some of these go to each worker
        answers = [ask(process.url, "GET", "api/v1/actions").json() for _ in range(8)]
        labels_per_answer = [{action["label"] for action in answer["actions"]} for answer in answers]
        assert all(set(acknowledged) <= labels for labels in labels_per_answer)
        metrics = ask(process.url, "GET", "metrics").text
        answered = [line for line in metrics.splitlines() if 'route="/api/v1/examples",status="201"' in line]
        assert float(answered[0].split()[-1]) >= len(acknowledged)
    assert any("replaced" in json.loads(line)["message"] for line in process.log)
    assert process.returncode == 0
    with Library(place) as library:
        assert set(acknowledged) <= set(library.labels)
        assert library.find_damaged() == {}


def test_workers_end_with_their_supervisor(tmp_path):
    with run_service(tmp_path / "library.db", "--workers", "2") as process:
        wait_for(lambda: len(list_workers(process)) == 2, "two workers")
        workers = [psutil.Process(pid) for pid in list_workers(process)]
        process.kill()
        _, survivors = psutil.wait_procs(workers, timeout=PATIENCE)
    assert len(workers) == 2
    assert survivors == []
