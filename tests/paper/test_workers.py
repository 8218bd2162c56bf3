"""Several workers on one study: no trial is lost, repeated, or taken by two workers."""

import contextlib
import sqlite3
import threading
from importlib import import_module

import pytest
from sqlalchemy import event
from tuning_cases import (
    USELESS,
    run_search,
    search_until_killed,
    search_with_others,
    tiny_tuning,
    trial_states,
)

from jeanie._internal import sqlite
from jeanie.paper.tuning import open_study
from jeanie.paper.tuning.study import needs_trial

pytest.importorskip("optuna", reason="no Optuna: pip install 'jeanie[tune]'")


@pytest.mark.processes
def test_two_processes_share_a_study_and_no_trial_is_lost_or_repeated(storage, processes):
    tuning = tiny_tuning(storage, trials=10)
    start = processes.Barrier(2, timeout=300)
    pipes = [processes.Pipe(duplex=False) for _ in range(2)]
    workers = [
        processes.Process(target=search_with_others, args=(tuning, number, start, pipe[1]))
        for number, pipe in enumerate(pipes)
    ]
    for process in workers:
        process.start()
    for pipe in pipes:
        pipe[1].close()  # so that a worker that dies is noticed here
    numbers = [pipe[0].recv() for pipe in pipes]
    for process in workers:
        process.join()
    assert [process.exitcode for process in workers] == [0, 0]
    study = open_study(tuning)
    trials = [one for one in study.trials if one.state.name in ("COMPLETE", "PRUNED")]
    assert len(trials) == 10
    assert sorted(numbers[0] + numbers[1]) == sorted(one.number for one in trials)
    assert all(numbers)  # both have searched
    assert all(one.state.name == "FAIL" for one in study.trials if one not in trials)  # one too many at most
    assert len(study.trials) <= 11
    assert sum(one.params == {"align.sigma": USELESS} for one in trials) == 1  # the start, once
    assert not needs_trial(study, 10)


@pytest.mark.processes
def test_the_trial_of_a_killed_worker_is_retried_by_others(storage, processes):
    tuning = tiny_tuning(storage, trials=3, grace=2)
    ours, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=search_until_killed, args=(tuning, theirs))
    process.start()
    assert ours.recv_bytes() == b"dies"
    process.join()
    assert process.exitcode == -9
    study = open_study(tuning)
    assert trial_states(study) == ["COMPLETE", "RUNNING"]
    lost = study.trials[1]
    study = run_search(tuning)
    assert trial_states(study) == ["COMPLETE", "COMPLETE", "COMPLETE", "FAIL"]
    assert study.trials[1].state.name == "FAIL"
    (again,) = [one for one in study.trials if one.user_attrs.get("retry_of") == 1]
    assert again.params == lost.params


def test_a_file_of_sqlite_lets_others_read_while_one_writes(tmp_path):
    open_study(tiny_tuning(str(tmp_path / "study.db")))
    connection = sqlite3.connect(tmp_path / "study.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_worker_waits_for_another_one_that_sets_up_the_study(tmp_path, monkeypatch):
    """SQLite reports a lock at once, whatever its time limit, if another connection is about to write."""
    path = tmp_path / "study.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE something (x)")
        other.execute("BEGIN IMMEDIATE")
        waits = []

        def finish(seconds):  # called while our worker waits
            waits.append(seconds)
            if other.in_transaction:
                other.execute("COMMIT")

        monkeypatch.setattr(sqlite.time, "sleep", finish)
        open_study(tiny_tuning(str(path)))
    assert waits
    with contextlib.closing(sqlite3.connect(path)) as reader:
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.processes
def test_two_workers_never_take_the_same_waiting_trial(storage):
    """One worker is stopped between reading that the trial waits and writing that it runs; the other one asks."""
    running = import_module("optuna").trial.TrialState.RUNNING
    tuning = tiny_tuning(storage)
    first, second = (open_study(tuning)._storage for _ in range(2))
    backend = first._backend  # Optuna wraps a database in a cache
    (waiting,) = open_study(tuning).trials
    taken = {}
    other = threading.Thread(
        target=lambda: taken.update(second=second.set_trial_state_values(waiting._trial_id, running))
    )

    def ask(connection, cursor, statement, *rest):
        if statement.startswith("UPDATE trials") and not other.ident:
            other.start()
            other.join(0.5)

    event.listen(backend.engine, "before_cursor_execute", ask)
    taken["first"] = first.set_trial_state_values(waiting._trial_id, running)
    other.join()
    assert taken == {"first": True, "second": False}
