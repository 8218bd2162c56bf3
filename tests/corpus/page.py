"""The page docs/tested_files.md."""

SPACES = {
    "metres": "metres, y up",
    "hips": "metres from the middle of the hips, y up",
    "relative": "parts of the image, y up",
    "px": "pixels, y up",
}


def render_page(cases):
    """Return the text of the page, with one row per file."""
    lines = [
        "# Files that the tests write and read",
        "",
        f"Each of these {len(cases)} files is written as its program or people write it, and read back: the joints,",
        "the unit, the rate and the absence of warnings are checked. `tests/corpus` makes the files, and",
        "`PYTHONPATH=tests python -m corpus` writes this page. [Formats](formats.md) explains the rules.",
        "",
        "| file | how it is made | format | read as | declared |",
        "|---|---|---|---|---|",
    ]
    for name, case in cases.items():
        origin = case.origin.replace("|", "\\|")
        declared = ", ".join(f"`{key}={value!r}`" for key, value in case.options.items())
        lines.append(f"| {name} | {origin} | `{case.form}` | {SPACES[case.space]} | {declared} |")
    return "\n".join(lines) + "\n"
