"""Claims: one worker measures a cell, and the claim of a dead worker is free."""

import json
import os
import time

import pytest
from tiny_sbu import claim_and_die

from jeanie.paper.tables import (
    claims,
)
from jeanie.paper.tables.claims import hold_claim


def test_only_one_holds_a_claim_and_it_is_free_afterwards(tmp_path):
    with hold_claim(tmp_path) as first, hold_claim(tmp_path) as second:
        assert (first, second) == (True, False)
    with hold_claim(tmp_path) as third:
        assert third


@pytest.mark.processes
def test_a_claim_of_a_dead_process_is_free(tmp_path, processes):
    process = processes.Process(target=claim_and_die, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == 9
    with hold_claim(tmp_path) as ours:
        assert ours


def test_a_claim_of_another_machine_lasts_for_its_lease_and_not_longer(tmp_path):
    path = tmp_path / "claim.0"
    path.write_text(json.dumps({"host": "elsewhere", "process": 1}))
    with hold_claim(tmp_path, lease=600) as ours:
        assert not ours
    os.utime(path, (time.time() - 601, time.time() - 601))
    with hold_claim(tmp_path, lease=600) as ours:
        assert ours
    assert (tmp_path / "claim.1").exists()


@pytest.mark.processes
def test_the_owner_of_a_claim_keeps_it_alive(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "_TOUCHES_PER_LEASE", 60_000)  # every 0.01 seconds
    with hold_claim(tmp_path, lease=600) as first:
        path = tmp_path / "claim.0"
        os.utime(path, (1, 1))
        while path.stat().st_mtime == 1:
            time.sleep(0.001)
        with hold_claim(tmp_path, lease=600) as second:
            assert (first, second) == (True, False)


@pytest.mark.processes
def test_only_one_of_many_threads_gets_the_claim(tmp_path):
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    start, over = Barrier(8), Barrier(8)

    def compete(_):
        start.wait()
        with hold_claim(tmp_path) as ours:
            over.wait()
            return ours

    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            assert sum(pool.map(compete, range(8))) == 1
