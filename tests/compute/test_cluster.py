"""Tasks on a Dask cluster of three real workers: results, errors, kills of workers, scheduler and clients."""

import os

import pytest
from compute_tasks import die_once, fail_at_two, square
from dask_cluster import run_cluster

from jeanie.compute.tasks import map_tasks
from jeanie.errors import DataError

pytest.importorskip("distributed", reason="no Dask: pip install 'jeanie[cluster]'")
pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with run_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def test_tasks_run_on_the_workers_with_one_thread(cluster):
    pairs = list(map_tasks(square, range(8), cluster=cluster.address, ordered=True))
    assert [(task, result[0]) for task, result in pairs] == [(task, task * task) for task in range(8)]
    assert os.getpid() not in {process for _, (_, process, _) in pairs}
    assert {threads for _, (*_, threads) in pairs} == {1}


def test_the_error_of_a_task_is_raised_with_its_traceback(cluster):
    with pytest.raises(DataError, match="clip 2 is bad") as raised:
        list(map_tasks(fail_at_two, range(50), cluster=cluster.address))
    assert "in fail_at_two" in str(raised.value.__cause__)


def test_the_task_of_a_killed_worker_runs_again(cluster, tmp_path):
    tasks = [(tmp_path, number) for number in range(4)]
    pairs = list(map_tasks(die_once, tasks, cluster=cluster.address))
    assert sorted(result for _, result in pairs) == [0, 1, 2, 3]
    assert len(set((tmp_path / "1.log").read_text().split())) == 2
