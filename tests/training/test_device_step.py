"""A training step on a device: one read by the host, lower precision, parts, recomputation, prefetching."""

import weakref

import pytest
import torch
from tiny_task import dataset, model_config, split
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from jeanie.alignment import autograd_features, selection
from jeanie.alignment.backends import triton
from jeanie.compute.distributed import World
from jeanie.fewshot.batch import Batch
from jeanie.fewshot.losses import LossConfig
from jeanie.fewshot.model import FewShotModel
from jeanie.training import prefetch
from jeanie.training.augment import AugmentConfig
from jeanie.training.config import TrainConfig
from jeanie.training.step import Learner
from jeanie.training.train import train

CONFIG = TrainConfig(
    episodes=8, batch=4, queries=2, mirror=False, rate=1e-3, augment=AugmentConfig(yaw=20, warp=0.3)
)


def make_learner(config=CONFIG, changes=None):
    torch.manual_seed(0)
    data, task = dataset(), split()
    model = FewShotModel(model_config().with_values({"encoder.dropout": 0.0, **(changes or {})}), data.layout)
    episodes = task.training_episodes(data, way=3, queries=config.queries, count=config.episodes, seed=0)
    return Learner(model, config, episodes, model.store(data.motions), World())


def gradients(learner):
    return [weight.grad.clone() for weight in learner.weights]


def run_step(**changes):
    learner = make_learner(CONFIG.with_values(**changes))
    step = learner.step(0)
    return step, gradients(learner), learner


# operations whose result the host waits for
READS = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2", "unique_dim"}


class DeviceReads(TorchDispatchMode):
    """Follows the tensors that lie on the device and lists the operations by which the host reads them."""

    def __init__(self):
        super().__init__()
        self.tensors, self.reads = weakref.WeakValueDictionary(), []

    def mark(self, *tensors):
        self.tensors.update({id(x): x for x in tensors})

    def is_marked(self, x):
        return isinstance(x, torch.Tensor) and self.tensors.get(id(x)) is x

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        flat = torch.utils._pytree.tree_leaves((args, kwargs))
        on_device = any(map(self.is_marked, flat))
        name = func.__name__.split(".")[0]
        indices = args[1] if name in ("index", "index_put_", "index_put") else ()
        masks = [x for x in indices if self.is_marked(x) and x.dtype in (torch.bool, torch.uint8)]
        if on_device and (name in READS or masks):
            self.reads.append(name)
        result = func(*args, **(kwargs or {}))
        if on_device:
            self.mark(*(x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor)))
        return result


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("loss", ["cross-entropy", "similarity"])
def test_the_host_reads_the_device_once_per_step(monkeypatch, loss, relative):
    """Parameters and batches count as on the device; the kernel is replaced, because its interpreter is the host."""
    config = CONFIG.with_values({"loss": LossConfig(kind=loss)})
    learner = make_learner(config, {"align.relative": relative})
    reads = DeviceReads()
    to, run = Batch.to, triton._run
    is_read_early = []

    def move(batch, *args):
        moved = to(batch, *args)
        reads.mark(moved.joints, moved.valid)
        return moved

    def launch(table, lengths, gamma, shift, band, plan):
        assert isinstance(gamma, torch.Tensor) == relative
        return table.query.new_zeros(table.shape) + table.query.mean()

    def read(x):
        if reads.is_marked(x):
            reads.reads.append("tolist")
            is_read_early.append(learner.optimiser.state == {})
        return tolist(x)

    tolist = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", read)
    monkeypatch.setattr(Batch, "to", move)
    monkeypatch.setattr(triton, "_run", launch)
    for module in (selection, autograd_features):
        monkeypatch.setattr(module, "select_backend", lambda x, wanted, lanes=1: "triton")
    # what is decided by the device of a tensor: here all tensors are on the CPU
    monkeypatch.setattr("jeanie.alignment.feature_distances.convert_gamma", lambda gamma: gamma)
    monkeypatch.setattr("jeanie.alignment.feature_distances.check_gamma", lambda *_: None)
    monkeypatch.setattr("jeanie.alignment.api.check_gamma", lambda *_: None)
    monkeypatch.setattr("jeanie.alignment.feature_distances.check_lengths", lambda *_: None)
    monkeypatch.setattr(
        "jeanie.fewshot.comparison.base.Comparison._scale_gamma",
        lambda self, gamma: gamma * self.get_buffer("cost_scale").clamp_min(1e-12),
    )
    reads.mark(*learner.model.parameters(), *learner.model.buffers(), *learner.loss.parameters())
    reads.mark(*learner.loss.buffers())
    with reads:
        learner.step(0)
    assert reads.reads == ["tolist"]
    assert is_read_early == [False]
    assert run is not triton._run


def test_the_count_sees_reads():
    reads = DeviceReads()
    x = torch.rand(3)
    reads.mark(x)
    with reads:
        float((2 * x).sum())
        x[x > 2]
        torch.rand(2).sum().item()
    assert reads.reads == ["_local_scalar_dense", "index"]


