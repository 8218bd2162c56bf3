"""Graph filters against dense linear algebra in float64 NumPy, and the laws that hold on any skeleton."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from jeanie.encoders.graph import GraphFilter, compute_propagation, normalise_adjacency
from jeanie.errors import ConfigError
from jeanie.skeleton import LAYOUTS, Layout

FIXED = ("sgc", "appnp", "s2gc", "none")
LAYOUT = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
LOOSE = Layout("loose", ("head", "hand", "foot", "toe"), ((0, 1), (2, 3)), (), root=0, torso=0)


def degrees(layout):
    """Neighbours of every joint, itself among them."""
    return [1 + sum(joint in bone for bone in layout.bones) for joint in range(len(layout))]


def step(layout):
    """S, entry by entry."""
    degree, joints = degrees(layout), range(len(layout))
    linked = {frozenset(bone) for bone in layout.bones}
    matrix = np.zeros((len(layout), len(layout)))
    for i in joints:
        for j in joints:
            if i == j or frozenset((i, j)) in linked:
                matrix[i, j] = 1 / (degree[i] * degree[j]) ** 0.5
    return matrix


def build_dense_filter(layout, kind, layers, alpha):
    """The filter as a polynomial in S: closed forms, no recursion."""
    power = [np.linalg.matrix_power(step(layout), hops) for hops in range(layers + 1)]
    if kind == "none":
        return power[0]
    if kind == "sgc":
        return power[layers]
    if kind == "s2gc":
        return sum((1 - alpha) * power[hops] + alpha * power[0] for hops in range(1, layers + 1)) / layers
    restarts = sum(alpha * (1 - alpha) ** hops * power[hops] for hops in range(layers))
    return restarts + (1 - alpha) ** layers * power[layers]


def hops(layout):
    """Bones between every two joints, by breadth-first search; -1 where no path leads."""
    linked = {joint: set() for joint in range(len(layout))}
    for parent, child in layout.bones:
        linked[parent].add(child)
        linked[child].add(parent)
    away = np.full((len(layout), len(layout)), -1)
    for start in linked:
        edge, seen = {start}, 0
        while edge:
            away[start, list(edge)] = seen
            edge = {near for joint in edge for near in linked[joint] if away[start, near] < 0}
            seen += 1
    return away


def features(layout, width=4, *batch, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*batch, len(layout), width, generator=generator, dtype=torch.float64)


@LAYOUT
def test_the_normalised_adjacency_is_the_papers_s(layout):
    assert_close(normalise_adjacency(layout), torch.from_numpy(step(layout)), atol=1e-15, rtol=0)


@LAYOUT
def test_the_eigenvalues_of_s_lie_within_one_and_the_largest_is_one(layout):
    values = np.linalg.eigvalsh(normalise_adjacency(layout).numpy())
    assert values.min() > -1
    assert values.max() == pytest.approx(1, abs=1e-12)


@LAYOUT
@pytest.mark.parametrize("kind", FIXED)
@pytest.mark.parametrize(("layers", "alpha"), [(1, 0.5), (2, 0.1), (6, 0.5), (9, 0.0), (3, 1.0)])
def test_the_operator_is_the_filters_polynomial_in_s(layout, kind, layers, alpha):
    expected = torch.from_numpy(build_dense_filter(layout, kind, layers, alpha))
    assert_close(compute_propagation(layout, kind, layers, alpha), expected, atol=1e-13, rtol=0)


@LAYOUT
@pytest.mark.parametrize("kind", FIXED)
def test_what_is_in_balance_along_the_bones_passes_unchanged(layout, kind):
    """S has eigenvector sqrt(degree) with eigenvalue 1, and every filter's polynomial is 1 at 1."""
    balance = torch.tensor(degrees(layout), dtype=torch.float64).sqrt()
    assert_close(compute_propagation(layout, kind, 6, 0.3) @ balance, balance, atol=1e-12, rtol=0)


@LAYOUT
@pytest.mark.parametrize("kind", ["sgc", "appnp", "s2gc"])
@pytest.mark.parametrize("layers", [1, 3])
def test_a_joint_hears_exactly_those_within_as_many_bones_as_layers(layout, kind, layers):
    away = hops(layout)
    heard = (compute_propagation(layout, kind, layers, 0.5) != 0).numpy()
    assert (heard == ((away >= 0) & (away <= layers))).all()


def test_appnp_with_many_layers_is_personalised_page_rank():
    layout, alpha = LAYOUTS["ntu25"], 0.2
    limit = alpha * np.linalg.inv(np.eye(25) - (1 - alpha) * step(layout))
    assert_close(
        compute_propagation(layout, "appnp", 200, alpha), torch.from_numpy(limit), atol=1e-12, rtol=0
    )


def test_sgc_with_many_layers_keeps_the_balance_alone():
    layout = LAYOUTS["kinect20"]
    balance = np.sqrt(degrees(layout)) / np.sqrt(sum(degrees(layout)))
    limit = torch.from_numpy(np.outer(balance, balance))
    assert_close(compute_propagation(layout, "sgc", 5000, 0.5), limit, atol=1e-9, rtol=0)


def test_alpha_one_is_no_filter_at_all():
    for kind in ("appnp", "s2gc"):
        assert_close(compute_propagation(LAYOUTS["coco17"], kind, 6, 1), torch.eye(17, dtype=torch.float64))


