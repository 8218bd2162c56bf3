"""The model is its parts: features, alignment, fusion; saved and loaded to the same numbers."""

import json

import pytest
import torch
from torch.testing import assert_close

import jeanie
from jeanie.encoders import GraphEncoderConfig
from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.fewshot.classes import classify
from jeanie.fewshot.config import RAW, CameraViewsConfig, EulerViewsConfig, JeanieConfig, ModelConfig
from jeanie.fewshot.inputs import InputConfig, PrepareConfig
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton import LAYOUTS, Motion

LAYOUT = LAYOUTS["kinect20"]
SMALL = ModelConfig(
    inputs=InputConfig(block=4, stride=0.5),
    views=EulerViewsConfig(azimuth=15, altitude=15),
    encoder=GraphEncoderConfig(width=4, features=6, dropout=0.0),
)


def motions(count: int, seed: int = 0, persons: int = 1) -> list[Motion]:
    generator = torch.Generator().manual_seed(seed)
    return [
        Motion(0.3 * torch.randn(6 + 3 * i, persons, len(LAYOUT), 3, generator=generator), LAYOUT)
        for i in range(count)
    ]


def model(changes: dict | None = None, seed: int = 0) -> FewShotModel:
    torch.manual_seed(seed)
    return FewShotModel(SMALL.with_values(changes or {}), LAYOUT).double().eval()


@pytest.mark.parametrize("kind", ["none", "euler", "camera"])
@pytest.mark.parametrize("sides", ["query", "both"])
def test_distances_are_those_of_the_public_operator_on_the_features(kind, sides):
    net = model({"views.kind": kind} | ({} if kind == "none" else {"views.sides": sides}))
    queries, supports = net.collate(motions(3)), net.collate(motions(2, seed=1))
    q, s = net.features(queries, "query"), net.features(supports, "support")
    expected = jeanie.distances(
        q.values,
        s.values,
        query_lengths=q.counts,
        support_lengths=s.counts,
        metric="rbf",
        sigma=2.0,
        gamma=0.01,
        shift=1,
    )
    assert_close(net(queries, supports), expected)
    axes = 0 if kind == "none" else 2
    assert q.values.dim() == 3 + axes
    assert s.values.dim() == 3 + (axes if sides == "both" else 0)


def test_the_recorded_view_of_a_query_has_the_features_of_a_support():
    net = model()
    batch = net.collate(motions(2))
    assert_close(net.features(batch, "query").values[:, :, 1, 1], net.features(batch, "support").values)


def test_free_view_matching_takes_the_best_view_of_every_pair_of_blocks():
    net = model({"align.method": "fvm", "align.gamma": 0.0, "align.metric": "euclidean"})
    queries, supports = net.collate(motions(1)), net.collate(motions(1, seed=1))
    q, s = net.features(queries, "query").values[0], net.features(supports, "support").values[0]
    cost = (q[:, None] - s[None, :, None, None]).norm(dim=-1).amin((2, 3))
    assert_close(net(queries, supports)[0, 0], jeanie.align(cost[None], gamma=0.0)[0])


def test_simple_euler_views_are_two_alignments_of_which_the_smaller_counts():
    net = model({"views.kind": "euler-simple", "align.gamma": 0.0})
    grid = model({"align.gamma": 0.0})
    queries, supports = net.collate(motions(2)), net.collate(motions(2, seed=1))
    q, s = grid.features(queries, "query"), grid.features(supports, "support")
    rows = [
        jeanie.distances(part, s.values, gamma=0.0, query_lengths=q.counts, support_lengths=s.counts)
        for part in (q.values[:, :, :, 1], q.values[:, :, 1])
    ]
    assert_close(net(queries, supports), torch.minimum(*rows))


def test_pooling_compares_means_and_no_order():
    net = model({"align.method": "pool", "views.kind": "none", "align.metric": "sqeuclidean"})
    queries, supports = net.collate(motions(3)), net.collate(motions(2, seed=1))
    q, s = net.features(queries, "query"), net.features(supports, "support")
    for i in range(3):
        for j in range(2):
            left, right = q.values[i, : q.counts[i]].mean(0), s.values[j, : s.counts[j]].mean(0)
            assert_close(net.compare(q, s)[i, j], (left - right).square().sum())


