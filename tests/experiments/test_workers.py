"""Many workers on one study: no trial is lost, doubled, or taken by two."""

import contextlib
import sqlite3
import threading
from importlib import import_module

import pytest
from sqlalchemy import event
from tuning_cases import USELESS, search_beside_others, search_until_killed, searched, states, tiny_tuning

from jeanie.experiments.tuning import open_study
from jeanie.experiments.tuning.study import wanted

pytest.importorskip("optuna", reason="no Optuna: pip install 'jeanie[tune]'")


def test_two_processes_share_a_study_and_no_trial_is_lost_or_doubled(storage, processes):
    tuning = tiny_tuning(storage, trials=10)
    start = processes.Barrier(2, timeout=120)
    pipes = [processes.Pipe(duplex=False) for _ in range(2)]
    crowd = [
        processes.Process(target=search_beside_others, args=(tuning, number, start, pipe[1]))
        for number, pipe in enumerate(pipes)
    ]
    for process in crowd:
        process.start()
    for pipe in pipes:
        pipe[1].close()  # so that a worker that dies is noticed here
    told = [pipe[0].recv() for pipe in pipes]
    for process in crowd:
        process.join()
    assert [process.exitcode for process in crowd] == [0, 0]
    study = open_study(tuning)
    trials = [one for one in study.trials if one.state.name in ("COMPLETE", "PRUNED")]
    assert len(trials) == 10
    assert sorted(told[0] + told[1]) == sorted(one.number for one in trials)
    assert all(told)  # both have searched
    assert all(one.state.name == "FAIL" for one in study.trials if one not in trials)  # one too many at most
    assert len(study.trials) <= 11
    assert sum(one.params == {"align.sigma": USELESS} for one in trials) == 1  # the start, once
    assert not wanted(study, 10)


def test_what_a_killed_worker_was_at_is_tried_again_by_others(storage, processes):
    tuning = tiny_tuning(storage, trials=3, grace=2)
    ours, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=search_until_killed, args=(tuning, theirs))
    process.start()
    assert ours.recv_bytes() == b"dies"
    process.join()
    assert process.exitcode == -9
    study = open_study(tuning)
    assert states(study) == ["COMPLETE", "RUNNING"]
    lost = study.trials[1]
    study = searched(tuning)
    assert states(study) == ["COMPLETE", "COMPLETE", "COMPLETE", "FAIL"]
    assert study.trials[1].state.name == "FAIL"
    (again,) = [one for one in study.trials if one.user_attrs.get("again") == 1]
    assert again.params == lost.params


def test_a_file_of_sqlite_lets_others_read_while_one_writes(tmp_path):
    open_study(tiny_tuning(str(tmp_path / "study.db")))
    connection = sqlite3.connect(tmp_path / "study.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_study_that_another_is_setting_up_is_waited_for(tmp_path):
    """SQLite says at once that it is locked, whatever its time limit, where another is about to write."""
    path = tmp_path / "study.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE something (x)")
        other.execute("BEGIN IMMEDIATE")
        later = threading.Timer(0.3, lambda: other.execute("COMMIT"))
        later.start()
        open_study(tiny_tuning(str(path)))
        later.join()
    with contextlib.closing(sqlite3.connect(path)) as reader:
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_two_workers_never_take_the_same_waiting_trial(storage):
    """One is stopped between reading that the trial waits and writing that it runs; the other asks meanwhile."""
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
