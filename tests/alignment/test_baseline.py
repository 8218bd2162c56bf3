"""The narrow build of the kernel (SSE2, NEON) gives what the wide one gives."""

import os
import subprocess
import sys

import torch
from torch.testing import assert_close

from jeanie import align, distances

PROGRAM = """
import sys, torch, jeanie
from jeanie.alignment import get_instruction_set
assert get_instruction_set() == "baseline"
out = []
for dtype in (torch.float32, torch.float64):
    for views, shift in (((), 0), ((7, 7), 2), ((3, 2, 2), 1)):
        for gamma in (0.0, 1e-4, 0.01, 1.0):
            cost = torch.rand(11, 9, 8, *views, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
            value = jeanie.align(cost, gamma=gamma, shift=shift, query_lengths=list(range(1, 10)) + [9, 9])
            value.sum().backward()
            out += [value.detach(), cost.grad]
x = torch.rand(3, 6, 5, generator=torch.Generator().manual_seed(0)) + 1000
out.append(jeanie.distances(x, x[:2], metric="euclidean"))
for dtype in (torch.float32, torch.float64):
    for metric in ("euclidean", "sqeuclidean", "rbf"):
        q, s = (torch.rand(9, n, 5, generator=torch.Generator().manual_seed(n)).to(dtype) for n in (11, 7))
        q.requires_grad_(), s.requires_grad_()
        value = jeanie.distances(q, s, metric=metric, pairs="matched", gamma=0.1)
        out += [value.detach(), *torch.autograd.grad(value.sum(), (q, s))]
torch.save(out, sys.argv[1])
"""


def test_both_builds_agree(tmp_path):
    file = tmp_path / "out.pt"
    environment = {**os.environ, "JEANIE_ISA": "baseline"}
    subprocess.run([sys.executable, "-c", PROGRAM, str(file)], check=True, env=environment)
    found = iter(torch.load(file))
    for dtype in (torch.float32, torch.float64):
        for views, shift in (((), 0), ((7, 7), 2), ((3, 2, 2), 1)):
            for gamma in (0.0, 1e-4, 0.01, 1.0):
                cost = (
                    torch.rand(11, 9, 8, *views, generator=torch.Generator().manual_seed(0))
                    .to(dtype)
                    .requires_grad_()
                )
                value = align(cost, gamma=gamma, shift=shift, query_lengths=[*range(1, 10), 9, 9])
                value.sum().backward()
                rtol = 1e-5 if dtype == torch.float32 else 1e-11
                assert_close(next(found), value.detach(), rtol=rtol, atol=rtol)
                assert_close(next(found), cost.grad, rtol=0, atol=10 * rtol)
    x = torch.rand(3, 6, 5, generator=torch.Generator().manual_seed(0)) + 1000
    assert_close(next(found), distances(x, x[:2], metric="euclidean"), rtol=1e-4, atol=1e-6)
    for dtype in (torch.float32, torch.float64):
        rtol = 1e-4 if dtype == torch.float32 else 1e-10
        for metric in ("euclidean", "sqeuclidean", "rbf"):
            q, s = (
                torch.rand(9, n, 5, generator=torch.Generator().manual_seed(n)).to(dtype).requires_grad_()
                for n in (11, 7)
            )
            value = distances(q, s, metric=metric, pairs="matched", gamma=0.1)
            for expected in (value.detach(), *torch.autograd.grad(value.sum(), (q, s))):
                assert_close(next(found), expected, rtol=rtol, atol=rtol)