def test_persons_are_encoded_alone_and_averaged():
    net = model({"views.kind": "none"})
    pair = motions(1, persons=2)[0]
    both = net.features(net.collate([pair])).values
    alone = [net.features(net.collate([pair.person(i)])).values for i in range(2)]
    assert_close(both, (alone[0] + alone[1]) / 2)
    mixed = net.features(net.collate([pair, motions(2, seed=3)[1]])).values
    single = net.features(net.collate([motions(2, seed=3)[1]])).values
    assert_close(mixed[1, : single.shape[1]], single[0])


def test_two_persons_are_matched_the_better_way_round():
    net = model({"views.kind": "none", "align.persons": "matched", "align.gamma": 0.0})
    alone = model({"views.kind": "none", "align.gamma": 0.0})
    pairs, single = motions(2, persons=2), motions(1, seed=5)[0]
    swapped = pairs[0].replace(joints=pairs[0].joints.flip(1), valid=pairs[0].valid.flip(1))
    assert_close(net.distances([pairs[0]], [swapped]).item(), net.distances([pairs[0]], [pairs[0]]).item())
    found = net.distances([*pairs, single], [*pairs, single])
    people = [[m.person(p) for p in range(m.persons)] for m in (*pairs, single)]
    for i, left in enumerate(people):
        for j, right in enumerate(people):
            d = alone.distances(left, right)
            expected = min(d[0, 0] + d[1, 1], d[0, 1] + d[1, 0]) / 2 if d.shape == (2, 2) else d.min()
            assert_close(found[i, j], expected, msg=f"{i} {j}")


def test_models_beside_are_added_by_weight_and_unit():
    other = RAW.with_values({"weight": 0.5, "unit": 3.0})
    net = model({"components": (other.model_dump(),)})
    queries, supports = motions(3), motions(2, seed=1)
    alone, raw = model().distances(queries, supports), FewShotModel.raw(RAW).distances(queries, supports)
    assert_close(net.distances(queries, supports), alone + raw.double() * 0.5 / 3, rtol=1e-5, atol=1e-6)


def test_chunks_without_gradients_give_what_one_call_gives(monkeypatch):
    net = model()
    batch = net.collate(motions(4))
    whole = net.features(batch)
    monkeypatch.setattr("jeanie.fewshot.chunks._CHUNK", 1)
    with torch.no_grad():
        parts = net.features(batch)
    assert_close(parts.values, whole.values)
    assert torch.equal(parts.counts, whole.counts)


def test_every_weight_gets_a_gradient():
    net = model().train()
    net(net.collate(motions(2)), net.collate(motions(2, seed=1))).sum().backward()
    assert all(bool(weight.grad.abs().sum() > 0) for weight in net.parameters())


def test_a_relative_gamma_follows_the_mean_distance_of_blocks():
    config = {"align.relative": True, "align.metric": "sqeuclidean", "align.gamma": 0.1, "views.kind": "none"}
    net = model(config).train()
    q, s = (
        net.features(net.collate(motions(3)), "query"),
        net.features(net.collate(motions(2, seed=1)), "support"),
    )
    found = net.compare(q, s)
    left = torch.cat([q.values[i, : q.counts[i]] for i in range(3)])
    right = torch.cat([s.values[i, : s.counts[i]] for i in range(2)])
    mean = torch.cdist(left, right).square().mean()
    expected = jeanie.distances(
        q.values, s.values, metric="sqeuclidean", gamma=0.1 * mean.item(),
        query_lengths=q.counts, support_lengths=s.counts,
    )  # fmt: skip
    assert_close(found, expected, rtol=1e-6, atol=1e-9)
    kept = net.comparison.cost_scale.clone()
    net.eval().compare(s, q)
    assert torch.equal(net.comparison.cost_scale, kept), "evaluation must not move the scale"


def test_the_traced_path_of_simple_views_stays_in_the_better_row():
    net = model({"views.kind": "euler-simple", "align.gamma": 0.0})
    one, two = motions(2)
    found = net.trace(one, two)
    assert_close(torch.as_tensor(found.distance), net.distances([one], [two])[0, 0])
    assert found.path.shape[1] == 3
    assert int(found.path[:, 2].max()) <= 2, "three views a row"


