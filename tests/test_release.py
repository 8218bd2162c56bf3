"""What a release needs: valid workflows whose commands exist, versions that agree, files that people look for."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import jeanie

ROOT = Path(__file__).resolve().parent.parent
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run_schema_check(schema, *paths):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


@pytest.mark.parametrize("schema", ["vendor.github-workflows", "vendor.dependabot"])
def test_files_for_github_follow_their_schema(schema):
    paths = WORKFLOWS if "workflows" in schema else [GITHUB / "dependabot.yml"]
    result = run_schema_check(schema, *paths)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_workflow_with_an_unknown_key_is_invalid(tmp_path):
    broken = tmp_path / "tests.yml"
    broken.write_text(WORKFLOWS[0].read_text().replace("runs-on", "runs_on"))
    assert run_schema_check("vendor.github-workflows", broken).returncode != 0


def list_steps():
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            yield from job["steps"]


def test_workflows_run_targets_that_exist():
    targets = set(re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(), re.M))
    names = {name for line in targets for name in line.split()}
    used = {name for step in list_steps() for name in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))}
    assert {"web", "docs", "release-check"} <= used
    assert used <= names


def test_no_workflow_holds_a_secret():
    texts = [path.read_text() for path in WORKFLOWS]
    assert not any("secrets." in text or "password" in text for text in texts)
    assert sum("id-token: write" in text for text in texts) == 2  # pages and trusted publishing


def test_all_supported_versions_of_python_are_tested():
    rows = yaml.safe_load((GITHUB / "workflows/tests.yml").read_text())["jobs"]["versions"]["strategy"][
        "matrix"
    ]
    declared = {
        text.rsplit(" ", 1)[1] for text in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", text)
    }
    assert {row["python"] for row in rows["include"]} == declared
    assert PROJECT["requires-python"] == f">={min(declared)}"
    oldest = next(text for text in PROJECT["dependencies"] if text.startswith("torch"))
    assert any(row["torch"].removesuffix(".*") == oldest.removeprefix("torch>=") for row in rows["include"])


def test_versions_agree():
    assert jeanie.__version__ == PROJECT["version"]
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## ({re.escape(PROJECT['version'])}\b|Unreleased)", changes, re.M)


@pytest.mark.parametrize(
    "name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "CITATION.cff"]
)
def test_files_that_people_look_for_exist(name):
    assert len((ROOT / name).read_text()) > 500


def test_issue_forms_ask_for_what_is_needed():
    for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("[!c]*.yml")):
        form = yaml.safe_load(path.read_text())
        assert form["name"]
        assert form["description"]
        assert any(part.get("validations", {}).get("required") for part in form["body"])
