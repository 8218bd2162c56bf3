"""The reference page of the command line, from the commands themselves."""

from typing import Any

import typer

from jeanie.cli.app import COMMANDS, app, get_command_name
from jeanie.cli.lift import lift
from jeanie.cli.user import user

__all__ = ["describe_commands", "list_commands"]


def list_commands() -> dict[str, Any]:
    """Return every command with its full name, such as ``lift train``."""
    commands = {}
    for name, command in typer.main.get_command(app).commands.items():
        if below := getattr(command, "commands", None):
            commands |= {f"{name} {inner}": subcommand for inner, subcommand in below.items()}
        else:
            commands[name] = command
    return commands


def describe_commands() -> str:
    """Return the page in Markdown."""
    commands = list_commands()
    groups = {
        group: [get_command_name(function) for function in functions] for group, functions in COMMANDS.items()
    }
    for group, name, inner in (("Data", "lift", lift), ("Admin", "user", user)):
        assert inner is not None
        groups[group] += [full for full in commands if full.startswith(f"{name} ")]
    lines = [
        "# Commands",
        "",
        "This page is generated from the commands. `jeanie COMMAND --help` prints the same text.",
        "",
    ]
    for group, names in groups.items():
        lines += [f"## {group}", ""]
        for name in names:
            lines += _describe_command(name, commands[name])
    return "\n".join(lines)


def _describe_command(name: str, command: Any) -> list[str]:
    options = [parameter for parameter in command.params if parameter.name != "help"]
    places = [_name_place(parameter) for parameter in options if parameter.param_type_name == "argument"]
    usage = " ".join(["jeanie", name, *places, "[OPTIONS]"])
    lines = [f"### `jeanie {name}`", "", _clean(command.help), "", "```text", usage, "```", ""]
    if options:
        lines += [
            "| argument or option | default | meaning |",
            "|---|---|---|",
            *map(_describe_option, options),
            "",
        ]
    return lines


def _name_place(parameter: Any) -> str:
    name = _name_argument(parameter)
    return name if parameter.required else f"[{name}]"


def _name_argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    return name + "..." if parameter.nargs == -1 and not name.endswith("...") else name


def _describe_option(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{_name_argument(parameter)}`".replace("|", "\\|")
    else:
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    default = "required" if parameter.required else _describe_default(parameter.default)
    meaning = _escape(_clean(getattr(parameter, "help", None) or ""))
    if variable := getattr(parameter, "envvar", None):
        meaning += f" Environment variable: `{variable}`."
    return f"| {names} | {default} | {meaning} |"


def _describe_default(value: Any) -> str:
    if value is None or value is False or value in ("", (), []) or callable(value):
        return ""
    if value is True:
        return "on"
    return f"`{getattr(value, 'value', value)}`".replace("|", "\\|")


def _clean(text: str | None) -> str:
    return "\n".join(line.strip() for line in (text or "").replace("\f", "").splitlines()).strip()


def _escape(text: str) -> str:
    text = " ".join(text.split())
    for sign in ("|", "*", "<", "_"):
        text = text.replace(sign, f"\\{sign}")
    return text
