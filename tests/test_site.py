"""The documentation builds without a warning and without a network; its reference is complete."""

import re
import sys
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner

import jeanie
from jeanie.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from docsite import api_page, build, cli_page, config_page, navigation, schema_page  # noqa: E402

pytestmark = pytest.mark.plain  # imports every module; the descriptions are those of the plain package


def read_text(page: Path) -> str:
    """Return the text of an HTML page without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]+>", "", page.read_text())).split())


def test_the_site_builds_and_needs_no_network(tmp_path):
    html = tmp_path / "html"
    build.build(html, tmp_path / "source")
    pages = sorted(html.rglob("*.html"))
    names = {page.relative_to(html).with_suffix("").as_posix() for page in pages}
    listed = {
        page
        for groups in navigation.list_sections(ROOT).values()
        for group in groups.values()
        for page in group
    }
    assert listed | {"index", "start", "search"} <= names
    assert "find" in listed, "the guide docs/search.md must not replace the search page of the site"
    assert "jeanie find EXAMPLE ARCHIVE" in read_text(html / "find.html")
    assert "--skip-bad" in read_text(html / "reference" / "cli.html")
    needed = [
        address
        for page in pages
        for address in re.findall(r"<(?:script|img|iframe)[^>]*\bsrc=\"([^\"]+)", page.read_text())
        + re.findall(r"<link[^>]*\brel=\"(?:stylesheet|preload)[^>]*\bhref=\"([^\"]+)", page.read_text())
        if "//" in address
    ]
    assert needed == []
    styles = "".join(path.read_text() for path in html.rglob("*.css"))
    assert re.findall(r"url\([\"']?(?:https?:)?//", styles) == []
    reference = (html / "reference" / "api.html").read_text()
    missing = [name for name in jeanie.__all__ if f'id="jeanie.{name}"' not in reference]
    assert missing == []


def test_a_broken_link_ends_the_build(tmp_path, monkeypatch):
    def collect(source):
        source.mkdir()
        (source / "conf.py").write_text(
            (build.OWN / "conf.py").read_text().replace("html_css_files", "_unused")
        )
        (source / "_static").mkdir()
        (source / "index.md").write_text("# Title\n\n[lost](nowhere.md)\n")

    monkeypatch.setattr(build, "collect", collect)
    with pytest.raises(RuntimeError, match=r"nowhere\.md"):
        build.build(tmp_path / "html", tmp_path / "source")


def test_a_public_name_without_a_group_ends_the_build(monkeypatch):
    monkeypatch.setattr(jeanie, "__all__", [*jeanie.__all__, "new_name"])
    with pytest.raises(ValueError, match="new_name"):
        api_page.describe_names()


def test_every_command_and_option_is_in_the_reference():
    page = cli_page.describe_commands()
    commands = cli_page.list_commands()
    assert len(commands) > 30
    for name, command in commands.items():
        section = page.split(f"### `jeanie {name}`\n")[1].split("\n### ")[0]
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert f"`{option}`" in section, f"{name} {option}"


@pytest.mark.parametrize("name", sorted(cli_page.list_commands()))
def test_the_help_of_a_command_is_in_the_reference(name):
    """Every option that ``--help`` prints is in the table of the command."""
    section = cli_page.describe_commands().split(f"### `jeanie {name}`\n")[1].split("\n### ")[0]
    printed = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "200"}, color=False)
    assert printed.exit_code == 0
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", re.sub(r"\x1b\[[0-9;]*m", "", printed.output)))
    # "--x" in the text of another option is also found: every one of them must be an option of some command
    own = {
        option
        for option in options
        if re.search(rf"^\W*(?:\*\s*)?{option}\b", printed.output.replace("│", ""), re.M)
    }
    missing = [option for option in own - {"--help"} if f"`{option}`" not in section]
    assert missing == []


def test_every_option_of_every_configuration_is_in_the_reference():
    page = config_page.describe_configurations()
    models = config_page.list_configurations()
    public = {name for name in jeanie.__all__ if name.endswith("Config") and name != "Config"}
    assert public <= {model.__name__ for model in models}
    for model in models:
        section = page.split(f"\n### {model.__name__}\n")[1].split("\n### ")[0]
        assert [name for name in model.model_fields if f"| `{name}` | " not in section] == [], model


def test_every_configuration_says_what_its_options_mean():
    unclear = [
        f"{model.__name__}.{name}"
        for model in config_page.list_configurations()
        for name, (_, _, meaning) in config_page.list_options(model).items()
        if not meaning
    ]
    assert unclear == []


def test_types_and_defaults_are_written_as_people_write_them():
    options = config_page.list_options(jeanie.FvmConfig)
    assert options["band"][:2] == ("float | null", "`null`")
    assert config_page.list_options(jeanie.TrainConfig)["precision"][0] == "fp32 | bf16 | fp16"
    text = config_page.describe_configurations()
    assert re.findall(r"Annotated|Optional|PydanticUndefined| object at 0x", text) == []


def test_every_schema_is_in_the_reference():
    page = schema_page.describe_schemas(ROOT / "docs" / "results.schema.json")
    for name in cli_page.list_commands():
        assert f"\n## `{name}`\n" in page
    assert "`results`" in page


def test_a_page_that_the_navigation_does_not_list_joins_its_section(tmp_path):
    for name in ("motions", "new_guide", "results/new_result"):
        path = tmp_path / "docs" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# Title\n")
    sections = navigation.list_sections(tmp_path)
    assert "new_guide" in sections["Guides"]["More"]
    assert "results/new_result" in sections["Results"]["More"]
    assert sections["Guides"]["Recordings"] == ["motions"]