def test_one_layer_without_alpha_is_s_for_all_three():
    for kind in ("sgc", "appnp", "s2gc"):
        found = compute_propagation(LAYOUTS["h36m17"], kind, 1, 0)
        assert_close(found, normalise_adjacency(LAYOUTS["h36m17"]), atol=1e-15, rtol=0)


def test_joints_without_a_path_between_them_never_mix():
    for kind in FIXED:
        found = compute_propagation(LOOSE, kind, 4, 0.5)
        assert found[:2, 2:].eq(0).all()
        assert found[2:, :2].eq(0).all()


def test_a_single_joint_is_passed_through():
    alone = Layout("alone", ("head",), (), (), root=0, torso=0)
    for kind in FIXED:
        assert_close(compute_propagation(alone, kind, 6, 0.5), torch.ones(1, 1, dtype=torch.float64))


@given(st.permutations(range(15)), st.sampled_from(FIXED))
def test_another_order_of_the_joints_is_another_order_of_rows_and_columns(order, kind):
    layout = LAYOUTS["openni15"]
    row = layout.to_dict()
    other = Layout.from_dict({**row, "joints": [row["joints"][joint] for joint in order]})
    index = torch.tensor(order)
    expected = compute_propagation(layout, kind, 3, 0.4)[index][:, index]
    assert_close(compute_propagation(other, kind, 3, 0.4), expected, atol=1e-14, rtol=0)


@LAYOUT
@pytest.mark.parametrize("kind", FIXED)
def test_a_filter_multiplies_every_skeleton_by_its_operator(layout, kind):
    joints = features(layout, 4, 2, 3)
    found = GraphFilter(layout, 4, kind=kind, layers=5, alpha=0.3).double()(joints)
    matrix = build_dense_filter(layout, kind, 5, 0.3)
    for clip in range(2):
        for block in range(3):
            expected = torch.from_numpy(matrix @ joints[clip, block].numpy())
            assert_close(found[clip, block], expected, atol=1e-13, rtol=0)


@LAYOUT
@pytest.mark.parametrize("kind", FIXED)
def test_a_filtered_weight_is_a_linear_layer_after_the_filter(layout, kind):
    weight, joints = features(layout, 4, 7), features(layout, 4, 3)
    filtered = torch.from_numpy(build_dense_filter(layout, kind, 5, 0.3)) @ joints
    graph = GraphFilter(layout, 4, kind=kind, layers=5, alpha=0.3).double()
    found = joints.flatten(1) @ graph.filter_weight(weight.flatten(1)).T
    assert_close(found, filtered.flatten(1) @ weight.flatten(1).T, atol=1e-12, rtol=0)


@LAYOUT
@pytest.mark.parametrize("layers", [1, 2, 6])
def test_gcn_is_s_h_theta_with_relu_between_layers(layout, layers):
    module = GraphFilter(layout, 4, kind="gcn", layers=layers).double()
    joints = features(layout, 4, 3)
    thetas = [weight.weight.detach().numpy().T for weight in module.weights]
    assert len(thetas) == layers
    for block in range(3):
        state = joints[block].numpy()
        for theta in thetas[:-1]:
            state = np.maximum(step(layout) @ state @ theta, 0)
        expected = torch.from_numpy(step(layout) @ state @ thetas[-1])
        assert_close(module(joints)[block].detach(), expected, atol=1e-13, rtol=0)


def test_only_gcn_has_weights_and_no_filter_saves_its_operator():
    layout = LAYOUTS["ntu25"]
    assert [tuple(p.shape) for p in GraphFilter(layout, 8, kind="gcn", layers=3).parameters()] == [(8, 8)] * 3
    for kind in FIXED:
        assert list(GraphFilter(layout, 8, kind=kind).state_dict()) == []
    assert set(GraphFilter(layout, 8, kind="gcn", layers=2).state_dict()) == {
        "weights.0.weight",
        "weights.1.weight",
    }


def test_the_operator_is_exact_in_every_dtype_whatever_was_before():
    layout = LAYOUTS["ntu25"]
    module = GraphFilter(layout, 4)
    assert module.matrix().dtype == torch.float32
    wandered = module.half().float().double()
    assert_close(wandered.matrix(), compute_propagation(layout), atol=0, rtol=0)
    assert_close(wandered.float().matrix(), compute_propagation(layout).float(), atol=0, rtol=0)


def test_a_module_made_without_memory_gets_its_operator_back():
    module = GraphFilter(LAYOUTS["ntu25"], 4).to("meta").to_empty(device="cpu")
    assert_close(module.matrix(), compute_propagation(LAYOUTS["ntu25"]).float(), atol=0, rtol=0)


@pytest.mark.errors
def test_a_filter_says_which_kinds_layers_and_alphas_there_are():
    layout = LAYOUTS["ntu25"]
    with pytest.raises(
        ConfigError, match="one of sgc, appnp, s2gc, none, got 'gcn'; for gcn, which has weights"
    ):
        compute_propagation(layout, "gcn")
    with pytest.raises(ConfigError, match="one of sgc, appnp, s2gc, none, got 'gat'"):
        GraphFilter(layout, 4, kind="gat")
    with pytest.raises(ConfigError, match=r"1 layer or more and alpha from 0 to 1, got 0 and 0\.5"):
        compute_propagation(layout, "sgc", 0)
    with pytest.raises(ConfigError, match=r"got 6 and 1\.5; the paper uses 6 and 0\.5"):
        GraphFilter(layout, 4, alpha=1.5)
