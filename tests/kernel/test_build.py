"""The build script of the kernel: instruction sets follow the processor, sanitizers are an option."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.plain


def configure(folder, *options):
    """Return the compile commands that CMake would run."""
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, *options], check=True, capture_output=True)
    return [entry["command"] for entry in json.loads((folder / "compile_commands.json").read_text())]


def list_builds(commands, file):
    """Return the instruction sets that a source file is compiled for."""
    matches = [re.search(r"JEANIE_ISA=(\w+)", command) for command in commands if f"/{file}" in command]
    return sorted(match[1] for match in matches)


def test_arm64_builds_the_narrow_kernel_only(tmp_path):
    commands = configure(tmp_path, "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64")
    assert all(
        list_builds(commands, file) == ["baseline"] for file in ("kernel.cpp", "mlp.cpp", "nearest.cpp")
    )
    assert not any(flag in command for command in commands for flag in ("-mavx", "-mfma", "-mbmi", "haswell"))


def test_x86_builds_every_instruction_set(tmp_path):
    commands = configure(tmp_path, "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=x86_64")
    assert list_builds(commands, "kernel.cpp") == ["avx2", "baseline"]
    for file in ("mlp.cpp", "nearest.cpp"):
        assert list_builds(commands, file) == ["avx2", "avx512", "baseline"]
    assert sum("-mavx512f" in command for command in commands) == 2
    assert not any("sanitize" in command for command in commands)


def test_every_file_of_a_sanitized_build_is_checked(tmp_path):
    commands = configure(tmp_path, "-DJEANIE_SANITIZE=ON")
    assert all("-fsanitize=address,undefined" in command for command in commands)
