"""The boundary to the compiled library: a wrong library, tensor or size gives an error and never touches memory."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from jeanie import ConfigError, ShapeError, align, distances
from jeanie.alignment.backends import native
from jeanie.alignment.backends.gamma import split_gamma
from jeanie.kernel import library as kernel_library

pytestmark = pytest.mark.errors
HEADER = Path(__file__).parents[2] / "jeanie/kernel/cpp/abi.h"
BAD_ARGUMENTS, NO_MEMORY = 7, 4


@pytest.fixture
def load(monkeypatch):
    """Return a function that loads another file as the library."""

    def load_file(file):
        monkeypatch.setenv("JEANIE_KERNEL", str(file))
        kernel_library.load_library.cache_clear()
        return kernel_library.load_library()

    yield load_file
    monkeypatch.undo()
    kernel_library.load_library.cache_clear()


FAKES = {
    "no version": "",
    "another version": "long jeanie_abi_version() { return 1; } long jeanie_struct_size(long) { return 8; }",
    "another struct": (
        f"long jeanie_abi_version() {{ return {kernel_library.ABI_VERSION}; }}"
        "long jeanie_struct_size(long) { return 240; }"
    ),
}


@pytest.mark.parametrize("source", FAKES.values(), ids=FAKES)
def test_a_library_of_another_version_is_refused(source, load, tmp_path):
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    file, library = tmp_path / "fake.cpp", tmp_path / "fake.so"
    file.write_text(f'extern "C" {{ int jeanie_align() {{ return 0; }} {source} }}')
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, file], check=True)
    with pytest.raises(ConfigError, match="reinstall jeanie"):
        load(library)
    with pytest.raises(ConfigError, match=re.escape(str(library))):
        align(torch.rand(1, 2, 2))


def test_a_file_that_is_no_library_is_refused(load, tmp_path):
    file = tmp_path / "kernel.so"
    file.write_text("text")
    with pytest.raises(ConfigError, match=r"kernel\.so cannot be loaded: .*; reinstall jeanie"):
        load(file)


def test_a_package_of_another_version_is_refused(load, monkeypatch):
    file = next(path for path in kernel_library._list_files() if path.is_file())
    monkeypatch.setattr(kernel_library, "ABI_VERSION", kernel_library.ABI_VERSION + 1)
    with pytest.raises(ConfigError, match="reinstall jeanie"):
        load(file)


def test_the_header_and_its_mirror_have_one_version():
    (version,) = re.findall(r"kAbiVersion = (\d+);", HEADER.read_text())
    assert int(version) == kernel_library.ABI_VERSION


@pytest.mark.parametrize("name", ["align", "matched", "squares", "scale", "mlp", "nearest"])
@pytest.mark.parametrize("dtype", [0, 1, -1, 2])
def test_empty_jobs_and_null_pointers_are_refused(name, dtype):
    function = getattr(kernel_library.require_library(), name)
    assert function(ctypes.byref(kernel_library._JOBS[name]()), dtype) == BAD_ARGUMENTS
    assert function(None, dtype) == BAD_ARGUMENTS


class Arrays:
    """Memory for one small job of each kind; ``keep`` holds what the jobs point to."""

    def __init__(self):
        self.cost, self.plan, self.value = torch.rand(2, 3, 4), torch.empty(2, 3, 4), torch.empty(2)
        self.whole = torch.ones(28, dtype=torch.int8)
        self.offsets, self.counts = torch.tensor([0, 12]), torch.tensor([3, 2])
        self.steps, self.step_counts = (
            torch.empty(2, 6, 3, dtype=torch.int64),
            torch.empty(2, dtype=torch.int64),
        )

    def make_align_job(self, **changes):
        constants = split_gamma(0.1, torch.float32)
        fields = {
            "cost": self.cost, "plan": self.plan, "value": self.value, "cost_offsets": self.offsets,
            "plan_offsets": self.offsets, "row_counts": self.counts, "column_counts": self.counts,
            "cost_stride": 4, "plan_stride": 4, "cost_size": 24, "plan_size": 24, "pair_size": 2,
            "pairs": 2, "rows": 3, "columns": 4, "threads": 1, "gamma": 0.1,
            "scale_hi": constants.scale_hi, "scale_lo": constants.scale_lo,
            "band": -1.0, **changes,
        }  # fmt: skip
        values = {k: v.data_ptr() if isinstance(v, torch.Tensor) else v for k, v in fields.items()}
        return kernel_library.AlignJob(**values)

    def make_matched_job(self, table=(), **changes):
        fields = {"x": self.cost.data_ptr(), "y": self.cost.data_ptr(), "features": 4, "metric": 2, "sigma": 1.0,
                  **changes}  # fmt: skip
        return kernel_library.MatchedJob(align=self.make_align_job(**{"columns": 3, **dict(table)}), **fields)

    def make_squares_job(self, **changes):
        x = self.cost.data_ptr()
        fields = {"out": self.plan.data_ptr(), "x": x, "y": x, "batch": 2, "rows": 3, "columns": 3, "features": 4,
                  "threads": 1, **changes}  # fmt: skip
        return kernel_library.SquaresJob(**fields)

    def make_scale_job(self, **changes):
        x = self.cost.data_ptr()
        fields = {"out": self.plan.data_ptr(), "x": x, "factors": self.value.data_ptr(), "rows": 2, "size": 12,
                  "threads": 1, **changes}  # fmt: skip
        return kernel_library.ScaleJob(**fields)

    def make_mlp_job(self, **changes):
        """Return a job of 2 items with 3 frames, 1 joint and 2 channels, and layers of 2, 3 and 1 numbers."""
        self.weight = torch.zeros(6 * 2)
        layer = kernel_library.LayerAddresses(*[self.weight.data_ptr()] * 4)
        fields = {"x": self.cost.data_ptr(), "out": self.plan.data_ptr(), "layers": (layer,) * 3,
                  "items": 2, "frames": 3, "joints": 1, "channels": 2, "strides": (6, 2, 2, 1), "x_size": 12,
                  "sizes": (2, 3, 1), "threads": 1, "epsilon": 1e-5, **changes}  # fmt: skip
        return kernel_library.MlpJob(**fields)

    def make_nearest_job(self, **changes):
        fields = {"out": self.plan.data_ptr(), "values": self.whole.data_ptr(), "scales": self.value.data_ptr(),
                  "example": self.cost.data_ptr(), "values_size": 28, "window_stride": 16, "windows": 2, "blocks": 3,
                  "columns": 4, "images": 2, "example_blocks": 3, "first_column": 1, "threads": 1, "unit": 0.1,
                  **changes}  # fmt: skip
        return kernel_library.NearestJob(**fields)


def status(name, job):
    return getattr(kernel_library.require_library(), name)(ctypes.byref(job), 0)


@pytest.mark.parametrize("name", ["align", "matched", "squares", "scale", "mlp", "nearest"])
def test_the_jobs_of_these_tests_are_good(name):
    arrays = Arrays()
    assert status(name, getattr(arrays, f"make_{name}_job")()) == 0


HUGE = [0, -1, 2**31, 2**62, 2**63 - 1, -(2**63)]
BAD_ALIGN = [
    *({field: n} for field in ("pairs", "rows", "columns", "threads") for n in HUGE if field != "threads" or n <= 0),
    *({"axes": 1, "grid": (n,)} for n in HUGE),
    *({"axes": 4, "grid": (2**20,) * 4, field: n} for field, n in [("rows", 3)]),
    *({field: -1} for field in ("axes", "shift", "cost_stride", "plan_stride", "gamma")),
    *({field: 2**62} for field in ("shift", "cost_stride", "plan_stride")),
    *({field: None} for field in ("cost", "value", "cost_offsets", "plan_offsets", "row_counts", "column_counts")),
    {"axes": 5}, {"pairs": 3}, {"pair_size": 1},
    {"cost_size": 23}, {"plan_size": 23}, {"plan_stride": 3}, {"gamma": float("nan")},
    {"gamma": float("inf")}, {"band": float("nan")}, {"cost_offsets": torch.tensor([0, 13])},
    {"cost_offsets": torch.tensor([0, -1])}, {"plan_offsets": torch.tensor([2**62, 0])},
    {"row_counts": torch.tensor([3, 4])}, {"column_counts": torch.tensor([0, 1])}, {"path": torch.zeros(2, 6, 3)},
]  # fmt: skip


@pytest.mark.parametrize("changes", BAD_ALIGN, ids=str)
def test_sizes_and_pointers_out_of_range_are_refused(changes):
    arrays = Arrays()
    assert status("align", arrays.make_align_job(**changes)) == BAD_ARGUMENTS


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *(("matched", {field: value}) for field in ("features", "metric") for value in (-1, 2**62)),
        *(("matched", {field: None}) for field in ("x", "y")),
        *(("matched", {"sigma": value}) for value in (0.0, -1.0, float("nan"), float("inf"))),
        ("matched", {"table": {"gamma": 0.0}}),
        ("matched", {"table": {"rows": 2**30, "pairs": 2**40, "pair_size": 2**40}}),
        *(
            ("squares", {field: n})
            for field in ("batch", "rows", "columns", "features")
            for n in (0, -1, 2**61, 2**63 - 1)
        ),
        *(("squares", {field: None}) for field in ("out", "x", "y")),
        *(("scale", {field: n}) for field in ("rows", "size") for n in (0, -1, 2**61, 2**63 - 1)),
        *(("scale", {field: None}) for field in ("out", "x", "factors")),
        *(
            ("mlp", {field: n})
            for field in ("items", "frames", "joints", "channels", "threads")
            for n in (0, -1, 2**62)
        ),
        *(("mlp", {field: None}) for field in ("out", "x")),
        *(("mlp", {"sizes": sizes}) for sizes in ((0, 3, 1), (2, -1, 1), (2, 3, 2**17))),
        *(("mlp", {"strides": strides}) for strides in ((7, 2, 2, 1), (-1, 2, 2, 1), (6, 2**62, 2, 2**62))),
        *(("mlp", {"epsilon": value}) for value in (-1.0, float("nan"), float("inf"))),
        ("mlp", {"x_size": 11}),
        ("mlp", {"grad_out": 8}),
        ("mlp", {"grad_x": 8}),
        ("mlp", {"layers": ((),) * 3}),
        ("mlp", {"out": None, "grad_out": 8}),
        *(
            ("nearest", {field: n})
            for field in ("windows", "blocks", "columns", "images", "example_blocks")
            for n in (0, -1, 257, 2**31, 2**61, 2**63 - 1)
            if n != 257 or field == "columns"
        ),
        *(("nearest", {field: None}) for field in ("out", "values", "scales", "example")),
        *(("nearest", {"unit": value}) for value in (0.0, -1.0, float("nan"), float("inf"))),
        *(("nearest", {"first_column": value}) for value in (-1, 4, 2**62)),
        *(("nearest", {"window_stride": value}) for value in (-1, 17, 2**62, 2**63 - 1)),
        *(("nearest", {"values_size": value}) for value in (27, 0, -1)),
        ("nearest", {"threads": 0}),
    ],
    ids=str,
)
def test_other_jobs_out_of_range_are_refused(name, changes):
    arrays = Arrays()
    assert status(name, getattr(arrays, f"make_{name}_job")(**changes)) == BAD_ARGUMENTS


def test_nearest_squares_exist_in_float32_only():
    job = Arrays().make_nearest_job()
    assert kernel_library.require_library().nearest(ctypes.byref(job), 1) == BAD_ARGUMENTS


def test_missing_memory_is_an_error_and_not_an_abort():
    """The workspace of a path through 2^21 x 2^21 blocks is larger than any address space."""
    size = 2**21
    arrays = Arrays()
    cost, steps = torch.zeros(size), torch.empty(2 * size * 3, dtype=torch.int64)
    job = arrays.make_align_job(
        cost=cost, plan=None, cost_stride=0, cost_size=size, pairs=1, rows=size, columns=size, row_counts=None,
        column_counts=None, gamma=0.0, path=steps, path_lengths=arrays.step_counts,
    )  # fmt: skip
    assert status("align", job) == NO_MEMORY
    with pytest.raises(MemoryError, match="workspace"):
        kernel_library.run("align", job, torch.float32)


@pytest.mark.parametrize(
    "x",
    [
        torch.rand(4, dtype=torch.float64), torch.rand(5), torch.rand(8)[::2], torch.rand(1).expand(4),
        torch.rand(4, device="meta"), torch.zeros(4, dtype=torch.complex64).conj().imag,
    ],
    ids=["dtype", "size", "strides", "expanded", "device", "lazy negative"],
)  # fmt: skip
def test_no_address_of_an_unexpected_tensor_is_handed_out(x):
    with pytest.raises(ShapeError, match="the kernel needs a contiguous CPU tensor of 4 numbers"):
        kernel_library.get_address(x, torch.float32, 4)


def test_functions_of_the_backend_refuse_tensors_that_do_not_fit():
    x = torch.rand(2, 3, 4)
    lengths = torch.tensor([3, 3]), torch.tensor([3, 4])
    whole, scales = np.ones((2, 3, 4), np.int8), np.ones(2, np.float32)
    example = np.ones((1, 3, 4), np.int16)
    calls = [
        lambda: native.align_matched(x, x.double(), None, 2, 1.0, 0.1, None, (False, False)),
        lambda: native.align_matched(x, x[..., :3], None, 2, 1.0, 0.1, None, (False, False)),
        lambda: native.align_matched(x, x[:1], None, 2, 1.0, 0.1, None, (False, False)),
        lambda: native.align_matched(x, x, lengths, 2, 1.0, 0.1, None, (True, True)),
        lambda: native.align_matched(
            x, x, (lengths[0].int(), lengths[0].int()), 2, 1.0, 0.1, None, (True, True)
        ),
        lambda: native.align_matched(x, x, None, 3, 1.0, 0.1, None, (True, True)),
        lambda: native.align_matched(x.half(), x.half(), None, 2, 1.0, 0.1, None, (True, True)),
        lambda: native.align_costs(x[:, None], (lengths[0], lengths[0] + 9), 0.1, 0, None, False),
        lambda: native.align_costs(x[:, None], (lengths[0][:1], lengths[0]), 0.1, 0, None, False),
        lambda: native.align_costs(x[:, None].half(), None, 0.1, 0, None, False),
        lambda: native.scale_rows(x, torch.rand(2, dtype=torch.float64), False),
        lambda: native.scale_rows(x, torch.rand(1), False),
        lambda: native.scale_rows(x.mT, torch.rand(2), False),
        lambda: native.compute_squares(x.half(), x.half(), False),
        lambda: native.sum_nearest_squares(whole, scales, example[..., :3], 1.0),
        lambda: native.sum_nearest_squares(whole, scales[:1], example, 1.0),
        lambda: native.sum_nearest_squares(whole[:, ::2], scales, example, 1.0),
        lambda: native.sum_nearest_squares(whole[::-1], scales, example, 1.0),
        lambda: native.sum_nearest_squares(whole.astype("i2"), scales, example, 1.0),
        lambda: native.sum_nearest_squares(whole, scales.astype("f8"), example, 1.0),
        lambda: native.sum_nearest_squares(whole, scales, example, float("nan")),
        lambda: native.sum_nearest_squares(whole, scales, example, 1.0, 4),
    ]
    for call in calls:
        with pytest.raises(ShapeError, match="kernel"):
            call()


def test_tensors_beyond_every_memory_are_refused():
    one = torch.zeros(1)
    for shape in ((2**44, 1, 2), (1, 2**30, 2**30), (1, 2**22, 2**22, 3)):
        with pytest.raises(ShapeError, match="split the batch"):
            align(one.expand(shape))
    long = one.expand(1, 2**30, 1)
    for pairs in ("all", "matched"):
        with pytest.raises(ShapeError, match="the cost of one pair"):
            distances(long, long, pairs=pairs)
    with pytest.raises((ShapeError, MemoryError, RuntimeError)):  # torch has no memory for the costs
        align(one.expand(1, 2**21, 2**22))


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("needs_gradient", [False, True])
@pytest.mark.parametrize("pairs", ["all", "matched"])
def test_a_band_without_a_path_is_refused_alike(backend, dtype, needs_gradient, pairs):
    query, support = torch.rand(2, 9, 1, dtype=dtype), torch.rand(2, 2, 1, dtype=dtype)
    with pytest.raises(ConfigError, match="band leaves no path"):
        distances(
            query.requires_grad_(needs_gradient), support, metric="rbf", gamma=0.01, shift=0, band=0.2,
            normalise="length", pairs=pairs, backend=backend,
        )  # fmt: skip


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("gamma", [0.0, 0.01])
def test_a_row_that_the_band_empties_is_refused_also_among_longer_pairs(backend, gamma):
    """The pairs of one SIMD group differ in length, and only one of them has no path."""
    tau = [12, 12, 12, 12, 9, 12, 12, 12]
    tau_ = [12, 11, 12, 10, 2, 12, 12, 12]
    cost = torch.rand(8, 12, 12, requires_grad=True)
    with pytest.raises(ConfigError, match="band leaves no path"):
        align(cost, query_lengths=tau, support_lengths=tau_, band=0.2, gamma=gamma, backend=backend)


def test_sparse_tensors_are_refused():
    with pytest.raises(ShapeError, match="to_dense"):
        align(torch.rand(1, 2, 2).to_sparse())


def test_a_default_device_does_not_move_the_workspace():
    cost = torch.rand(3, 4, 5)
    expected = align(cost, query_lengths=[1, 2, 3])
    with torch.device("meta"):
        native._compute_offsets.cache_clear()
        assert torch.equal(align(cost, query_lengths=[1, 2, 3]), expected)
