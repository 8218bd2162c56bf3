"""What the Triton backend refuses, and which backend is selected where."""

import math
from types import SimpleNamespace

import pytest
import torch

from jeanie import ConfigError, ShapeError, align, distances
from jeanie.alignment import find_backend
from jeanie.alignment.backends import triton

pytestmark = pytest.mark.errors


@pytest.mark.parametrize("gamma", [0.0, 0.01])
@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_costs_that_are_not_finite(gamma, bad):
    cost = torch.rand(3, 2, 3)
    cost[1, 1, 1] = bad
    with pytest.raises(ShapeError, match="finite numbers where a path may pass"):
        align(cost, gamma=gamma, backend="triton")


def test_features_that_are_not_finite():
    query = torch.rand(2, 3, 4)
    query[1, 2, 3] = math.nan
    with pytest.raises(ShapeError, match="features need finite numbers"):
        distances(query, torch.rand(2, 3, 4), metric="sqeuclidean", backend="triton")


@pytest.mark.parametrize("gamma", [0.0, 0.01])
def test_a_band_without_a_path(gamma):
    with pytest.raises(ConfigError, match="band leaves no path"):
        align(torch.rand(2, 2, 6), band=0.1, gamma=gamma, backend="triton")


def test_costs_beyond_every_exponent():
    with pytest.raises(ConfigError, match=r"costs / gamma must stay below 2\^34"):
        align(torch.full((1, 2, 2), 1e7), gamma=1e-4, backend="triton")


def test_lengths_beyond_the_tensor():
    with pytest.raises(ShapeError, match="between 1 and the padded length"):
        align(torch.rand(2, 3, 3), query_lengths=[3, 4], backend="triton")
    lengths = torch.tensor([[3], [0]])
    with pytest.raises(ShapeError, match="between 1 and the padded lengths"):  # as the kernel reports it
        triton.align_costs(torch.rand(2, 1, 3, 3), lengths, None, 0.1, 1, None, with_plan=False)


def test_too_many_cells_on_an_anti_diagonal():
    with pytest.raises(ConfigError, match="at most 16384 cells on an anti-diagonal"):
        align(torch.zeros(1, 7, 7, 7, 7, 7, 7), backend="triton")


def elsewhere(*shape, device="cuda"):
    """Return what the selection sees of a tensor on a device that is not here."""
    return SimpleNamespace(shape=torch.Size(shape), device=torch.device(device))


def test_a_missing_package_and_another_device(monkeypatch):
    with pytest.raises(ConfigError, match="runs on CUDA and ROCm devices"):
        find_backend(elsewhere(1, 2, 2, device="xpu"), backend="triton")
    monkeypatch.setattr(triton, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"pip install 'jeanie\[triton\]'"):
        align(torch.rand(1, 2, 2), backend="triton")


def test_the_preprints_plan_needs_torch():
    with pytest.raises(ConfigError, match="runs in torch only"):
        align(torch.rand(1, 2, 2, 3), plan="preprint", backend="triton")


def test_auto_takes_triton_on_a_gpu_where_the_problem_fits(monkeypatch):
    monkeypatch.setattr(triton, "find_limit", lambda device: 1000)
    cost = elsewhere(2, 20, 30, 5, 5)
    assert find_backend(cost) == "triton"
    assert find_backend(elsewhere(2, 20, 5, 5, 8), elsewhere(3, 50, 8)) == "triton"
    assert find_backend(elsewhere(2, 41, 41, 5, 5)) == "reference"
    assert find_backend(elsewhere(2, 20, 30, device="mps")) == "reference"
    assert find_backend(elsewhere(2, 41, 41, 5, 5, device="cpu")) == "native"
    with pytest.raises(ConfigError, match="'native' runs on the CPU"):
        find_backend(cost, backend="native")
    monkeypatch.setattr(triton, "is_available", lambda: False)
    assert find_backend(cost) == "reference"


def test_the_limit_follows_the_shared_memory(monkeypatch):
    class Properties:
        shared_memory_per_block_optin = 65536

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    assert triton.find_limit(torch.device("cuda")) == 4096
    Properties.shared_memory_per_block_optin = 166912  # an A100
    assert triton.find_limit(torch.device("cuda")) == 16384
