"""Killed and concurrent processes: every acknowledged example is stored, complete, and stored once."""

import random
import sqlite3
import time

import pytest
from library_cases import enrol_until_killed, enrol_with_others, make_example
from postgres import count_sessions
from same_motion import assert_same
from waiting import wait_for

from jeanie.recogniser.library.library import Library


def enrol_and_kill(processes, place, numbers, draw):
    """Return the numbers that a process acknowledged before it was killed.

    A server may commit the last transaction of a killed client later, so this waits until its session has ended.
    """
    is_server = isinstance(place, str)
    sessions = count_sessions(place) if is_server else 0
    ours, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=enrol_until_killed, args=(place, numbers, theirs))
    process.start()
    theirs.close()
    seen = []
    for _ in range(draw.choice([0, 1, 5, 30])):
        seen.append(int.from_bytes(ours.recv_bytes(), "little"))
    time.sleep(draw.uniform(0, 0.05))
    process.kill()
    process.join()
    assert process.exitcode == -9
    wait_for(lambda: not is_server or count_sessions(place) <= sessions, "the end of the session")
    while ours.poll(0):
        try:
            seen.append(int.from_bytes(ours.recv_bytes(), "little"))
        except EOFError:
            break
    return seen


@pytest.mark.processes
@pytest.mark.parametrize(("where", "kills"), [("sqlite", 20), ("postgres", 5)])
def test_a_kill_loses_nothing_that_was_acknowledged(where, kills, tmp_path, request, processes):
    place = tmp_path / "library.db" if where == "sqlite" else request.getfixturevalue("schema")
    draw = random.Random(where)
    acknowledged, takes = set(), {}
    for kill in range(1, kills + 1):
        first = max(acknowledged, default=-1) + 1
        acknowledged |= set(enrol_and_kill(processes, place, range(first, 10**6), draw))
        with Library(place) as library:
            for one in library.examples(after=max(takes, default=0)):
                label, motion = make_example(one.motion.take)
                assert one.label == label
                assert_same(one.motion, motion)
                takes[one.id] = one.motion.take
            assert library.index().keys() == takes.keys()
            assert len(set(takes.values())) == len(takes)
            assert acknowledged <= set(takes.values())
            assert len(takes) <= len(acknowledged) + kill  # a kill can come before the acknowledgement
            assert sum(library.actions().values()) == len(takes)
    assert len(acknowledged) > 2 * kills
    with Library(place) as library:
        assert library.find_damaged() == {}
    if where == "sqlite":
        raw = sqlite3.connect(place)
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        raw.close()


@pytest.mark.processes
def test_eight_processes_open_a_new_library_and_enrol_at_once(place, processes):
    start = processes.Barrier(8)
    pipes = [processes.Pipe(duplex=False) for _ in range(8)]
    shared = range(1000, 1004)
    workers = [
        processes.Process(
            target=enrol_with_others, args=(place, range(8 * n, 8 * n + 8), shared, start, pipe[1])
        )
        for n, pipe in enumerate(pipes)
    ]
    for process in workers:
        process.start()
    results = []
    for ours, theirs in pipes:
        theirs.close()
        results.append(ours.recv())
    for process in workers:
        process.join()
    assert [process.exitcode for process in workers] == [0] * 8

    numbers, new, common = ([result[part] for result in results] for part in range(3))
    assert all(ids == sorted(ids) and all(fresh) for ids, fresh in zip(numbers, new, strict=True))
    assert [sum(one[at] for one in common) for at in range(4)] == [
        1
    ] * 4  # new for one of the eight processes
    with Library(place) as library:
        found = sorted((one.motion.take, one.motion.label) for one in library.examples())
        assert found == [*((n, None) for n in range(64)), *((n, "shared") for n in shared)]
        assert library.revision == 8 * (8 + 4)
        assert {number for ids in numbers for number in ids} <= library.index().keys()
        assert library.find_damaged() == {}
