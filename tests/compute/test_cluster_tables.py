"""A table on three workers, one of which is killed in the middle, has the bytes of the same table in one process."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from dask_cluster import run_cluster
from tiny_sbu import TINY, cells, column, tiny_table, write_sbu
from waiting import PATIENCE, wait_for

from jeanie.paper.tables import Preset, run_cells

pytest.importorskip("distributed", reason="no Dask: pip install 'jeanie[cluster]'")
pytestmark = pytest.mark.processes


def list_results(out):
    """Return the bytes of predictions and trained weights, and the descriptions of results without their origin."""
    files = [*out.glob("cells/*/predictions.safetensors"), *out.glob("runs/*/run/*/model/model.safetensors")]
    found = {str(path.relative_to(out)): path.read_bytes() for path in files}
    for path in out.glob("cells/*/result.json"):
        description = json.loads(path.read_bytes())
        report = {**description["report"], "commit": None}
        found[str(path.relative_to(out))] = {**description, "report": report, "seconds": 0, "machine": {}}
    return found


def find_training_process(address):
    """Return the process of a worker that trains."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        busy = [worker for worker, keys in client.processing().items() if keys]
        return client.run(os.getpid, workers=busy[:1])[busy[0]]


def test_a_table_on_three_workers_is_the_table_of_one_process_though_one_is_killed(tmp_path):
    data = write_sbu(tmp_path / "data")
    table = tiny_table(
        columns=[column(splits=["seed 0"])],
        rows=[{"name": "nothing learnt", "method": "raw"}, {"name": "soft-DTW", "method": "soft-dtw"}],
        full=Preset(limit=3, changes={**TINY, "episodes": 200}),
    )
    one, three = tmp_path / "one", tmp_path / "three"
    with run_cluster(tmp_path) as cluster, ThreadPoolExecutor(1) as client:
        call = client.submit(run_cells, cells(table), three, data=data, cluster=cluster.address)
        wait_for(lambda: next(three.glob("runs/*/run/*/last/state.json"), None))
        os.kill(find_training_process(cluster.address), signal.SIGKILL)
        call.result(PATIENCE)
    run_cells(cells(table), one, data=data)
    (run,) = three.glob("runs/*/run/run.json")
    assert len(json.loads(run.read_bytes())["sessions"]) == 2, "the kill hit, and another worker went on"
    assert list_results(three) == list_results(one)
    assert len(list_results(one)) == 5