@pytest.mark.parametrize("parts", [2, 3])
def test_the_gradient_of_parts_is_that_of_the_whole_step(parts):
    for loss in ("cross-entropy", "similarity"):
        whole, expected, one = run_step(loss=LossConfig(kind=loss))
        found, grads, other = run_step(loss=LossConfig(kind=loss), accumulate=parts)
        assert_close(grads, expected, rtol=1e-4, atol=1e-6)
        assert found.loss == pytest.approx(whole.loss, rel=1e-5)
        assert_close(
            other.model.comparison.get_buffer("cost_scale"), one.model.comparison.get_buffer("cost_scale")
        )


def test_recomputed_activations_give_the_same_gradient():
    changes = {"views.sides": "both", "views.azimuth": 15.0, "views.altitude": 15.0}
    plain, again = (make_learner(CONFIG.with_values(recompute=flag), changes) for flag in (False, True))
    steps = plain.step(0), again.step(0)
    assert_close(gradients(again), gradients(plain), rtol=1e-5, atol=1e-8)
    assert steps[0].loss == pytest.approx(steps[1].loss, rel=1e-6)
    assert not any(part.recompute for part in again._models)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_lower_precision_is_close_to_float32(precision):
    exact, expected, _ = run_step()
    learner = make_learner(CONFIG.with_values(precision=precision))
    if precision == "fp16":  # the first factor would be lowered in a few steps
        learner._scaler.load_state_dict({**learner._scaler.state_dict(), "scale": 64.0})
    found, grads = learner.step(0), gradients(learner)
    flat, other = (torch.cat([g.flatten() for g in x]) for x in (expected, grads))
    assert 0 < float((flat - other).norm() / flat.norm()) < 0.1
    assert found.loss == pytest.approx(exact.loss, rel=0.02)
    assert all(weight.dtype == torch.float32 for weight in learner.weights)
    assert learner.model.autocast_dtype is None


def test_an_overflow_in_fp16_skips_the_step_and_lowers_the_factor():
    learner = make_learner(CONFIG.with_values(precision="fp16"))
    before = [weight.clone() for weight in learner.weights]
    learner._scaler.load_state_dict({**learner._scaler.state_dict(), "scale": 2.0**127})
    step = learner.step(0)
    assert not torch.isfinite(torch.tensor(step.gradient))
    assert_close([weight.detach() for weight in learner.weights], before, rtol=0, atol=0)
    assert learner._scaler.get_scale() < 2.0**127
    tensors = learner.scaler_tensors()
    other = make_learner(CONFIG.with_values(precision="fp16"))
    other.restore_scaler(tensors)
    assert other.scaler_tensors() == tensors


def test_a_resumed_run_in_lower_precision_is_the_run(tmp_path):
    config = CONFIG.with_values(
        precision="fp16", accumulate=2, episodes=8, checkpoint_every=4, validate_every=8
    )
    options = {"dataset": dataset(), "split": split()}
    whole = train(model_config(), "synthetic", config=config, out=tmp_path / "whole", **options)

    def stop(progress):
        if progress.episode == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(model_config(), "synthetic", config=config, out=tmp_path / "cut", progress=stop, **options)
    resumed = train(model_config(), "synthetic", config=config, out=tmp_path / "cut", resume=True, **options)
    keys = ("episode", "loss", "accuracy", "gradient")
    assert [[row[k] for k in keys] for row in resumed.metrics()] == [
        [row[k] for k in keys] for row in whole.metrics()
    ]


@pytest.mark.parametrize("parts", [1, 2])
def test_clips_that_are_loaded_ahead_give_the_same_step(parts, monkeypatch):
    results = []
    for in_background in (False, True):
        monkeypatch.setattr(
            "jeanie.training.step.ClipLoader",
            lambda store, device, background=in_background: prefetch.ClipLoader(
                store, device, in_background=background
            ),
        )
        results.append(run_step(accumulate=parts))
    (expected, grads, _), (step, others, learner) = results
    assert step == expected
    assert_close(others, grads, rtol=0, atol=0)
    assert len(learner.loader._requests) == 2 * parts  # both sides of the next step
    assert learner.step(1).episode == 8
    assert not learner.loader._requests


@pytest.mark.parametrize(("threads", "cores", "is_ahead"), [(1, 2, True), (2, 2, False), (4, 2, False)])
def test_a_thread_loads_clips_only_if_a_core_is_free(threads, cores, is_ahead, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(cores)), raising=False)
    loader = prefetch.ClipLoader(make_learner(CONFIG).store, torch.device("cpu"))
    loader.request((0,), [torch.tensor([0, 1])])
    assert (len(loader._requests) == 1) == is_ahead
    assert loader.load((0,), [torch.tensor([0, 1])]).clips.tolist() == [0, 1]


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore")  # the compiler has warnings of its own
def test_a_compiled_encoder_gives_the_same_step(monkeypatch):
    expected, grads, _ = run_step()
    compile_ = torch.nn.Module.compile
    # the default compiler needs a C++ compiler and a minute; this one runs the same traced graph
    monkeypatch.setattr(
        torch.nn.Module, "compile", lambda self, **options: compile_(self, backend="aot_eager", **options)
    )
    found, others, learner = run_step(compile=True)
    assert learner.model.encoder._compiled_call_impl is not None
    assert found.loss == pytest.approx(expected.loss, rel=1e-5)
    assert_close(others, grads, rtol=1e-4, atol=5e-7)  # the eager encoder uses the compiled kernel
