"""Two real processes that train one model do what one process does on the same episodes."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_task import dataset, model_config, split
from torch.testing import assert_close

from jeanie.compute.distributed import World, join_process_group
from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.fewshot.model import FewShotModel
from jeanie.training.augment import AugmentConfig
from jeanie.training.config import TrainConfig
from jeanie.training.run import Run
from jeanie.training.step import Learner
from jeanie.training.train import train

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
CONFIGS = {
    # five episodes for two processes: one takes three, one two; the last step has one for the first alone
    kind: TrainConfig(
        episodes=11,
        batch=5,
        queries=2,
        # Adam would blow the rounding of gradients that are 0, such as the last bias's, up to whole steps
        optimiser="sgd",
        momentum=0.9,
        rate=1e-2,
        mirror=kind == "cross-entropy",
        augment=AugmentConfig(yaw=20, warp=0.3),
        validate_every=5,
        checkpoint_every=5,
        loss={"kind": kind, "beta": 2},
    )
    for kind in ("cross-entropy", "similarity")
}


def run_steps(kind, world):
    """Gradients of the first step, and weights, scales and losses after all steps, in float64."""
    config = CONFIGS[kind].with_values(mirror=False)
    torch.manual_seed(world.rank)  # the first process decides, however the others were made
    model = FewShotModel(model_config(dropout=0.0), dataset().layout).double()
    if world.size == 1:
        torch.manual_seed(0)
    episodes = split().training_episodes(dataset(), queries=2, count=config.episodes, seed=config.seed)
    learner = Learner(model, config, episodes, model.store(dataset().motions), world)
    steps = [learner.step(0)]
    found = {f"grad.{name}": weight.grad.clone() for name, weight in model.named_parameters()}
    steps += [learner.step(number) for number in range(1, config.steps)]
    found |= {f"after.{name}": tensor for name, tensor in model.state_dict().items()}
    found |= {f"loss.{name}": tensor.double() for name, tensor in learner.loss.state_dict().items()}
    return found | {"losses": torch.tensor([[step.loss, step.accuracy] for step in steps])}


def run_whole(out, kind, **options):
    """A whole training run."""
    torch.manual_seed(0)
    model = FewShotModel(model_config(dropout=0.0), dataset().layout).double()
    task = {"dataset": dataset(), "split": split(), **options}
    return train(model, "synthetic", config=CONFIGS[kind], out=out, **task)


def refusal(world, error):
    """The error that every process raises when the first one meets it."""

    def work():
        raise error

    try:
        world.broadcast_from_first(work)
    except (JeanieError, OSError) as raised:
        return f"{type(raised).__name__}: {raised}"
    return "nothing"


def child(folder):
    """What each of two processes does; the parent compares."""
    torch.set_num_threads(1)
    folder = Path(folder)
    with join_process_group("cpu") as world:
        facts = {
            "sum": world.reduce_sum(torch.tensor([1.0 + world.rank])).tolist(),
            "any": [world.is_any(False), world.is_any(world.rank == 1)],
            "share": list(world.own_indices(5)),
            "broadcast": world.broadcast_from_first(lambda: b"content").decode(),
            "refused": [refusal(world, error) for error in (DataError("bad"), OSError("gone"))],
        }
        for kind in CONFIGS:
            save_file(run_steps(kind, world), folder / f"{kind}-{world.rank}.safetensors")
            run_whole(folder / kind, kind)
        try:
            run_whole(folder / "similarity", "similarity")
        except ConfigError as error:
            facts["again"] = str(error)
        (folder / f"facts-{world.rank}.json").write_text(json.dumps(facts))
    (folder / f"threads-{world.rank}.json").write_text(json.dumps(thread_names()))


def thread_names():
    """The names of this process's threads, of Python or not; none where the system does not tell."""
    return [task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").glob("*")]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A folder with everything that two processes wrote, started by torchrun."""
    folder = tmp_path_factory.mktemp("two")
    script = folder / "child.py"
    script.write_text(
        f"import sys\nsys.path[:0] = [{str(HERE)!r}, {str(HERE.parent)!r}, {str(ROOT)!r}]\n"
        f"from test_distributed import child\nchild({str(folder)!r})\n"
    )
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        str(script),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.processes
@pytest.mark.parametrize("kind", CONFIGS)
def test_gradients_and_weights_are_those_of_one_process(two, kind):
    one = run_steps(kind, World())
    both = [load_file(two / f"{kind}-{rank}.safetensors") for rank in range(2)]
    assert one.keys() == both[0].keys()
    for name, tensor in one.items():
        assert torch.equal(both[0][name], both[1][name]), name  # no drift between the processes
        assert_close(
            both[0][name], tensor, rtol=1e-9, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}"
        )
    assert one["after.comparison.cost_scale"] > 0
    assert any(name.startswith("grad.") and tensor.abs().max() > 1e-6 for name, tensor in one.items())


@pytest.mark.processes
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_run_of_two_processes_is_that_of_one(two, kind, tmp_path):
    found, alone = Run.load(two / kind), run_whole(tmp_path / "one", kind)
    assert found.facts["sessions"][0]["processes"] == 2
    strip = [[{**line, "seconds": 0} for line in run.metrics()] for run in (found, alone)]
    assert len(strip[0]) == 3
    for left, right in zip(*strip, strict=True):
        assert left.keys() == right.keys()
        assert_close(
            torch.tensor(list(left.values())), torch.tensor(list(right.values())), rtol=1e-7, atol=1e-9
        )
    assert found.summary()[0]["validation"] == pytest.approx(alone.summary()[0]["validation"])
    for name, tensor in alone.model().state_dict().items():
        assert_close(found.model().state_dict()[name], tensor, rtol=1e-8, atol=1e-11)


@pytest.mark.processes
def test_processes_tell_each_other_numbers_and_bytes(two):
    facts = [json.loads((two / f"facts-{rank}.json").read_text()) for rank in range(2)]
    assert [one.pop("share") for one in facts] == [[0, 2, 4], [1, 3]]
    assert facts[0]["refused"] == ["DataError: bad", "OSError: gone"]
    assert facts[1]["refused"] == ["DataError: bad", "JeanieError: gone"]
    for one in facts:
        assert (one["sum"], one["any"], one["broadcast"]) == ([3.0], [False, True], "content")
        assert "contains a run" in one["again"]  # both processes end, with the first one's reason


def test_one_process_alone_shares_with_nobody():
    with join_process_group("cpu") as world:
        assert (world.rank, world.size, world.is_first) == (0, 1, True)
        assert list(world.own_indices(3)) == [0, 1, 2]
        x = torch.ones(2)
        assert world.reduce_sum(x) is x
        assert world.broadcast_from_first(lambda: b"x") == b"x"


@pytest.mark.errors
def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="no device 'abacus'"), join_process_group("abacus"):
        pass
    if not torch.cuda.is_available():
        with (
            pytest.raises(ConfigError, match="torch finds no CUDA here; use device='cpu'"),
            join_process_group("cuda"),
        ):
            pass
    assert replace(World(), rank=1).is_first is False


@pytest.mark.processes
def test_no_thread_outlives_the_group_of_processes(two):
    """One that does may abort the process at its end."""
    for rank in range(2):
        left = json.loads((two / f"threads-{rank}.json").read_text())
        assert [name for name in left if "gloo" in name] == []
