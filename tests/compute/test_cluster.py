"""Tasks on a Dask cluster of three real workers: results, errors, and kills of workers, clients and the scheduler."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from compute_tasks import (
    count_threads,
    fail_at_two,
    scale,
    wait_for_permission,
    wait_forever,
    wait_in_first_process,
    write_once,
)
from dask_cluster import IMPORTS, run_cluster
from tiny_sbu import TINY, cells, column, tiny_table, write_sbu
from training_tasks import hold_first_table_training, train_slowly
from waiting import PATIENCE, wait_for

from jeanie.compute.processes import use_one_thread
from jeanie.compute.tasks import WorkerLost, map_tasks
from jeanie.errors import ConfigError, DataError
from jeanie.paper.tables import Preset, run_cells

dask = pytest.importorskip("dask", reason="no Dask: pip install 'jeanie[cluster]'")
pytest.importorskip("distributed", reason="no Dask: pip install 'jeanie[cluster]'")
pytestmark = pytest.mark.processes

CONNECT_PATIENTLY = {"distributed.comm.timeouts.connect": f"{PATIENCE}s"}


@pytest.fixture(autouse=True)
def wait_for_a_busy_scheduler():
    with dask.config.set(CONNECT_PATIENTLY):
        yield


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with run_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def name_place(place):
    return "-".join(map(str, place)).replace("/", "-")


@contextmanager
def start_client(folder, cluster, function, tasks):
    """Start a client in a process of its own."""
    script = folder / "client.py"
    script.write_text(
        f"import sys\nsys.path[:0] = {IMPORTS}\n"
        "from pathlib import Path\n"
        f"from {function.__module__} import {function.__name__}\n"
        "from jeanie.compute.tasks import map_tasks\n"
        f"folder = Path({str(folder)!r})\n"
        f"list(map_tasks({function.__name__}, {tasks}, cluster={cluster.address!r}))\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)], stderr=subprocess.PIPE, text=True, env=cluster.environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_tasks_run_on_the_workers_in_the_folder_of_the_client(cluster):
    options = {"shared": (10, os.getcwd()), "cluster": cluster.address}
    pairs = list(map_tasks(scale, range(8), ordered=True, **options))
    assert [(task, result[0]) for task, result in pairs] == [(task, 10 * task) for task in range(8)]
    assert os.getpid() not in {result[1] for _, result in pairs}
    assert {result[2] for _, result in pairs} == {True}, "the folder of the client"


def test_torch_has_one_thread_in_a_worker(cluster):
    (outcome,) = (result for _, result in map_tasks(count_threads, [0], cluster=cluster.address))
    assert outcome[1] == 1


def test_the_error_of_a_task_is_raised_with_its_traceback(cluster):
    with pytest.raises(DataError, match="clip 2 is bad") as raised:
        list(map_tasks(fail_at_two, range(50), cluster=cluster.address))
    assert "in fail_at_two" in str(raised.value.__cause__)


def test_no_scheduler_is_an_error():
    limit = {"distributed.comm.timeouts.connect": "0.5s"}
    with dask.config.set(limit), pytest.raises(ConfigError, match="no Dask scheduler answers there"):
        list(map_tasks(fail_at_two, [1], cluster="tcp://127.0.0.1:1"))


def test_tls_without_certificates_is_an_error():
    with pytest.raises(ConfigError, match="needs certificates"):
        list(map_tasks(fail_at_two, [1], cluster="tls://127.0.0.1:1"))


def test_the_task_of_a_killed_worker_runs_again(cluster, tmp_path):
    tasks = [(tmp_path, number) for number in range(4)]
    with ThreadPoolExecutor(1) as client:
        call = client.submit(lambda: list(map_tasks(wait_in_first_process, tasks, cluster=cluster.address)))
        log = wait_for(
            lambda: next((path for path in tmp_path.glob("1.started") if path.read_text()), None),
            calls=[call],
        )
        os.kill(int(log.read_text()), signal.SIGKILL)
        assert sorted(result for _, result in call.result(PATIENCE)) == [0, 1, 2, 3]
    assert len(set(log.read_text().split())) == 2, "the kill hit, and another worker ran the task again"


def test_tasks_of_equal_keys_run_once_for_two_clients_and_go_on_if_one_of_them_gives_up(cluster, tmp_path):
    tasks = [(tmp_path, number) for number in range(5)]

    def run(progress=None):
        options = {"cluster": cluster.address, "key": name_place, "progress": progress}
        return sorted(result for _, result in map_tasks(wait_for_permission, tasks, **options))

    def give_up(done, total):
        if (tmp_path / "enough").exists():
            raise RuntimeError("this client gives up")

    with ThreadPoolExecutor(2) as clients:
        try:
            first = clients.submit(run, give_up)
            wait_for(lambda: len(list(tmp_path.glob("*.started"))) == 3, calls=[first])
            second = clients.submit(run)
            wait_for(lambda: count_clients(cluster, tmp_path) == 2, calls=[first, second])
            (tmp_path / "enough").touch()
            with pytest.raises(RuntimeError, match="gives up"):
                first.result(PATIENCE)
        finally:
            (tmp_path / "go").touch()  # so that the workers are free for the next test, whatever happens
        assert second.result(PATIENCE) == [0, 1, 2, 3, 4]
    assert [len((tmp_path / f"{number}.started").read_text().split()) for number in range(5)] == [1] * 5


def count_clients(cluster, folder):
    """Return how many clients wait for the first task."""
    from distributed import Client

    key = f"jeanie-{name_place((folder, 0))}"
    with Client(cluster.address, set_as_default=False) as client:
        return client.run_on_scheduler(_count_clients_of, key)


def _count_clients_of(key, dask_scheduler):
    return len(dask_scheduler.tasks[key].who_wants) if key in dask_scheduler.tasks else 0


def test_tasks_stop_when_their_client_is_killed(cluster, tmp_path):
    with start_client(tmp_path, cluster, wait_forever, "[(folder, number) for number in range(2)]") as client:
        wait_for(lambda: len(list(tmp_path.glob("*.started"))) == 2)
        assert not list(tmp_path.glob("*.stopped"))
        client.kill()
        wait_for(lambda: len(list(tmp_path.glob("*.stopped"))) == 2)


def test_ctrl_c_stops_a_training_with_a_checkpoint_and_the_next_call_gives_the_same_bits(cluster, tmp_path):
    run = tmp_path / "run"
    with start_client(tmp_path, cluster, train_slowly, "[folder / 'run']") as client:
        wait_for((tmp_path / "training").exists)
        client.send_signal(signal.SIGINT)
        _, shown = client.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in shown
    state = wait_for(lambda: next(run.glob("*/last/state.json"), None))
    assert 0 < json.loads(state.read_bytes())["episode"] < 40
    (tmp_path / "fast").touch()
    assert [path for _, path in map_tasks(train_slowly, [run], cluster=cluster.address)] == [run]
    (tmp_path / "here").mkdir()
    (tmp_path / "here/fast").touch()
    with use_one_thread():
        whole = train_slowly(tmp_path / "here" / "run")
    for name in ("model/model.safetensors", "last/episode-40.safetensors"):
        (ours,), (theirs,) = (list(folder.glob(f"*/{name}")) for folder in (run, whole))
        assert ours.read_bytes() == theirs.read_bytes()


def list_results(out):
    """Return the bytes of predictions and trained weights, and the descriptions of results without their origin."""
    files = [*out.glob("cells/*/predictions.safetensors"), *out.glob("runs/*/run/*/model/model.safetensors")]
    found = {str(path.relative_to(out)): path.read_bytes() for path in files}
    for path in out.glob("cells/*/result.json"):
        description = json.loads(path.read_bytes())
        report = {**description["report"], "commit": None}
        found[str(path.relative_to(out))] = {**description, "report": report, "seconds": 0, "machine": {}}
    return found


def test_a_table_on_three_workers_is_the_table_of_one_process_though_one_is_killed(cluster, tmp_path):
    from distributed import Client

    data, held = write_sbu(tmp_path / "data"), tmp_path / "held"
    table = tiny_table(
        columns=[column(splits=["seed 0"])],
        rows=[{"name": "nothing learnt", "method": "raw"}, {"name": "soft-DTW", "method": "soft-dtw"}],
        full=Preset(limit=3, changes=TINY),
    )
    one, three = tmp_path / "one", tmp_path / "three"
    with Client(cluster.address, set_as_default=False) as workers:
        workers.run(hold_first_table_training, tmp_path)
    with ThreadPoolExecutor(1) as client:
        call = client.submit(run_cells, cells(table), three, data=data, cluster=cluster.address)
        process = wait_for(lambda: held.exists() and held.read_text(), calls=[call])
        os.kill(int(process), signal.SIGKILL)
        call.result(PATIENCE)
    run_cells(cells(table), one, data=data)
    (run,) = three.glob("runs/*/run/run.json")
    assert len(json.loads(run.read_bytes())["sessions"]) == 2, "the kill hit, and another worker went on"
    assert list_results(three) == list_results(one)
    assert len(list_results(one)) == 5


def test_the_call_after_a_killed_scheduler_goes_on(tmp_path):
    tasks = [(tmp_path, number) for number in range(6)]
    with run_cluster(tmp_path, workers=["one"]) as cluster, ThreadPoolExecutor(1) as client:
        call = client.submit(lambda: list(map_tasks(write_once, tasks, cluster=cluster.address)))
        wait_for(lambda: list(tmp_path.glob("*.done")), calls=[call])
        cluster.scheduler.kill()
        with pytest.raises(WorkerLost, match="the connection to the scheduler was lost; start the scheduler"):
            call.result(PATIENCE)
        kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.done")}
        assert len(kept) == 1, "the kill hit"
        (tmp_path / "go").touch()
        cluster.start_scheduler()
        cluster.start_workers(["two"])
        pairs = list(map_tasks(write_once, tasks, cluster=cluster.address))
    assert sorted(result for _, result in pairs) == [0, 1, 2, 3, 4, 5]
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