def test_the_traced_path_ends_at_both_last_blocks_and_costs_the_distance():
    net = model({"align.gamma": 0.0})
    one, two = motions(2)
    found = net.trace(one, two)
    assert_close(torch.as_tensor(found.distance), net.distances([one], [two])[0, 0])
    assert found.path[0, :2].tolist() == [0, 0]
    assert found.path[-1, :2].tolist() == [n - 1 for n in found.plan.shape[:2]]


MATCHED = {
    "align.persons": "matched",
    "align.gamma": 0.0,
    "align.metric": "sqeuclidean",
    "views.kind": "none",
}


def people(first: Motion, second: Motion) -> Motion:
    frames = min(len(first), len(second))
    return Motion(torch.cat([first.joints[:frames], second.joints[:frames]], 1), LAYOUT)


def cheapest_path(cost: torch.Tensor) -> float:
    """Smallest sum from corner to corner, in scalars."""
    best: dict[tuple[int, int], float] = {}
    for t in range(cost.shape[0]):
        for s in range(cost.shape[1]):
            before = [best[cell] for cell in ((t - 1, s), (t, s - 1), (t - 1, s - 1)) if cell in best]
            best[t, s] = cost[t, s].item() + min(before, default=0.0)
    return best[cost.shape[0] - 1, cost.shape[1] - 1]


@pytest.mark.parametrize("swapped", [False, True])
def test_two_matched_persons_are_traced_together_in_the_better_pairing(swapped):
    net = model(MATCHED)
    one, two = motions(8)[6:]
    query = people(one, two)
    near = [Motion(x.joints + 0.02 * torch.randn_like(x.joints), LAYOUT) for x in (one, two)]
    support = people(*(near[::-1] if swapped else near))
    pairs = ((0, 1), (1, 0)) if swapped else ((0, 0), (1, 1))
    assert net.match_persons(query, support) == pairs
    q, s = (net.features(net.collate([clip]), "query").persons for clip in (query, support))
    costs = [torch.cdist(q[i].values[0], s[j].values[0]).square().detach() for i, j in pairs]
    assert costs[0].shape[0] > 5
    found = net.trace(query, support)
    assert_close(float(found.distance), cheapest_path((costs[0] + costs[1]) / 2))
    each = sum(cheapest_path(cost) for cost in costs) / 2
    assert_close(net.distances([query], [support]).item(), each)
    assert float(found.distance) >= each - 1e-12


def test_of_one_against_two_the_nearer_is_traced():
    net = model(MATCHED)
    one, two, _ = motions(3)
    both = people(one, two)
    alone = Motion(two.joints[: len(both)], LAYOUT)
    assert net.match_persons(both, alone) == ((1, 0),)
    assert net.match_persons(alone, both) == ((0, 1),)
    assert float(net.trace(both, alone).distance) == pytest.approx(0.0, abs=1e-9)
    assert_close(float(net.trace(alone, both).distance), net.distances([alone], [both]).item())


def test_averaged_persons_have_one_pair():
    one, two = motions(2, persons=2)
    assert model().match_persons(one, two) == ((0, 0),)


def test_raw_serves_every_layout_and_knows_itself():
    net = FewShotModel.raw()
    assert list(net.parameters()) == []
    for name in ("ntu25", "coco17", "mediapipe33"):
        clips = [Motion(torch.randn(9, len(LAYOUTS[name]), 3), LAYOUTS[name]) for _ in range(3)]
        assert net.distances(clips, clips).argmin(1).tolist() == [0, 1, 2]


def test_what_was_saved_loads_to_the_same_distances(tmp_path):
    net = model({"components": (RAW.model_dump(),)})
    net.save(tmp_path / "m")
    again = FewShotModel.load(tmp_path / "m")
    assert torch.equal(again.distances(motions(3), motions(2)), net.distances(motions(3), motions(2)))
    assert all(torch.equal(x, y) for x, y in zip(again.parameters(), net.parameters(), strict=True)), (
        "to the bit"
    )
    assert again.config == net.config
    assert not again.training
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["model.json", "model.safetensors"]


