"""Every JSON output of a command is checked against docs/results.schema.json, in all tests that run a command."""

import json
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator
from typer.testing import CliRunner

__all__ = ["SCHEMA", "check", "watch_runner"]

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "results.schema.json").read_text())
FORBIDDEN = {
    "path",
    "filename",
    "file_name",
    "start",
    "end",
    "seconds",
    "name",
}  # rows about recordings have our words


@cache
def _validator(kind):
    return Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]})


def check(kind, text):
    """Return the JSON of a command after it was checked against the schema."""
    facts = json.loads(text)
    _validator(kind).validate(facts)
    rows = [*facts.get("results", ()), *facts.get("skipped", ()), *facts.get("repetitions", ())]
    assert not FORBIDDEN & {key for row in rows for key in row}
    return facts


def _check_result(arguments, result):
    command = " ".join(arguments[: 2 if arguments[0] in ("lift", "user") else 1])
    if result.exit_code not in (0, 1, 2) or not result.stdout.strip() or command not in SCHEMA["$defs"]:
        return
    lines = result.stdout.splitlines() if command == "watch" else [result.stdout]
    for line in lines:
        check("error" if "error" in json.loads(line) else command, line)


def watch_runner():
    """Make the runner of commands check what they print with --json."""
    invoke = CliRunner.invoke

    def invoke_and_check(self, app, args=None, *more, **options):
        result = invoke(self, app, args, *more, **options)
        arguments = list(args) if isinstance(args, list | tuple) else []
        if "--json" in arguments and "--help" not in arguments:
            _check_result(arguments, result)
        return result

    CliRunner.invoke = invoke_and_check
