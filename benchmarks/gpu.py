"""The alignment on a GPU: milliseconds and GB/s with CUDA, otherwise an analysis of the compiled kernel.

With CUDA, forward and backward of 8 matched pairs (5 x 5 views, 20 x 20 blocks, 50 features, RBF) are timed with the
Triton kernel, with the torch backend, and with plain torch operations and autograd.

Without CUDA, the same calls are counted on the CPU (every torch operation that is not a view is one launch), and the
kernel is compiled for an A100 and an H100 by the compiler and assembler in the package triton. Instructions are those
of the disassembled loops. No time is measured: times are estimates, and the arithmetic is in the output.
Writes benchmarks/results/gpu.json and, with --page, docs/results/gpu.md.
"""

import argparse
import json
import math
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from jeanie.alignment import distances

ROOT = Path(__file__).resolve().parent.parent
PAIRS, BLOCKS, GRID, FEATURES, GAMMA = 8, 20, (5, 5), 50, 0.01
VIEWS = math.prod(GRID)
CELLS = PAIRS * BLOCKS * BLOCKS * VIEWS
# public data sheets: multiprocessors, boost clock in GHz, memory bandwidth in GB/s
DEVICES = {"A100": (80, 108, 1.41, 1555), "H100": (90, 132, 1.755, 3350)}
LAUNCH_US = 4.0  # host time of a launch from Python; 3 to 5 us are usual
CYCLES_PER_INSTRUCTION = 4.0  # of a single warp: dependent arithmetic takes 4 cycles on both devices
SHARED_CYCLES = 60  # a trip through shared memory with its two barriers


