"""Bad input is refused at the edge, and the message says what was expected, what was given, and what to do."""

import math

import pytest
import torch

from jeanie import ConfigError, JeanieError, ShapeError, align, distances, fvm, trace

pytestmark = pytest.mark.errors
EVERY = pytest.mark.parametrize("backend", ["native", "reference"])
COST = torch.rand(2, 3, 4, 3)
FEATURES = torch.rand(2, 3, 5)


@pytest.mark.parametrize("function", [align, fvm, trace])
@pytest.mark.parametrize(
    ("cost", "says"),
    [
        (COST[0, 0], "cost[None]"),
        (torch.rand(1, 1, 1, 1, 1, 1, 1, 1), "0 to 4 view axes"),
        (COST.long(), "float32 or float64"),
        (COST.to(torch.complex64), "cost.float()"),
        (COST.numpy(), "torch tensor"),
        (COST[:, :0], "at least one query block"),
        (COST[..., :0], "at least one query block, support block and view"),
    ],
    ids=["rank 2", "rank 8", "integers", "complex numbers", "numpy", "no blocks", "no views"],
)
def test_costs_of_the_wrong_kind(function, cost, says):
    with pytest.raises(ShapeError) as error:
        function(cost)
    assert says in str(error.value)


@EVERY
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("gamma", [0.0, 0.01])
@pytest.mark.parametrize("views", [(), (3,)])
def test_costs_that_are_not_finite(bad, gamma, views, backend):
    cost = torch.rand(9, 3, 4, *views)
    cost[5, 2, 1] = bad
    with pytest.raises(ShapeError, match="finite numbers where a path may pass"):
        align(cost, gamma=gamma, backend=backend)
    with pytest.raises(ShapeError, match="finite numbers where a path may pass"):
        align(cost.requires_grad_(), gamma=gamma, backend=backend)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gamma": -1.0}, "gamma needs a finite number >= 0"),
        ({"gamma": math.nan}, "got nan"),
        ({"gamma": "soft"}, "got 'soft'"),
        ({"shift": -1}, "shift needs a whole number"),
        ({"shift": 1.5}, "got 1.5"),
        ({"band": -0.1}, "band needs a share"),
        ({"band": math.nan}, "band needs a share"),
        ({"plan": "other"}, "smooth, preprint"),
        ({"backend": "cuda"}, "auto, native, reference"),
        ({"plan": "preprint", "backend": "native"}, "in torch only"),
    ],
    ids=str,
)
def test_options_that_mean_nothing(options, says):
    for function in (align, trace):
        with pytest.raises(ConfigError) as error:
            function(COST, **options)
        assert says in str(error.value)


@EVERY
@pytest.mark.parametrize(
    ("lengths", "says"),
    [
        ([0, 3], "between 1 and the padded length 3"),
        ([1, 4], "between 1 and the padded length 3"),
        ([1], "shape (2,)"),
        (torch.tensor([1.0, 2.0]), "whole numbers"),
    ],
    ids=["zero", "too long", "too few", "floats"],
)
def test_lengths_out_of_range(lengths, says, backend):
    with pytest.raises(ShapeError) as error:
        align(COST, query_lengths=lengths, backend=backend)
    assert says in str(error.value)
    with pytest.raises(ShapeError) as error:
        distances(FEATURES, FEATURES, query_lengths=lengths, backend=backend)
    assert says in str(error.value)


@EVERY
@pytest.mark.parametrize("gamma", [0.0, 0.01])
def test_a_band_that_leaves_no_path(gamma, backend):
    with pytest.raises(ConfigError, match="band leaves no path"):
        align(torch.rand(9, 2, 20), band=0.01, gamma=gamma, backend=backend)
    with pytest.raises(ConfigError, match="band leaves no path"):
        align(torch.rand(2, 9, 9, 3), query_lengths=[9, 1], band=0.2, gamma=gamma, backend=backend)


def test_the_preprints_plan_needs_a_middle_view():
    with pytest.raises(ConfigError, match="odd size"):
        align(torch.rand(1, 2, 2, 4), plan="preprint")


@pytest.mark.parametrize(
    ("query", "support", "options", "kind", "says"),
    [
        (FEATURES, FEATURES[..., :4], {}, ShapeError, "5 and 4"),
        (FEATURES[0], FEATURES, {}, ShapeError, "x[None]"),
        (FEATURES.long(), FEATURES, {}, ShapeError, "float32 or float64"),
        (FEATURES, FEATURES.double(), {}, ShapeError, "one dtype and device"),
        (FEATURES, FEATURES[:, :0], {}, ShapeError, "at least one block"),
        (FEATURES, torch.rand(2, 3, 3, 5), {}, ShapeError, "drop or swap"),
        (FEATURES, FEATURES[:1], {"pairs": "matched"}, ShapeError, "2 and 1"),
        (FEATURES, FEATURES, {"pairs": "some"}, ConfigError, "'all' or 'matched'"),
        (FEATURES, FEATURES, {"metric": "manhattan"}, ConfigError, "euclidean, sqeuclidean, rbf"),
        (FEATURES, FEATURES, {"sigma": 0.0}, ConfigError, "sigma"),
        (FEATURES, FEATURES, {"normalise": "max"}, ConfigError, "length, area, divergence"),
        (FEATURES, FEATURES, {"matching": "dtw"}, ConfigError, "jeanie, fvm"),
        (FEATURES, FEATURES, {"matching": "fvm", "view_gamma": -1.0}, ConfigError, "view_gamma needs"),
        (FEATURES, FEATURES, {"matching": "fvm", "plan": "preprint"}, ConfigError, "use plan 'smooth'"),
        (FEATURES * math.nan, FEATURES, {}, ShapeError, "features need finite numbers"),
        (FEATURES, FEATURES / 0, {}, ShapeError, "features need finite numbers"),
        (FEATURES, FEATURES, {"gamma": -1.0}, ConfigError, "gamma"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_features_that_do_not_fit(query, support, options, kind, says):
    with pytest.raises(kind) as error:
        distances(query, support, **options)
    assert says in str(error.value)


@EVERY
@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
def test_features_of_matched_pairs_that_are_not_finite(bad, backend):
    query = torch.rand(20, 3, 5)
    query[17, 1, 2] = bad
    for q, s in ((query, query.nan_to_num(0, 0, 0) * 0), (query.nan_to_num(0, 0, 0) * 0, query)):
        with pytest.raises(ShapeError, match="features need finite numbers"):
            distances(q, s, pairs="matched", backend=backend)


def test_every_error_is_one_of_ours_and_a_value_error():
    with pytest.raises(JeanieError):
        align(COST, gamma=-1.0)
    with pytest.raises(ValueError, match="gamma"):
        align(COST, gamma=-1.0)


@EVERY
def test_numbers_beyond_every_exponent_are_refused(backend):
    with pytest.raises(ConfigError, match="larger gamma"):
        align(torch.full((1, 3, 3), 1e12, dtype=torch.float64), gamma=1e-4, backend=backend)
    with pytest.raises(ConfigError, match="larger gamma"):
        align(torch.rand(1, 3, 3), gamma=5e-324, backend=backend)
