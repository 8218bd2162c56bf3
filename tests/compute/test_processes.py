"""Worker processes: results, errors, lost workers, and an end with their parent. The processes are real."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from jeanie.compute.processes import WorkerLost, run_parallel, set_environment, use_one_thread
from jeanie.errors import DataError

SLOW = 0.3  # seconds


def scale(factor, task):
    time.sleep(SLOW if task == 0 else 0)
    return factor * task, os.getpid(), torch.get_num_threads()


def fail_at_two(task):
    if task == 2:
        raise DataError("clip 2 is bad")
    return task


def die_at_one(folder, task):
    if task == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(SLOW)
    (folder / str(task)).touch()
    return task


def wait_forever(folder, task):
    try:
        (folder / f"{task}.started").touch()
        while True:
            time.sleep(0.02)
    finally:
        (folder / f"{task}.stopped").touch()


def test_ordered_results_come_in_the_order_of_the_tasks():
    results = list(run_parallel(scale, range(6), jobs=2, shared=(10,), ordered=True, queued=2))
    assert [value for value, _, _ in results] == [0, 10, 20, 30, 40, 50]
    assert os.getpid() not in {process for _, process, _ in results}
    assert {threads for _, _, threads in results} == {1}


def test_unordered_results_come_as_they_are_completed():
    calls = []
    results = run_parallel(scale, range(4), jobs=2, shared=(1,), on_wait=lambda: calls.append(1))
    values = [value for value, _, _ in results]
    assert sorted(values) == [0, 1, 2, 3]
    assert calls


def test_one_job_runs_in_this_process():
    results = list(run_parallel(scale, [1, 2], jobs=1, shared=(3,)))
    assert [(value, process) for value, process, _ in results] == [(3, os.getpid()), (6, os.getpid())]


def test_the_error_of_a_task_is_raised_with_its_traceback():
    with pytest.raises(DataError, match="clip 2 is bad") as raised:
        list(run_parallel(fail_at_two, range(50), jobs=2))
    assert "in fail_at_two" in str(raised.value.__cause__)


def test_other_workers_finish_when_one_is_killed(tmp_path):
    results = []
    with pytest.raises(WorkerLost, match="ended unexpectedly"):
        results.extend(run_parallel(die_at_one, range(4), jobs=2, shared=(tmp_path,)))
    assert sorted(results) == [0, 2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "2", "3"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_stop_their_tasks_when_the_parent_is_stopped(tmp_path, number):
    code = (
        "import sys\n"
        f"sys.path[:0] = [{str(Path(__file__).parent)!r}]\n"
        "from pathlib import Path\n"
        "from test_processes import wait_forever\n"
        "from jeanie.compute.processes import run_parallel\n"
        "if __name__ == '__main__':\n"
        f"    list(run_parallel(wait_forever, range(4), jobs=2, shared=(Path({str(tmp_path)!r}),), queued=2))\n"
    )
    script = tmp_path / "run.py"
    script.write_text(code)
    with subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE) as process:
        try:
            wait_for(lambda: len(list(tmp_path.glob("*.started"))) == 2)
            process.send_signal(number)
            process.communicate(timeout=60)  # ends when no worker holds the pipe
        finally:
            process.kill()
    wait_for(lambda: len(list(tmp_path.glob("*.stopped"))) == 2)
    assert len(list(tmp_path.glob("*.started"))) == 2, "queued tasks do not start"


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_number_of_threads_and_the_environment_are_restored():
    threads = torch.get_num_threads()
    with use_one_thread(), set_environment("JEANIE_TEST", "x"), set_environment("JEANIE_OTHER", None):
        assert torch.get_num_threads() == 1
        assert os.environ["JEANIE_TEST"] == "x"
        assert "JEANIE_OTHER" not in os.environ
    assert torch.get_num_threads() == threads
    assert "JEANIE_TEST" not in os.environ
