"""The cache of a search: features are kept, completed, repaired, and computed again after a change."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from movements import open_clip
from search_cases import list_rows

from jeanie.datasets.archive.reader import open_archive
from jeanie.datasets.archive.writer import write_archive
from jeanie.datasets.folders import open_folder
from jeanie.datasets.formats.npz import write_npz
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.fewshot import FewShotModel
from jeanie.recogniser.search import cache as shards
from jeanie.recogniser.search import clip_states, encoding
from jeanie.recogniser.search.cache import is_cache_file, is_current
from jeanie.recogniser.search.clip_states import read_clip_states
from jeanie.recogniser.search.find import find
from jeanie.recogniser.search.row_files import DamagedRows, read_batches
from jeanie.recogniser.search.rows import compute_projection
from jeanie.recogniser.search.windows import (
    select_duration_steps,
)


def test_features_are_kept_and_go_on_where_they_were(model, archive, tmp_path, monkeypatch):
    """A search that is stopped after the second clip computes only the rest when it is started again."""
    monkeypatch.setattr(clip_states, "_CLIPS", 1)
    real, computed = shards._compute_entries, []

    def compute_and_stop(recipe, skip_bad, portion):
        computed.append(portion[0].clips[0])
        if len(computed) == 3:
            raise KeyboardInterrupt
        return real(recipe, skip_bad, portion)

    def compute_and_record(recipe, skip_bad, portion):
        computed.append(portion[0].clips[0])
        return real(recipe, skip_bad, portion)

    example = open_clip("wave", 3)
    monkeypatch.setattr(shards, "_compute_entries", compute_and_stop)
    with pytest.raises(KeyboardInterrupt):
        find(model, example, archive, 2, cache=tmp_path)
    first = set(computed[:2])
    monkeypatch.setattr(shards, "_compute_entries", compute_and_record)
    computed.clear()
    calls = []
    found = find(model, example, archive, 2, cache=tmp_path, progress=lambda *done: calls.append(done))
    assert not first & set(computed)
    durations = len(select_duration_steps(len(example) / 30, 1.5))
    total = len(archive) * durations
    assert len(computed) == len(archive) - 2
    assert calls[0] == (3 * durations, total)
    assert calls[-1] == (total, total)
    computed.clear()
    again = find(model, example, archive, 2, cache=tmp_path)
    assert computed == []
    assert list_rows(again) == list_rows(found) == list_rows(find(model, example, archive, 2))


def test_damaged_files_are_made_again(model, archive, tmp_path):
    example = open_clip("wave", 3)
    expected = list_rows(find(model, example, archive, 3, cache=tmp_path))
    files = sorted(tmp_path.glob("*.rows"))
    files[0].write_bytes(files[0].read_bytes()[:1000])
    files[1].unlink()
    assert list_rows(find(model, example, archive, 3, cache=tmp_path)) == expected


def test_flipped_bytes_are_noticed(model, archive, tmp_path):
    """Wherever the byte is in a row; a file of zeros has the right sum only if the sum is 0."""
    example = open_clip("wave", 3)
    expected = list_rows(find(model, example, archive, 3, cache=tmp_path))
    (file, *_) = sorted(tmp_path.glob("*.rows"))
    whole = file.read_bytes()
    for place in (0, 1792, 1799, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        with pytest.raises(DamagedRows):
            list(read_batches([open_file(model, archive, tmp_path, file)]))
        assert list_rows(find(model, example, archive, 3, cache=tmp_path)) == expected
        assert file.read_bytes() == whole
    file.write_bytes(bytes(len(whole)))
    assert list_rows(find(model, example, archive, 3, cache=tmp_path)) == expected


def open_file(model, archive, folder, path):
    recipe = shards.FeatureRecipe(model, archive, folder, 0.25, 30.0, compute_projection(model))
    entries = shards.list_entries(recipe, range(-3, 6), read_clip_states(archive, folder))
    entry = next(entry for entry in entries if path.name.startswith(entry.key))
    return next(file for file in shards.build_cache(recipe, [entry])[0] if file.path == path)


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": 3, "files": [{}], "bad": []}', "null", "x"])
def test_descriptions_of_strangers_are_computed_again(model, archive, tmp_path, text):
    example = archive[0][20:60]
    expected = list_rows(find(model, example, archive, 2, cache=tmp_path, refine=False))
    about = max(tmp_path.glob("[0-9a-f]*.json"))
    good = about.read_bytes()
    about.write_text(text)
    assert list_rows(find(model, example, archive, 2, cache=tmp_path, refine=False)) == expected
    assert about.read_bytes() == good


def test_only_the_entry_of_a_changed_clip_is_computed_again(monkeypatch):
    """Clips in front of others, removed clips and changed clips leave the entries of other clips as they are."""
    states = [f"{number:x}" for number in range(2000)]
    groups = {tuple(states[clip] for clip in clips) for clips in clip_states.group_clips(states)}
    assert max(map(len, groups)) <= clip_states._CLIPS
    assert sum(groups, ()) == tuple(states) or sorted(sum(groups, ())) == sorted(states)
    for changed in (["new", *states], states[:700] + states[701:], [*states[:9], "other", *states[10:]]):
        after = {tuple(changed[clip] for clip in clips) for clips in clip_states.group_clips(changed)}
        assert len(after - groups) <= 3


def test_old_caches_are_known_and_ignored(model, archive, tmp_path):
    """A cache of an earlier version is no error, and its files are known as such."""
    (tmp_path / f"{'0' * 32}.json").write_text('{"windows": [1], "bad": []}')
    (tmp_path / f"{'0' * 32}-0.safetensors").write_bytes(b"old")
    find(model, archive[0][20:60], archive, 1, cache=tmp_path, refine=False)
    old = {file.name for file in tmp_path.iterdir() if is_cache_file(file) and not is_current(file)}
    assert old == {f"{'0' * 32}.json", f"{'0' * 32}-0.safetensors"}


def test_other_models_and_changed_recordings_have_features_of_their_own(model, archive, tmp_path):
    example = open_clip("wave", 3)
    find(model, example, archive, 1, cache=tmp_path)
    count = len(list(tmp_path.glob("*.json")))
    other = FewShotModel.load()
    with torch.no_grad():
        next(other.parameters()).mul_(1.01)
    found = find(other, example, archive, 1, cache=tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 2 * count
    assert list_rows(found) == list_rows(find(other, example, archive, 1))
    folder = tmp_path / "clips"
    folder.mkdir()
    write_npz(archive[0], folder / "a.npz")
    first = find(model, example, open_folder(folder), 1, cache=tmp_path / "cache")
    write_npz(archive[1], folder / "a.npz")
    os.utime(folder / "a.npz", ns=(1, 1))
    second = find(model, example, open_folder(folder), 1, cache=tmp_path / "cache")
    assert list_rows(first) != list_rows(second)
    assert list_rows(second) == list_rows(find(model, example, open_folder(folder), 1))


@pytest.mark.processes
def test_processes_find_what_one_finds(model, archive, tmp_path, monkeypatch):
    monkeypatch.setattr(clip_states, "_CLIPS", 2)
    example = open_clip("squat", 3)
    assert list_rows(find(model, example, archive, 5, jobs=2, cache=tmp_path)) == list_rows(
        find(model, example, archive, 5)
    )


def test_long_recordings_are_held_in_parts(model, archive, cache_folder, tmp_path, monkeypatch):
    """Never more than a file's windows are in memory, and the answer does not depend on how many."""
    example = open_clip("clap", 3)
    expected = list_rows(find(model, example, archive, 4, cache=cache_folder))
    monkeypatch.setattr(shards, "_WINDOWS", 8)
    monkeypatch.setattr(encoding, "_TOGETHER", 4)
    found = find(model, example, archive, 4, cache=tmp_path)
    assert [row[:3] for row in list_rows(found)] == [row[:3] for row in expected]
    counts = [
        part["rows"] for file in tmp_path.glob("*.json") for part in json.loads(file.read_text())["files"]
    ]
    assert sum(counts) == found.windows
    assert max(counts) < 8 + 4


