"""Atomic writes: a path holds its old content until the new content is complete."""

import os

import pytest

from jeanie._internal import files
from jeanie._internal.files import (
    get_backup_path,
    open_atomically,
    remove_leftovers,
    replace_folder,
    write_atomically,
)


def test_a_file_is_replaced_and_no_other_file_is_left(tmp_path):
    path = tmp_path / "result.json"
    write_atomically(path, b"old")
    write_atomically(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["result.json"]


def test_a_relative_path_is_relative_to_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_atomically("result.json", b"new")
    assert (tmp_path / "result.json").read_bytes() == b"new"


def test_the_old_content_stays_until_the_block_ends(tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(b"old")
    with open_atomically(path) as file:
        file.write(b"ne")
        assert path.read_bytes() == b"old"
        file.write(b"w")
    assert path.read_bytes() == b"new"


def write_and_raise(path, error):
    with open_atomically(path) as file:
        file.write(b"new")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_the_block_keeps_the_old_content(tmp_path, error):
    path = tmp_path / "result.json"
    path.write_bytes(b"old")
    with pytest.raises(error):
        write_and_raise(path, error)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["result.json"]


def test_a_full_disk_keeps_the_old_content(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(28, "full")

    path = tmp_path / "result.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["result.json"]


def make_folder(path, content):
    path.mkdir()
    (path / "content").write_text(content)


@pytest.mark.parametrize("can_swap", [True, False])
def test_a_folder_replaces_another(tmp_path, monkeypatch, can_swap):
    if not can_swap:
        monkeypatch.setattr(files, "_swap", lambda first, second: False)
    make_folder(tmp_path / "target", "old")
    make_folder(tmp_path / "new", "new")
    replace_folder(tmp_path / "new", tmp_path / "target")
    assert (tmp_path / "target" / "content").read_text() == "new"
    assert os.listdir(tmp_path) == ["target"]


@pytest.mark.parametrize("is_replaced", [True, False])
def test_an_interrupted_replacement_is_finished_or_undone(tmp_path, is_replaced):
    target = tmp_path / "target"
    make_folder(get_backup_path(target), "old")
    make_folder(tmp_path / ".target.trash-1", "older")
    if is_replaced:
        make_folder(target, "new")
    remove_leftovers(target)
    assert (target / "content").read_text() == ("new" if is_replaced else "old")
    assert os.listdir(tmp_path) == ["target"]
