"""Tasks in this process and in worker processes: results, errors, lost workers, stops. The processes are real."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from compute_tasks import (
    count_threads,
    die_always,
    fail_at_two,
    run_out_of_memory,
    scale,
    wait_in_first_process,
)
from dask_cluster import IMPORTS
from waiting import PATIENCE, wait_for

from jeanie.compute.processes import set_environment, use_one_thread
from jeanie.compute.tasks import WorkerLost, map_tasks
from jeanie.errors import ConfigError, DataError


def test_one_job_runs_in_this_process():
    pairs = list(map_tasks(scale, [1, 2], shared=(10, "")))
    assert [(task, result[:2]) for task, result in pairs] == [(1, (10, os.getpid())), (2, (20, os.getpid()))]


@pytest.mark.processes
def test_ordered_results_come_in_the_order_of_the_tasks_and_others_as_they_are_completed():
    calls = []
    options = {"shared": (10, os.getcwd()), "jobs": 2}
    pairs = list(map_tasks(scale, range(6), ordered=True, progress=lambda *now: calls.append(now), **options))
    assert [(task, result[0]) for task, result in pairs] == [(task, 10 * task) for task in range(6)]
    assert os.getpid() not in {result[1] for _, result in pairs}
    assert {result[2] for _, result in pairs} == {True}
    assert calls[-1] == (6, 6)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert sorted(task for task, _ in map_tasks(scale, iter(range(6)), **options)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.processes
def test_torch_has_one_thread_in_a_worker():
    assert [result for _, result in map_tasks(count_threads, [0], jobs=2)] == [(True, 1)]


@pytest.mark.processes
def test_the_error_of_a_task_is_raised_with_its_traceback():
    with pytest.raises(DataError, match="clip 2 is bad") as raised:
        list(map_tasks(fail_at_two, range(50), jobs=2))
    assert "in fail_at_two" in str(raised.value.__cause__)


@pytest.mark.processes
def test_the_task_of_a_killed_worker_runs_again(tmp_path):
    tasks = [(tmp_path, number) for number in range(4)]
    with ThreadPoolExecutor(1) as client:
        call = client.submit(lambda: list(map_tasks(wait_in_first_process, tasks, jobs=2)))
        log = wait_for(lambda: next((path for path in tmp_path.glob("1.started") if path.read_text()), None))
        os.kill(int(log.read_text()), signal.SIGKILL)
        assert sorted(result for _, result in call.result(PATIENCE)) == [0, 1, 2, 3]
    assert len(set(log.read_text().split())) == 2, "the kill hit, and another process ran the task again"
    assert [len((tmp_path / f"{number}.started").read_text().split()) for number in (0, 2, 3)] == [1, 1, 1]


@pytest.mark.processes
@pytest.mark.parametrize("function", [die_always, run_out_of_memory])
def test_the_other_tasks_finish_before_a_task_without_a_worker_is_an_error(function):
    results = []
    with pytest.raises(WorkerLost, match="ended unexpectedly 3 times"):
        results.extend(result for _, result in map_tasks(function, range(4), jobs=2))
    assert sorted(results) == [0, 2, 3]


@pytest.mark.errors
def test_wrong_workers_are_refused():
    with pytest.raises(ConfigError, match="jobs is the number of worker processes, at least 1, got 0"):
        list(map_tasks(fail_at_two, [1], jobs=0))
    with pytest.raises(ConfigError, match="give one of them"):
        list(map_tasks(fail_at_two, [1], jobs=2, cluster="tcp://127.0.0.1:1"))
    with pytest.raises(ConfigError, match="give them no shared= arguments"):
        list(map_tasks(fail_at_two, [1], shared=(1,), key=str))
    with pytest.raises(ConfigError, match="expected the address of a Dask scheduler such as tcp://host:8786"):
        list(map_tasks(fail_at_two, [1], cluster="127.0.0.1:8786"))


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_stop_their_tasks_when_the_parent_is_stopped(tmp_path, number):
    code = (
        "import sys\n"
        f"sys.path[:0] = {IMPORTS}\n"
        "from pathlib import Path\n"
        "from compute_tasks import wait_forever\n"
        "from jeanie.compute.tasks import map_tasks\n"
        "if __name__ == '__main__':\n"
        f"    folder = Path({str(tmp_path)!r})\n"
        "    list(map_tasks(wait_forever, [(folder, number) for number in range(4)], jobs=2))\n"
    )
    script = tmp_path / "run.py"
    script.write_text(code)
    with subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE) as process:
        try:
            wait_for(lambda: len(list(tmp_path.glob("*.started"))) == 2)
            process.send_signal(number)
            process.communicate(timeout=PATIENCE)  # ends when no worker holds the pipe
        finally:
            process.kill()
    wait_for(lambda: len(list(tmp_path.glob("*.stopped"))) == 2)
    assert len(list(tmp_path.glob("*.started"))) == 2, "queued tasks do not start"


def test_the_number_of_threads_and_the_environment_are_restored():
    threads = torch.get_num_threads()
    with use_one_thread(), set_environment("JEANIE_TEST", "x"), set_environment("JEANIE_OTHER", None):
        assert torch.get_num_threads() == 1
        assert os.environ["JEANIE_TEST"] == "x"
        assert "JEANIE_OTHER" not in os.environ
    assert torch.get_num_threads() == threads
    assert "JEANIE_TEST" not in os.environ
