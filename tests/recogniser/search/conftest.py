"""An archive to search, and a cache for tests that are not about the cache."""

import pytest
from search_cases import make_recording

from jeanie.datasets.archive.reader import open_archive
from jeanie.datasets.archive.writer import write_archive


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Three recordings of several actions, the last of which is there twice: all its distances are ties."""
    clips = [
        make_recording(["wave", "squat", "clap"], 0, "one"),
        make_recording(["kick_forward", "wave", "bow"], 1, "two"),
        make_recording(["clap", "kick_forward"], 2, "three"),
        make_recording(["clap", "kick_forward"], 2, "four"),
    ]
    path = tmp_path_factory.mktemp("search") / "archive"
    write_archive(clips, path, name="made")
    return open_archive(path)


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory):
    """A cache for tests that are not about it."""
    return tmp_path_factory.mktemp("kept")