def test_half_the_bits_take_half_the_space_and_keep_three_digits(tmp_path):
    net = model()
    net.save(tmp_path / "whole")
    net.save(tmp_path / "half", half=True)
    whole, half = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half"))
    saved = sum((weight.element_size() - 2) * weight.numel() for weight in net.parameters())
    assert abs(whole - half - saved) < 200, "but for the names of the types"
    again = FewShotModel.load(tmp_path / "half")
    assert again.dtype == torch.float32
    for weight, other in zip(again.parameters(), net.parameters(), strict=True):
        assert_close(weight, other.to(weight), rtol=2**-11, atol=1e-7)
    again.save(tmp_path / "again", half=True)
    assert [p.read_bytes() for p in sorted((tmp_path / "again").iterdir())] == [
        p.read_bytes() for p in sorted((tmp_path / "half").iterdir())
    ]


def test_a_single_frame_is_enough():
    net = model()
    one = [Motion(torch.randn(1, len(LAYOUT), 3), LAYOUT)]
    assert bool(net.distances(one, motions(2)).isfinite().all())


def test_classes_by_nearest_and_by_mean():
    table = torch.tensor([[1.0, 9.0, 4.0, 4.0], [5.0, 5.0, 9.0, 2.0]])
    labels = torch.tensor([0, 0, 1, 1])
    assert classify(table, labels, 2).tolist() == [0, 1]
    assert classify(table, labels, 2, rule="mean").tolist() == [1, 0]


@pytest.mark.errors
def test_what_does_not_fit_is_said(tmp_path):
    with pytest.raises(ConfigError, match="needs a layout, got None"):
        FewShotModel(SMALL)
    with pytest.raises(ConfigError, match="motions of one length"):
        model({"encoder.kind": "temporal"})
    with pytest.raises(ConfigError, match="at most two persons"):
        model({"align.persons": "matched", "inputs.prepare.persons": 3})
    with pytest.raises(ConfigError, match="for the query only"):
        model({"views.kind": "euler-simple", "views.sides": "both"})
    with pytest.raises(ConfigError, match="in metres"):
        model({"views.kind": "camera", "inputs.prepare.size": "bones"})
    with pytest.raises(ConfigError, match="no camera 'k'"):
        CameraViewsConfig(camera="k").build()
    with pytest.raises(ShapeError, match="needs a support"):
        classify(torch.ones(1, 1), torch.tensor([0]), 2, rule="mean")
    assert PrepareConfig() == SMALL.inputs.prepare
    assert JeanieConfig() == SMALL.align


@pytest.mark.errors
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: (d / "model.json").unlink(), "cannot be read"),
        (lambda d: (d / "model.json").write_text("{"), "not JSON"),
        (lambda d: (d / "model.json").write_text("[]"), "not the description of a model"),
        (lambda d: (d / "model.safetensors").write_bytes(b"abc"), "the checksum differs"),
        (lambda d: _rewrite(d, format=99), "format 99, this version reads 1"),
        (lambda d: _rewrite(d, config={"sise": 1}), "not a model of this version"),
        (lambda d: _rewrite(d, layout={"joints": 3}), "m: "),
    ],
)
def test_a_damaged_model_is_an_error_that_names_it(tmp_path, damage, message):
    model().save(tmp_path / "m")
    damage(tmp_path / "m")
    with pytest.raises(DataError, match=message):
        FewShotModel.load(tmp_path / "m")


def _rewrite(folder, **changes):
    path = folder / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_large_batches_are_encoded_again_in_the_backward_pass_to_the_same_gradient(monkeypatch, dropout):
    net = model({"encoder.dropout": dropout}).train()
    batch = net.collate(motions(5))
    monkeypatch.setattr("jeanie.fewshot.chunks._RECOMPUTE", 1)  # a clip per chunk
    found = []
    for keep in (0, 2**40):
        monkeypatch.setattr("jeanie.fewshot.chunks._KEEP", keep)
        torch.manual_seed(7)
        net.zero_grad()
        values = net.features(batch, "query").values
        values.square().sum().backward()
        found.append((values.detach(), [weight.grad.clone() for weight in net.parameters()]))
    if dropout:  # chunks draw their own dropout, and the backward pass draws the same again
        assert all(bool(grad.isfinite().all()) for grad in found[0][1])
        torch.manual_seed(7)
        monkeypatch.setattr("jeanie.fewshot.chunks._KEEP", 0)
        assert_close(net.features(batch, "query").values.detach(), found[0][0])
    else:
        assert_close(found[0], found[1])
