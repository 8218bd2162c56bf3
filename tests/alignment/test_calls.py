"""Calls side by side, one after another and in forked processes; what a backward pass may overwrite."""

import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.testing import assert_close

from jeanie import align, distances


def features(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def align_pairs(x, y, threads):
    """Values and gradients of matched pairs, and of their costs alone."""
    torch.set_num_threads(threads)
    leaf = x.clone().requires_grad_()
    value = distances(leaf, y, gamma=0.1, pairs="matched")
    cost = torch.cdist(x, y).requires_grad_()
    alone = align(cost, gamma=0.1)
    return (
        value.detach(), *torch.autograd.grad(value.sum(), leaf), alone.detach(),
        *torch.autograd.grad(alone.sum(), cost),
    )  # fmt: skip


@pytest.mark.processes
def test_calls_from_several_threads_do_not_disturb_each_other():
    cases = [(features(40 + n, 9 + n, 6, seed=n), features(40 + n, 7, 6, seed=n + 99)) for n in range(6)]
    before = torch.get_num_threads()
    try:
        expected = [align_pairs(x, y, 1) for x, y in cases]
        with ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(align_pairs, x, y, 3) for _ in range(10) for x, y in cases]
            for run, wanted in zip(runs, 10 * expected, strict=True):
                assert_close(run.result(), wanted, rtol=0, atol=0)
    finally:
        torch.set_num_threads(before)


FORK = """
import os, signal, time, torch, jeanie
from jeanie.alignment.backends import native
torch.set_num_threads(1)  # torch's own threads do not survive a fork
native.torch.get_num_threads = lambda: 3
x, y = torch.rand(64, 20, 5), torch.rand(64, 20, 5)
before = jeanie.distances(x, y, pairs="matched")
def is_asleep(task):
    with open(f"/proc/self/task/{task}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "S"
# a thread that still starts may hold locks of AddressSanitizer, for which the child would wait for ever
while sum(map(is_asleep, os.listdir("/proc/self/task"))) < 2:
    time.sleep(0.01)
child = os.fork()
if not child:
    signal.alarm(60)  # should it wait for threads that it does not have
    same = torch.equal(jeanie.distances(x, y, pairs="matched"), before)
    os._exit(len(os.listdir("/proc/self/task")) if same else 99)
_, status = os.waitpid(child, 0)
assert torch.equal(jeanie.distances(x, y, pairs="matched"), before)
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.processes
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts the threads that Linux lists")
def test_a_forked_child_has_threads_of_its_own():
    result = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    assert int(result.stdout) == 3


def costs_or_features(kind):
    """A leaf and the value of its pairs."""
    if kind == "costs":
        leaf = torch.rand(20, 6, 7, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
        return leaf, align(leaf, gamma=0.1)
    leaf = features(20, 6, 4).requires_grad_()
    return leaf, distances(leaf, features(20, 7, 4, seed=1), gamma=0.1, pairs="matched")


@pytest.mark.parametrize("kind", ["costs", "features"])
def test_passes_through_a_graph_that_is_kept_do_not_change_it(kind):
    leaf, value = costs_or_features(kind)
    weight = torch.linspace(-2, 3, 20)
    (first,) = torch.autograd.grad(value, leaf, weight, retain_graph=True)
    kept = first.clone()
    (second,) = torch.autograd.grad(value, leaf, -weight, retain_graph=True)
    (last,) = torch.autograd.grad(value, leaf, 2 * weight)
    assert_close(first, kept, rtol=0, atol=0)
    assert_close(second, -first, rtol=0, atol=0)
    assert_close(last, 2 * first, rtol=1e-6, atol=1e-7)
    assert len({x.data_ptr() for x in (first, second, last)}) == 3


@pytest.mark.parametrize("kind", ["costs", "features"])
def test_a_leaf_of_two_calls_gets_the_sum_of_their_gradients(kind):
    def value(leaf):
        if kind == "costs":
            return align(leaf, gamma=0.1).sum()
        return distances(leaf, features(20, 7, 4, seed=1), gamma=0.1, pairs="matched").sum()

    leaf, _ = costs_or_features(kind)
    (once,) = torch.autograd.grad(value(leaf), leaf)
    (3 * value(leaf) - value(leaf)).backward()
    value(leaf).backward()  # onto the gradient that is there
    assert_close(leaf.grad, 3 * once, rtol=1e-5, atol=1e-6)


MEMORY = """
import resource, torch, jeanie
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
jeanie.align(torch.rand(20, 3, 3, requires_grad=True)).sum().backward()
cost = torch.rand(200, 200, 200).requires_grad_(); start = peak()
jeanie.align(cost).sum().backward()
print((peak() - start) / (cost.numel() * 4 / 2**20))
"""


def test_the_gradient_takes_the_place_of_the_plan():
    """Beside the cost only one more like it, and the workspace of a few pairs."""
    result = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert float(result.stdout) < 1.4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(300, 300), (1, 400), (37, 251)])
def test_costs_of_zero_count_all_paths(shape, dtype):
    """Numbers grow as fast as they can: exp(-value / gamma) is the number of paths, a Delannoy number."""
    counts = [1] * shape[1]
    for _ in range(shape[0] - 1):
        row = [1]
        for above, corner in zip(counts[1:], counts[:-1], strict=True):
            row.append(row[-1] + above + corner)
        counts = row
    for gamma in (0.01, 1.0):
        cost = torch.zeros(9, *shape, dtype=dtype).requires_grad_()
        value = align(cost, gamma=gamma, backend="native")
        expected = -gamma * math.log(counts[-1])
        assert_close(value, torch.full((9,), expected, dtype=dtype), rtol=1e-5, atol=1e-7)
        (plan,) = torch.autograd.grad(value.sum(), cost)
        symmetric = plan.flip(1, 2)  # a path read backwards is a path
        assert_close(plan, symmetric, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-12)
        assert_close(plan[:, 0, 0], torch.ones(9, dtype=dtype), rtol=1e-5, atol=0)