def test_generated_motions_have_no_state_for_a_cache(tmp_path):
    """Generated motions come from no file: their features are not kept under a name that could mean others."""
    assert read_clip_states(open_synthetic(subjects=1, takes=1, cameras=1, actions=["wave"])) is None
    write_npz(open_clip("wave"), tmp_path / "a.npz")
    one = read_clip_states(open_folder(tmp_path))
    os.utime(tmp_path / "a.npz", ns=(5, 5))
    assert read_clip_states(open_folder(tmp_path)) != one
    assert str(Path(tmp_path).resolve()) in one[0]


def test_a_folder_and_its_archive_share_one_cache(model, archive, tmp_path, monkeypatch):
    """The same recordings have the same features, wherever they lie; a copy of a file is not computed again."""
    folder, cache = tmp_path / "in", tmp_path / "cache"
    folder.mkdir()
    for number in range(2):
        write_npz(archive[number], folder / f"{number}.npz")
    write_archive([motion.replace(name=f"other {i}") for i, motion in enumerate(open_folder(folder).motions)],
                  tmp_path / "archive", name="all")  # fmt: skip
    example = open_clip("wave", 3)
    first = find(model, example, open_folder(folder), 2, cache=cache)
    monkeypatch.setattr(shards, "_compute_entries", pytest.fail)  # nothing may be computed any more
    os.utime(folder / "0.npz", ns=(7, 7))
    for again in (open_archive(tmp_path / "archive"), open_folder(folder)):
        found = find(model, example, again, 2, cache=cache)
        assert [row[2:] for row in list_rows(found)] == [row[2:] for row in list_rows(first)]
    (cache / "clips.json").write_text("[]")
    assert list_rows(find(model, example, open_folder(folder), 2, cache=cache)) == list_rows(first)


def test_other_content_has_another_state(archive, tmp_path):
    write_npz(archive[0], tmp_path / "a.npz")
    motion = archive[0]
    changed = (motion, motion[1:], motion.replace(rate=25.0), motion.mirror())
    states = []
    for one in changed:
        write_npz(one, tmp_path / "a.npz")
        states += read_clip_states(open_folder(tmp_path / "a.npz"), tmp_path / "cache")
    assert len(set(states)) == len(changed)


def read_doubled(clip):
    motion = open_folder(clip.source).motions[0]
    return motion.replace(joints=2 * motion.joints)


def test_a_file_that_is_read_in_another_way_has_another_state(archive, tmp_path):
    write_npz(archive[0], tmp_path / "a.npz")
    plain = open_folder(tmp_path / "a.npz")
    states = [
        read_clip_states(one, tmp_path / "cache") for one in (plain, replace(plain, read=read_doubled), plain)
    ]
    assert states[0] == states[2] != states[1]