def make_features(device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """Return the features of the queries and of the supports."""
    generator = torch.Generator().manual_seed(0)
    query = torch.rand(PAIRS, BLOCKS, *GRID, FEATURES, generator=generator)
    support = torch.rand(PAIRS, BLOCKS, FEATURES, generator=generator)
    return query.to(device).requires_grad_(), support.to(device).requires_grad_()


def run_backend(query: torch.Tensor, support: torch.Tensor, backend: str) -> None:
    """Run forward and backward once."""
    distances(query, support, gamma=GAMMA, pairs="matched", backend=backend).sum().backward()
    query.grad = support.grad = None


def run_plain(query: torch.Tensor, support: torch.Tensor) -> None:
    """Run the same recursion in plain torch operations, cell by cell, with autograd."""
    difference = query.flatten(2, 3)[:, :, None] - support[:, None, :, None]
    cost = 2 - 2 * torch.exp(difference.square().sum(-1) / -8)
    cost = cost.unflatten(3, GRID)
    table: dict[tuple[int, int], torch.Tensor] = {}
    for t in range(BLOCKS):
        for s in range(BLOCKS):
            before = [table[i] for i in ((t, s - 1), (t - 1, s), (t - 1, s - 1)) if i in table]
            value = cost[:, t, s]
            if before:
                padded = torch.nn.functional.pad(torch.stack(before, 1), [1] * 4, value=math.inf)
                windows = padded.unfold(2, 3, 1).unfold(3, 3, 1)
                value = value - GAMMA * torch.logsumexp(
                    windows.permute(0, 2, 3, 1, 4, 5).flatten(3) / -GAMMA, 3
                )
            table[t, s] = value
    (-GAMMA * torch.logsumexp(value.flatten(1) / -GAMMA, 1)).sum().backward()
    query.grad = support.grad = None


class CountLaunches(TorchDispatchMode):
    """Counts the operations that compute something."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.split(".")[0]
        is_view = any(alias.alias_info is not None for alias in func._schema.returns) and not name.endswith(
            "_"
        )
        self.count += not is_view and name not in ("empty", "empty_like", "empty_strided", "detach")
        return func(*args, **(kwargs or {}))


def count_launches() -> dict[str, int]:
    """Return the launches of forward and backward."""
    from jeanie.alignment.backends import triton

    query, support = make_features()
    counts = {}
    launch = triton._run  # its interpreter computes with operations of its own; on a GPU it is one launch

    def count_one(table: Any, lengths: Any, gamma: Any, shift: Any, band: Any, plan: Any) -> torch.Tensor:
        return torch.zeros(table.shape)

    triton._run = count_one
    try:
        for name in ("triton", "reference"):
            with CountLaunches() as mode:
                run_backend(query, support, name)
            counts[name] = mode.count
    finally:
        triton._run = launch
    with CountLaunches() as mode:
        run_plain(query, support)
    counts["plain torch"] = mode.count
    return counts


def compile_kernel(capability: int, with_plan: bool) -> Any:
    """Return the kernel of the workload, compiled for a CUDA device, which need not be present."""
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from jeanie.alignment.backends.triton import LANES_PER_WARP
    from jeanie.alignment.backends.triton_kernels import align_soft

    lanes = 1 << (BLOCKS * VIEWS - 1).bit_length()
    constants = {
        "A": 1, "B": 1, "C": GRID[0], "D": GRID[1], "SUPPORT_VIEWS": 1, "SHIFT": 1, "PAIRS": 1, "LANES": lanes,
        "METRIC": "rbf", "HAS_COUNTS": (False, False), "HAS_BAND": False, "IS_SWAPPED": False,
        "WITH_PLAN": with_plan, "M": tl.float32, "K": tl.int32, "DEAD": -(2**30),
    }  # fmt: skip
    arguments = {
        "left": "*fp32", "right": "*fp32", "counts": ("*fp32", "*fp32", *["i32"] * 4), "constants": "*fp64",
        "value": "*fp32", "status": "*i32", "plan": "*fp32", "exponents": "*i32", "shape": ("i32",) * 4,
        "left_strides": ("i32",) * 2, "right_strides": ("i32",) * 2, "plan_strides": ("i32",) * 8,
        "features": ("i32",) * 3, "longest": "fp32",
    }  # fmt: skip
    names = align_soft.arg_names
    source = ASTSource(
        align_soft,
        {name: arguments.get(name, "constexpr") for name in names},
        {(names.index(name),): value for name, value in constants.items()},
    )
    warps = max(1, lanes // LANES_PER_WARP)
    return triton.compile(
        source,
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": warps, "enable_fp_fusion": True},
    )


def find_loops(text: str) -> list[tuple[int, int, int]]:
    """Return (first address, last address, trips through shared memory) of each loop of disassembled code."""
    places, branches, stores = [], [], []
    for line in text.splitlines():
        match = re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?);", line)
        if match:
            address, body = int(match[1], 16), match[2]
            places.append(address)
            if target := re.search(r"\bBRA(?:\.\w+)*\s+(?:\w+,\s*)?`?\(?(0x[0-9a-f]+|\.L_\w+)", body):
                branches.append((address, target[1]))
            if "STS" in body:
                stores.append(address)
    labels: dict[str, int] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if label := re.match(r"(\.L_\w+):", line):
            following = (re.match(r"\s*/\*([0-9a-f]{4,})\*/", x) for x in lines[number:])
            labels[label[1]] = next((int(x[1], 16) for x in following if x), 0)
    loops = []
    for address, target in branches:
        start = int(target, 16) if target.startswith("0x") else labels.get(target, address)
        if start < address:
            loops.append((start, address, sum(start <= x <= address for x in stores)))
    return sorted(loops)


def analyse_kernel(capability: int, with_plan: bool) -> dict[str, Any]:
    """Return registers, shared memory and the instructions of the loops of the compiled kernel."""
    import triton

    compiled = compile_kernel(capability, with_plan)
    tools = Path(triton.__file__).parent / "backends/nvidia/bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        text = subprocess.run(
            [tools / "nvdisasm", "-c", file.name], capture_output=True, text=True, check=True
        ).stdout
        usage = subprocess.run(
            [tools / "cuobjdump", "-res-usage", file.name], capture_output=True, text=True, check=True
        )
    loops = find_loops(text)
    outer = [x for x in loops if not any(y[0] <= x[0] and x[1] < y[1] for y in loops)]
    inner = [x for x in loops if x not in outer]
    rows = []
    for start, end, trips in sorted(outer, key=lambda x: x[0] - x[1])[: 2 if with_plan else 1]:
        nested = [x for x in inner if start <= x[0] and x[1] <= end]
        per_feature = sum((x[1] - x[0]) // 16 + 1 for x in nested)
        rows.append(
            {
                "per diagonal": (end - start) // 16 + 1 - per_feature,
                "per feature": per_feature,
                "shared trips": trips,
            }
        )
    registers = re.search(r"REG:(\d+)", usage.stdout + usage.stderr)
    return {
        "registers": int(registers[1]) if registers else None,
        "shared bytes": compiled.metadata.shared,
        "warps": compiled.metadata.num_warps,
        "loops": rows,
    }


def count_bytes(with_plan: bool) -> dict[str, int]:
    """Return the bytes that the kernel moves, and the least that any kernel must move."""
    features = 4 * PAIRS * BLOCKS * FEATURES * (VIEWS + 1)
    moved = features + 8 * PAIRS
    least = features + 4 * PAIRS
    if with_plan:
        moved += CELLS * (4 + 4 + 4 + 4 + 4)  # zeros, then m and k: written, read; the plan: written
        moved += (
            3 * CELLS * 4 + 2 * features
        )  # backward: the plan is read for both products, gradients are written
        least += features  # the gradients
    return {"moved": moved, "least": least}


def estimate(name: str, with_plan: bool) -> dict[str, Any]:
    """Return the estimated time of the kernel, with every number that it depends on."""
    capability, multiprocessors, clock, bandwidth = DEVICES[name]
    kernel = analyse_kernel(capability, with_plan)
    diagonals = 2 * BLOCKS - 1
    instructions = diagonals * sum(x["per diagonal"] + FEATURES * x["per feature"] for x in kernel["loops"])
    trips = diagonals * sum(x["shared trips"] for x in kernel["loops"])
    latency = (instructions * CYCLES_PER_INSTRUCTION + trips * SHARED_CYCLES) / clock * 1e-3
    issue = instructions * kernel["warps"] * PAIRS / (4 * multiprocessors * clock) * 1e-3
    size = count_bytes(with_plan)
    return {
        "kernel": kernel,
        "instructions per warp": instructions,
        "shared trips per warp": trips,
        "us by latency of one program": latency,
        "us by issue rate of the device": issue,
        "us by bandwidth": size["moved"] / bandwidth * 1e-3,
        "us by bandwidth at least": size["least"] / bandwidth * 1e-3,
    }


def measure_cuda() -> dict[str, Any]:
    """Return milliseconds and GB/s of forward and backward on the GPU of this machine."""
    query, support = make_features("cuda")
    result: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    runs = {
        "triton": lambda: run_backend(query, support, "triton"),
        "reference": lambda: run_backend(query, support, "reference"),
        "plain torch": lambda: run_plain(query, support),
    }
    for name, work in runs.items():
        for _ in range(3):
            work()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        rounds = 100 if name == "triton" else 5
        start.record()
        for _ in range(rounds):
            work()
        end.record()
        torch.cuda.synchronize()
        ms = start.elapsed_time(end) / rounds
        result[name] = {"ms": ms, "GB/s": count_bytes(True)["moved"] / ms * 1e-6}
    return result


def analyse() -> dict[str, Any]:
    """Return the analysis for devices that this machine does not have."""
    launches = count_launches()
    return {
        "workload": f"{PAIRS} matched pairs, {GRID[0]} x {GRID[1]} views, {BLOCKS} x {BLOCKS} blocks, "
        f"{FEATURES} features, RBF, float32",
        "launches, forward and backward": launches,
        "us of launching": {name: LAUNCH_US * count for name, count in launches.items()},
        "bytes, values only": count_bytes(False),
        "bytes, forward and backward": count_bytes(True),
        "devices": {
            name: {"values only": estimate(name, False), "values and plan": estimate(name, True)}
            for name in DEVICES
        },
    }


def write_page(result: dict[str, Any]) -> str:
    """Return the published page."""
    launches, size = result["launches, forward and backward"], result["bytes, forward and backward"]
    values = result["bytes, values only"]
    rows = [
        f"| {device} | {name} | {row['kernel']['registers']} | {row['kernel']['shared bytes']} | "
        f"{row['instructions per warp']:,} | {row['shared trips per warp']} | "
        f"{row['us by latency of one program']:.0f} us | {row['us by issue rate of the device']:.1f} us | "
        f"{row['us by bandwidth']:.1f} us |"
        for device, passes in result["devices"].items()
        for name, row in passes.items()
    ]
    row = result["devices"]["A100"]["values only"]
    loop = row["kernel"]["loops"][0]
    return f"""# Alignment on a GPU: an analysis

No GPU was used: nothing here is a measurement of time. Workload: {result["workload"]}.
Launches are counted on the CPU. Instructions, registers and shared memory are those of the kernel as the compiler and
assembler of Triton make it for each device. `python benchmarks/gpu.py` measures milliseconds and GB/s where CUDA is.

| backend | launches, forward and backward | host time at {LAUNCH_US:.0f} us each |
|---|---:|---:|
{chr(10).join(f"| {name} | {count} | {LAUNCH_US * count / 1e3:.2f} ms |" for name, count in launches.items())}

Forward and backward move {size["moved"] / 1e6:.2f} MB; at least {size["least"] / 1e6:.2f} MB are needed (features and
gradients once each). Values alone move {values["moved"] / 1e6:.2f} MB of at least {values["least"] / 1e6:.2f} MB: the
costs are never written.

| device | pass | registers | shared bytes | instructions per warp | shared trips | latency | issue | bandwidth |
|---|---|---:|---:|---:|---:|---:|---:|---:|
{chr(10).join(rows)}

The arithmetic, for values on an A100: {2 * BLOCKS - 1} anti-diagonals x ({loop["per diagonal"]} instructions +
{FEATURES} features x {loop["per feature"]}) = {row["instructions per warp"]:,} instructions per warp, at
{CYCLES_PER_INSTRUCTION:.0f} cycles each (a dependent operation), plus {row["shared trips per warp"]} stores to shared
memory at {SHARED_CYCLES} cycles, at {DEVICES["A100"][2]} GHz: {row["us by latency of one program"]:.0f} us.
Independent instructions overlap, so this is pessimistic. The issue rate is the same number of instructions for all
warps at four per cycle and multiprocessor.

Latency is the limit. Four times as many warps have as many instructions each (339,417 on an A100 for values), so they
only repeat work; a likely cause is that `tl.gather` stays inside a warp (not checked in the compiled layout). 255
registers are the most that a thread can have.
The estimate for forward and backward is not better than the 0.82 ms that torchwarp (CUDA) publishes for the same sizes
on a TITAN RTX.

The estimate of a pass is the largest of the last three columns. Eight pairs are eight programs and leave most of the
device idle, so the time stays about the same up to a hundred pairs. Every loop body is counted whole, with all its
branches.
"""


def main() -> None:
    """Measure or analyse, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", action="store_true", help="write docs/results/gpu.md (analysis only)")
    parser.add_argument("--analyse", action="store_true", help="analyse even where CUDA is")
    options = parser.parse_args()
    if torch.cuda.is_available() and not options.analyse:
        result = measure_cuda()
    else:
        result = analyse()
        if options.page:
            (ROOT / "docs/results/gpu.md").write_text(write_page(result))
    path = ROOT / "benchmarks/results/gpu.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
