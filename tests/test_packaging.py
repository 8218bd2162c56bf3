"""Wheels: one with the kernel for every Python of a platform, one without it on request; both align."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.plain
PROGRAM = """
import torch, jeanie
found = jeanie.trace(torch.rand(3, 4, 5, 3, 3))[0]
print(jeanie.__file__, found.backend, jeanie.distances(torch.rand(2, 4, 8), torch.rand(3, 5, 8)).shape[1])
"""


def build(folder: Path, **environment: str) -> Path:
    """A wheel of the checkout, built as a user would, but without optimisation, which takes most of the time."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--quiet", "--no-build-isolation",
         "--config-settings", f"build-dir={folder}/build", "--wheel-dir", str(folder),
         "--config-settings", "cmake.define.JEANIE_OPTIMISE=-O0"],
        check=True, capture_output=True, env={**os.environ, **environment})  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    return wheel


def run(wheel: Path, folder: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The code where the installed wheel's jeanie is the only one that is found."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    subprocess.run([*pip, "--target", str(folder / "installed"), str(wheel)], check=True, capture_output=True)
    places = f"{folder / 'installed'}:{sysconfig.get_path('purelib')}"
    # -S: without site, the editable install of the checkout is not seen
    return subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=folder, check=False,
        env={"PYTHONPATH": places, **environment},
    )  # fmt: skip


def run_alignment(wheel: Path, folder: Path, **environment: str) -> list[str]:
    """What the program prints where no compiler is on the path."""
    result = run(wheel, folder, PROGRAM, PATH=str(folder), **environment)
    assert result.returncode == 0, result.stderr
    file, *rest = result.stdout.split()
    assert Path(file).is_relative_to(folder / "installed")
    return rest


def test_a_wheel_brings_its_kernel(tmp_path):
    wheel = build(tmp_path)
    assert wheel.name.startswith("jeanie-")
    assert "-py3-none-" in wheel.name
    assert not wheel.name.endswith("-any.whl")
    assert run_alignment(wheel, tmp_path) == ["native", "3"]
    assert run_alignment(wheel, tmp_path, JEANIE_ISA="baseline") == ["native", "3"]


def test_a_wheel_without_the_kernel_works_on_torch_and_refuses_native_by_name(tmp_path):
    wheel = build(tmp_path, JEANIE_NO_NATIVE="1")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert run_alignment(wheel, tmp_path) == ["reference", "3"]
    code = "import torch, jeanie; jeanie.align(torch.rand(1, 2, 2), backend='native')"
    result = run(wheel, tmp_path, code, PATH=os.environ["PATH"])
    assert result.returncode != 0
    assert "ConfigError: backend 'native' needs the compiled kernel" in result.stderr
