"""Every code block on every page runs, is checked, or says why it does not run.

Python with ">>>" runs as a doctest (``test_docs.py``). Other Python runs here, or as part of a tutorial. TOML, JSON and
YAML must be valid. In blocks of commands, every program, command and option must exist; scripts (``bash``) must parse.
What cannot run has the mark ``<!-- not run: reason -->`` above it. All other blocks are output: they have the language
``text``, or none.
"""

import ast
import json
import re
import shlex
import subprocess
import sys
import tomllib
import traceback
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from docsite.cli_page import list_commands  # noqa: E402

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("jeanie/**/*.md")])
FENCE = re.compile(r"((?:^<!-- not run: .+ -->\n\n?)?)^( *)```(\w*)\n(.*?)^\2```", re.M | re.S)
PROGRAMS = {
    "cd",
    "curl",
    "dask",
    "docker",
    "git",
    "helm",
    "kubectl",
    "pip",
    "some-camera-program",
    "torchrun",
}
WRAPPERS = {"sudo", "time", "env"}
START = re.compile(r"(?:[A-Z_]+=\S+ )*(?:jeanie|make|python3?|pip|torchrun|dask|cd|git|docker|curl)(?=\s)")
COMMANDS = list_commands()
RUN_BY_OTHER_TESTS = {"README.md"}  # test_readme.py


class Block(NamedTuple):
    page: Path
    line: int
    is_marked: bool
    language: str
    text: str

    @property
    def name(self):
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def list_blocks(page):
    text = page.read_text()
    return [
        Block(page, text[: match.start(3)].count("\n") + 1, bool(match[1]), match[3], match[4])
        for match in FENCE.finditer(text)
    ]


BLOCKS = [block for page in PAGES for block in list_blocks(page)]


def select(languages):
    return [pytest.param(block, id=block.name) for block in BLOCKS if block.language in languages]


def is_file_of_a_tutorial(block):
    return re.match(r"# \S+\.(py|toml)\n", block.text) is not None


PLAIN = [
    block
    for block in BLOCKS
    if block.language == "python"
    and ">>> " not in block.text
    and not is_file_of_a_tutorial(block)
    and block.page.name not in RUN_BY_OTHER_TESTS
]


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=block.name) for block in PLAIN if not block.is_marked]
)
def test_python_without_prompts_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_python(block) == ""
    capsys.readouterr()


def run_python(block):
    """Run a block; return the traceback of its error, or an empty text."""
    try:
        exec(compile(block.text, block.name, "exec"), {})
    except Exception:
        return traceback.format_exc()
    return ""


@pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in PLAIN if block.is_marked])
def test_python_that_does_not_run_is_valid(block):
    assert ast.parse(block.text).body


def test_files_of_tutorials_are_on_pages_that_run():
    text = (ROOT / "tests" / "test_tutorials.py").read_text()
    pages = {
        block.page.stem for block in BLOCKS if is_file_of_a_tutorial(block) and block.language == "python"
    }
    assert pages
    assert [page for page in pages if f'{page}")' not in text] == []


READERS = {"toml": tomllib.loads, "json": json.loads, "yaml": lambda text: list(yaml.safe_load_all(text))}


@pytest.mark.parametrize("block", select(READERS))
def test_data_are_valid(block):
    assert READERS[block.language](block.text)


@pytest.mark.parametrize("block", select({"bash"}))
def test_a_script_parses_and_its_commands_exist(block):
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
    lines = block.text.replace("\\\n", " ").splitlines()
    calls = [
        match[1].split(" $")[0]
        for line in lines
        if (match := re.search(r"\b(jeanie [a-z].*?)(?: &)?$", line))
    ]
    assert [part for call in calls for part in find_wrong_parts(call)] == []


def find_wrong_parts(line):
    """Return what does not exist in a line of a shell: programs, commands, options, files of the repository."""
    wrong = []
    line = re.sub(r"\s#\s.*$", "", line).replace("...", "")
    for part in re.split(r"\s(?:\||&&|;|&)\s", line):
        words = [word for word in shlex.split(part) if not re.match(r"[A-Z_]+=", word)]
        while words and words[0] in WRAPPERS:
            words.pop(0)
        if words[:1] == ["torchrun"] and "jeanie" in words:
            words = words[words.index("jeanie") :]
        if words:
            wrong += _find_wrong_words(words)
    return wrong


def _find_wrong_words(words):
    program, *rest = words
    if program == "jeanie":
        return _find_wrong_options(rest)
    if program == "make":
        targets = set(re.findall(r"^([a-z]+)(?: [a-z]+)*:", (ROOT / "Makefile").read_text(), re.M))
        targets |= {"stress"}
        return [word for word in rest if "=" not in word and not word.startswith("-") and word not in targets]
    if program in ("python", "python3"):
        scripts = [word for word in rest if word.endswith(".py") and "/" in word]
        return [word for word in scripts if not (ROOT / word).exists()]
    return [] if program in PROGRAMS else [program]


def _find_wrong_options(words):
    if not words or words[0] in ("COMMAND", "--help", "--version", "--install-completion"):
        return []
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    if name not in COMMANDS:
        return [name]
    options = {"--help"} | {
        option
        for parameter in COMMANDS[name].params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    used = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
    return [f"{name} {option}" for option in used if option not in options]


def is_commands(block):
    return block.language == "sh" or (not block.language and START.match(block.text))


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, id=block.name) for block in BLOCKS if is_commands(block) and not block.is_marked],
)
def test_commands_and_options_exist(block):
    lines = block.text.replace("\\\n", " ").splitlines()
    wrong = [
        part for line in lines if line.strip() and not line.startswith("#") for part in find_wrong_parts(line)
    ]
    assert wrong == []


def test_the_check_of_commands_sees_what_does_not_exist():
    assert find_wrong_parts("jeanie enrol wave a.npz --library x.db  # --nothing") == []
    assert find_wrong_parts("cat a | jeanie watch - --nothing") == ["cat", "watch --nothing"]
    assert find_wrong_parts("jeanie enroll wave a.npz && make nothing") == ["enroll", "nothing"]
    assert find_wrong_parts("python examples/nothing.py") == ["examples/nothing.py"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_has_a_known_language(page):
    known = {"", "python", "sh", "bash", "text", *READERS}
    assert [block.name for block in list_blocks(page) if block.language not in known] == []
