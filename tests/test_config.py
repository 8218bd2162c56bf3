"""Configurations are checked at birth and say what is wrong."""

import copy

import pytest
from pydantic import Field

from jeanie.config import Config
from jeanie.errors import ConfigError


class Inner(Config):
    gamma: float = Field(default=0.1, ge=0)
    name: str = "a"


class Outer(Config):
    inner: Inner = Inner()
    size: int = 3


def test_a_change_reaches_inside_and_leaves_the_original_alone():
    outer = Outer()
    changed = outer.with_values({"inner.gamma": 2}, size=4)
    assert (changed.inner.gamma, changed.size, changed.inner.name) == (2.0, 4, "a")
    assert (outer.inner.gamma, outer.size) == (0.1, 3)


def test_a_whole_part_can_be_changed():
    assert Outer().with_values(inner=Inner(gamma=5)).inner.gamma == 5


@pytest.mark.parametrize(
    ("suffix", "text"),
    [(".toml", "size = 7\n[inner]\ngamma = 1.5\n"), (".json", '{"size": 7, "inner": {"gamma": 1.5}}')],
)
def test_files_give_what_keywords_give(tmp_path, suffix, text):
    path = tmp_path / f"c{suffix}"
    path.write_text(text)
    assert Outer.from_file(path) == Outer(size=7, inner=Inner(gamma=1.5))


def test_a_configuration_cannot_be_changed():
    with pytest.raises(Exception, match="frozen"):
        Outer().size = 4


@pytest.mark.errors
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sise": 1}, r"Outer: sise: no such option; the options are inner, size"),
        ({"size": "many"}, r"size: .*integer.*got 'many'"),
        ({"inner": {"gamma": -1}}, r"gamma: .*greater than or equal to 0, got -1"),
        ({"inner": {"gamma": float("nan")}}, r"gamma: .*got nan"),
    ],
)
def test_a_wrong_value_is_named_with_what_came(values, message):
    with pytest.raises(ConfigError, match=message):
        Outer(**values)


@pytest.mark.errors
def test_what_is_wrong_inside_is_said_once():
    with pytest.raises(ConfigError) as error:
        Outer(inner={"gamma": -1})
    assert str(error.value).count("gamma") == 1


@pytest.mark.errors
@pytest.mark.parametrize(
    "make",
    [
        lambda: Outer().with_values({"inner.gamma": -1, "inner.name": 5}),
        lambda: Outer(inner={"gamma": -1, "name": 5}),
    ],
    ids=["changed", "made"],
)
def test_problems_of_a_section_have_dotted_names(make):
    with pytest.raises(ConfigError) as caught:
        make()
    gamma = "inner.gamma: input should be greater than or equal to 0, got -1"
    assert str(caught.value) == f"Outer: {gamma}; inner.name: input should be a valid string, got 5"
    assert str(copy.copy(caught.value)) == str(caught.value)


@pytest.mark.errors
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", b"size = ", "a.toml: neither TOML nor JSON"),
        ("a.json", b"[1]", "a.json: needs a table"),
        ("a.json", b"\xff", "neither TOML nor JSON"),
        ("a.toml", b"size = 'x'", r"a.toml: Outer: size"),
        ("a.toml", b"#" * (2**20 + 1), "a configuration is smaller"),
    ],
)
def test_a_bad_file_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        Outer.from_file(tmp_path / name)


@pytest.mark.errors
def test_a_missing_file_and_a_missing_part_are_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        Outer.from_file(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"no 'size.x'"):
        Outer().with_values({"size.x": 1})
