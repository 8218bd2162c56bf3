"""Rows in 8 bits: bounds are never above distances, and leaving windows out by them changes no result."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from movements import open_clip

from jeanie.alignment.backends import native
from jeanie.errors import DataError
from jeanie.fewshot import FewShotModel
from jeanie.fewshot.config import RAW
from jeanie.fewshot.features import Features
from jeanie.recogniser.search import candidates as module
from jeanie.recogniser.search.bounds import compute_bounds, compute_quick_bounds, prepare_query
from jeanie.recogniser.search.candidates import Candidates, CandidatesMissing, Window, find_best
from jeanie.recogniser.search.encoding import encode_windows
from jeanie.recogniser.search.rows import (
    COLUMNS,
    Projection,
    are_intact,
    build_row_type,
    compute_projection,
    pack_rows,
    unpack_rows,
)
from jeanie.recogniser.search.windows import cut_windows

COMPARISONS = {
    "hard": {"align.gamma": 0.0},
    "squares": {"align.metric": "sqeuclidean", "align.gamma": 0.0},
    "soft": {"align.gamma": 0.1},
    "euclidean": {"align.metric": "euclidean", "align.gamma": 0.02},
    "rbf": {"align.metric": "rbf", "align.sigma": 0.7, "align.gamma": 0.0},
    "area": {"align.normalise": "area", "align.gamma": 0.0},
    "plain": {"align.normalise": None, "align.gamma": 0.0},
}
SIZE = 90


def make_projection(seed, rank=COLUMNS - 1):
    torch.manual_seed(seed)
    return Projection(torch.randn(SIZE), torch.linalg.qr(torch.randn(SIZE, rank))[0])


@pytest.mark.parametrize("changes", COMPARISONS.values(), ids=COMPARISONS)
@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1e-3, 1.0, 30.0]),
    pairs=st.booleans(),
    full=st.booleans(),
)
@settings(max_examples=12, deadline=None)
def test_bounds_of_random_features_are_never_above_the_distance(changes, seed, size, pairs, full):
    model = FewShotModel.raw(RAW.with_values({"inputs.prepare.layout": "core15", **changes}))
    projection = make_projection(seed)
    counts = torch.full((7,), 5) if full else torch.randint(1, 6, (7,))
    support = Features(size * torch.randn(7, 5, SIZE) + projection.centre, counts)
    query = Features(size * torch.randn(1, 6, SIZE) + projection.centre, torch.tensor([6]))
    if pairs:
        second, paired = size * torch.randn(7, 5, SIZE), torch.rand(7) < 0.5
        support = Features(support.values, counts, second=second, paired=paired)
        query = Features(query.values, query.counts, second=query.values + size, paired=torch.tensor([True]))
    support.values[0] = query.values[0, :5]  # the nearest that a row can be
    rows = pack_rows(support, torch.zeros(7, 3, dtype=torch.int32), projection)
    whole = model.compare(query, support)[0]
    prepared = prepare_query(query, projection)
    for compute in (compute_bounds, compute_quick_bounds, partial(compute_quick_bounds, columns=16)):
        bounds = compute(model, prepared, rows)
        assert bounds is None or (torch.from_numpy(bounds) <= whole + 1e-5 * whole.abs()).all()
    assert are_intact(rows).all()


@pytest.mark.parametrize("changes", COMPARISONS.values(), ids=COMPARISONS)
def test_bounds_hold_if_all_rounding_errors_point_away_from_the_example(changes):
    """The example lies behind the features, seen from the 8 bits: without a margin, bounds are above distances."""
    model = FewShotModel.raw(RAW.with_values({"inputs.prepare.layout": "core15", **changes}))
    projection = make_projection(2)
    values = torch.randn(20, 8, SIZE) @ projection.basis @ projection.basis.T + projection.centre
    support = Features(values, torch.full((20,), 8))
    rows = pack_rows(support, torch.zeros(20, 3, dtype=torch.int32), projection)
    stored = unpack_rows(rows).values[..., :-1] @ projection.basis.T + projection.centre
    for place in range(20):
        example = values[place] + 3 * (values[place] - stored[place])
        query = Features(example[None], torch.tensor([8]))
        whole = float(model.compare(query, support[place : place + 1]))
        for compute in (compute_bounds, compute_quick_bounds):
            bounds = compute(model, prepare_query(query, projection), rows[place : place + 1])
            assert bounds is None or bounds[0] <= whole + 1e-5 * abs(whole)


def test_rows_keep_features_up_to_their_error():
    projection = make_projection(0)
    features = Features(torch.randn(40, 8, SIZE), torch.full((40,), 8))
    rows = pack_rows(features, torch.arange(120).view(40, 3).int(), projection)
    columns, _ = projection.project(features.values)
    gap = (unpack_rows(rows).values - columns).norm(dim=-1).amax(1).numpy()
    assert (gap <= rows["error"]).all()
    assert (rows["error"] < 0.03 * columns.norm(dim=-1).amax(1).numpy()).all()
    assert rows["window"].tolist() == torch.arange(120).view(40, 3).tolist()
    assert rows.itemsize == 8 * COLUMNS + 28


def test_a_projection_of_all_directions_leaves_nothing_out():
    """The rest of features inside the basis is 0, whatever the rounding of the squares is."""
    projection = make_projection(1)
    inside = torch.randn(5, 3, COLUMNS - 1) @ projection.basis.T + projection.centre
    columns, noise = projection.project(inside)
    assert (columns[..., -1] <= noise).all()
    assert (noise < 2e-2).all()


def sum_nearest(example, window, first):
    """The smallest distance of every block of an example, by scalars; earlier columns count by their lengths."""
    total = 0.0
    for x in example:
        squares = []
        for y in window:
            rest = sum((a - b) ** 2 for a, b in zip(x[first:], y[first:], strict=True))
            squares.append(rest + (np.linalg.norm(x[:first]) - np.linalg.norm(y[:first])) ** 2)
        total += min(squares)
    return total


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1, 1),
        (3, 5, 7, 6),
        (2, 32, 32, 56),
        (1, 9, 4, 17),
        (2, 5, 6, 33),
        (1, 70, 5, 64),
        (1, 3, 9, 37),
    ],
    ids=str,
)
@pytest.mark.parametrize("skipped", [0, 1, 5])
@pytest.mark.parametrize("size", [1, 127], ids=["small", "full"])
def test_the_kernel_sums_the_nearest_squares(shape, skipped, size):
    """Numbers of all sizes up to the limits of 8 and 16 bits; no sum is above the true one, and none is far below."""
    images, example_blocks, blocks, columns = shape
    first = min(skipped, columns - 1)
    random = np.random.default_rng(0)
    kind = np.dtype([("values", "i1", (blocks, columns)), ("scale", "<f4"), ("odd", "i1", 3)])
    rows = np.zeros(5, kind)
    rows["values"] = random.integers(-size, size + 1, (5, blocks, columns))
    rows["scale"] = random.random(5) + 0.1
    example = random.integers(-258 * size, 258 * size + 1, (images, example_blocks, columns)).astype(np.int16)
    example[0, 0] = 258 * rows["values"][0, 0].astype(np.int16)
    unit = float(rows["scale"][0]) / 258
    sums = native.sum_nearest_squares(rows["values"], rows["scale"], example, unit, first)
    for place, row in enumerate(rows[:2]):
        window = row["values"].astype(float) * float(row["scale"])
        for image in range(images):
            expected = sum_nearest(unit * example[image].astype(float), window, first)
            largest = (
                np.square(window).sum(1).max() + np.square(unit * example[image].astype(float)).sum(1).max()
            )
            assert expected - 4e-6 * example_blocks * largest <= sums[place, image] <= expected * (1 + 1e-5)


@pytest.mark.parametrize("columns", [8, 16, COLUMNS])
def test_quick_bounds_of_fewer_columns_are_smaller(columns):
    """The bound of all columns, by torch instead of the kernel, is nearly the same as by the kernel."""
    model = FewShotModel.raw(RAW.with_values({"inputs.prepare.layout": "core15", **COMPARISONS["squares"]}))
    projection = make_projection(3)
    support = Features(torch.randn(300, 8, SIZE) + projection.centre, torch.full((300,), 8))
    rows = pack_rows(support, torch.zeros(300, 3, dtype=torch.int32), projection)
    query = prepare_query(
        Features(torch.randn(1, 6, SIZE) + projection.centre, torch.tensor([6])), projection
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "is_available", lambda: False)
        reference = compute_quick_bounds(model, query, rows)
    bounds = compute_quick_bounds(model, query, rows, columns)
    assert (bounds <= reference * (1 + 1e-3)).all()
    if columns == COLUMNS:
        assert np.allclose(bounds, reference, rtol=2e-3)


@pytest.mark.errors
@pytest.mark.parametrize("shape", [(56,), (0, 56), (2**17, 56), (32, 57), (32, 4)])
def test_shapes_that_no_features_have_are_refused(shape):
    with pytest.raises(DataError, match="not the shape of features"):
        build_row_type(shape, has_second=False, has_factor=False)


def find_by_sorting(known, k, overlap):
    """The first k windows by distance that do not overlap an earlier one too much."""
    expected = []
    for distance, window in sorted((distance, window) for window, distance in known.items()):
        shares = [
            max(0, min(window[2], other[2]) - max(window[1], other[1]))
            / min(window[2] - window[1], other[2] - other[1])
            for _, other in expected
            if other[0] == window[0]
        ]
        if len(expected) < k and not any(share > overlap for share in shares):
            expected.append((distance, window))
    return expected


def find_with_bounds(known, bounds, k, overlap, monkeypatch, **options):
    def evaluate(model, query, archive, chosen):
        return [Window(known[tuple(window)], *window) for window in chosen.tolist()]

    monkeypatch.setattr(module, "_evaluate", evaluate)
    windows = np.array(list(known), np.int32)
    best, evaluated = find_best(None, None, None, Candidates(windows, bounds, **options), k, overlap)
    assert evaluated <= len(windows)
    return [(one.distance, (one.clip, one.start, one.end)) for one in best]


@pytest.mark.plain
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 8) | st.just(60),
    overlap=st.sampled_from([0.0, 0.25, 0.6]),
    slack=st.sampled_from([0.0, 0.1, 0.6]),
    is_loose=st.booleans(),
    share=st.sampled_from([0.1, 0.5, 1.0]),
)
@settings(max_examples=80, deadline=None)
def test_leaving_out_by_bounds_is_exact(seed, k, overlap, slack, is_loose, share):
    """Random windows, distances and bounds below them: the result is that of a sorted list of all windows."""
    random = np.random.default_rng(seed)
    count = 60
    start = random.integers(0, 80, count)
    windows = np.stack([random.integers(0, 3, count), start, start + random.integers(5, 20, count)], 1)
    windows = np.unique(windows, axis=0)
    distances = random.integers(0, 30, len(windows)) / 10  # with ties
    tight = (distances - slack * random.random(len(windows))).astype(np.float32) - np.float32(1e-6)
    bounds = tight - (random.random(len(windows)) * is_loose).astype(np.float32)
    kept = np.sort(np.argsort(bounds)[: int(share * len(windows))])
    floor = float(np.delete(bounds, kept).min(initial=np.inf))
    known = {tuple(window): distance for window, distance in zip(windows.tolist(), distances, strict=True)}
    expected = find_by_sorting(known, k, overlap)
    options = {"tighten": lambda places, limit: tight[kept][places], "floor": floor}
    known = {window: known[window] for window in map(tuple, windows[kept].tolist())}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FIRST", 3)
        patch.setattr(module, "_TIGHTENED", (7, 11))
        try:
            found = find_with_bounds(known, bounds[kept], k, overlap, patch, **options)
        except CandidatesMissing:
            assert share < 1
            return
    assert found == expected


@pytest.mark.plain
def test_a_window_that_replaces_two_brings_others_back(monkeypatch):
    """The distance of the last selected window may grow again: windows with bounds above it are not lost."""
    known = {(0, 0, 10): 1.0, (0, 10, 20): 2.0, (0, 5, 15): 0.5, (1, 0, 10): 3.0}
    bounds = np.array([0.1, 0.2, 0.4, 2.9], np.float32)
    monkeypatch.setattr(module, "_FIRST", 2)
    found = find_with_bounds(known, bounds, 2, 0.25, monkeypatch)
    assert found == [(0.5, (0, 5, 15)), (3.0, (1, 0, 10))] == find_by_sorting(known, 2, 0.25)


def test_quick_bounds_are_below_the_others(model):
    """Features of moving bodies: quick bounds are far below, but not useless, and other comparisons have none."""
    motion = open_clip("kick_forward", 1)
    support = Features.cat(list(encode_windows(model, motion, cut_windows(motion, 40, 0.1))))
    projection = compute_projection(model)
    rows = pack_rows(support, torch.zeros(len(support), 3, dtype=torch.int32), projection)
    with torch.no_grad():
        query = prepare_query(model.features(model.collate([motion[5:45]]), "query"), projection)
    bounds, quick = compute_bounds(model, query, rows), compute_quick_bounds(model, query, rows)
    assert (quick <= bounds + 1e-6).all()
    assert quick.mean() > 0.4 * bounds.mean()
    soft = model.with_config({"align.gamma": 0.1})
    assert compute_quick_bounds(soft, query, rows) is None


def test_rows_of_real_movements_order_them_as_features_do(model):
    """The shipped model: bounds are near the distances, so that few windows need full features."""
    motion = open_clip("kick_forward", 1)
    values = list(encode_windows(model, motion, cut_windows(motion, 40, 0.1)))
    support = Features.cat(values)
    with torch.no_grad():
        query = model.features(model.collate([open_clip("kick_forward", 2)[5:45]]), "query")
        whole = model.compare(query, support)[0].numpy()
    projection = compute_projection(model)
    rows = pack_rows(support, torch.zeros(len(support), 3, dtype=torch.int32), projection)
    bounds = compute_bounds(model, prepare_query(query, projection), rows)
    assert (bounds <= whole).all()
    assert (bounds > 0.6 * whole).all()
