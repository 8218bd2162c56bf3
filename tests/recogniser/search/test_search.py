"""Search: the same answer as looking at every window, however few are looked at; kept, resumed, in parallel."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from movements import join_clips, open_clip

from jeanie.datasets.archive.reader import open_archive
from jeanie.datasets.archive.writer import write_archive
from jeanie.datasets.folders import open_folder
from jeanie.datasets.formats.npz import write_npz
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot import FewShotModel
from jeanie.fewshot.config import RAW
from jeanie.recogniser.search import cache as shards
from jeanie.recogniser.search import find as search
from jeanie.recogniser.search import windows
from jeanie.recogniser.search.clip_states import read_clip_states
from jeanie.recogniser.search.find import find
from jeanie.recogniser.search.windows import (
    compute_coarse_basis,
    count_window_frames,
    cut_windows,
    encode_windows,
    project_features,
    select_duration_steps,
)
from jeanie.skeleton import LAYOUTS, Motion

DATA = os.environ.get("JEANIE_DATA")
recordings = pytest.mark.skipif(DATA is None, reason="the recordings are not here: set JEANIE_DATA")


@pytest.fixture(scope="module")
def model():
    return FewShotModel.load()


def long_clip(actions, subject, name):
    """Actions one after another as one recording."""
    joints, _ = join_clips([open_clip(action, subject, noise=1.0) for action in actions], pause=0.6)
    return Motion(joints, LAYOUTS["ntu25"], rate=30.0, name=name)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Three recordings of several actions, the last of which is there twice: all its distances are ties."""
    clips = [
        long_clip(["wave", "squat", "clap"], 0, "one"),
        long_clip(["kick_forward", "wave", "bow"], 1, "two"),
        long_clip(["clap", "kick_forward"], 2, "three"),
        long_clip(["clap", "kick_forward"], 2, "four"),
    ]
    path = tmp_path_factory.mktemp("search") / "archive"
    write_archive(clips, path, name="made")
    return open_archive(path)


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory):
    """A cache for tests that are not about it."""
    return tmp_path_factory.mktemp("kept")


def search_every_window(model, example, archive, k, overlap, stride=0.25, stretch=1.5):
    """Every window as a motion of its own, aligned alone; sorted; taken greedily where it is apart."""
    seconds = len(example) / example.rate
    rows = []
    for clip in range(len(archive)):
        motion = archive[clip]
        for half in range(-20, 20):
            if seconds / stretch <= 2 ** (half / 2) * (1 + 1e-9) and 2 ** (half / 2) <= seconds * stretch * (
                1 + 1e-9
            ):
                length = round(2 ** (half / 2) * motion.rate)
                if length > len(motion):
                    starts = [0] if 2 * len(motion) >= length else []
                else:
                    step = max(1, round(stride * length))
                    starts = sorted({*range(0, len(motion) - length, step), len(motion) - length})
                for start in starts:
                    end = min(len(motion), start + length)
                    rows.append((float(model.distances([example], [motion[start:end]])), clip, start, end))
    selected = []
    for row in sorted(rows):
        shared = [
            max(0, min(row[3], other[3]) - max(row[2], other[2])) / min(row[3] - row[2], other[3] - other[2])
            for other in selected
            if other[1] == row[1]
        ]
        if len(selected) < k and not any(share > overlap for share in shared):
            selected.append(row)
    return selected, len(rows)


def rows_of(found):
    return [(match.clip, match.start, match.end, match.distance) for match in found]


@pytest.mark.parametrize("overlap", [0.0, 0.5])
def test_the_answer_is_that_of_looking_at_every_window(model, archive, cache_folder, overlap):
    example = open_clip("clap", 1, noise=1.0)
    expected, count = search_every_window(model, example, archive, 6, overlap)
    found = find(model, example, archive, 6, overlap=overlap, cache=cache_folder, refine=False)
    assert found.windows == count
    assert [row[:3] for row in rows_of(found)] == [(clip, start, end) for _, clip, start, end in expected]
    assert [match.distance for match in found] == pytest.approx([row[0] for row in expected], abs=1e-5)


def test_leaving_windows_out_changes_nothing(model, archive, cache_folder, monkeypatch):
    """Units of 4 windows and few at a time, so that a small archive has something to leave out."""
    monkeypatch.setattr(search, "_UNIT", 4)
    monkeypatch.setattr(search, "_FIRST", 1)
    left_out = 0
    for action in ("wave", "squat"):
        example = open_clip(action, 3, noise=1.0)
        for k in (1, 4, 50):
            some = find(model, example, archive, k, cache=cache_folder, refine=False)
            whole = find(model, example, archive, k, cache=cache_folder, refine=False, prune=False)
            assert rows_of(some) == rows_of(whole)
            assert whole.compared == whole.windows == some.windows
            left_out += some.windows - some.compared
    assert left_out > 0


def test_equal_segments_come_in_the_order_of_the_archive(model, archive, cache_folder):
    """Clips three and four are the same recording: whatever is found in one is found in the other."""
    found = find(model, archive[2][20:80], archive, 4, cache=cache_folder, refine=False)
    assert [match.clip for match in found[:2]] == [2, 3]
    assert found[0].distance == found[1].distance
    assert (found[0].start, found[0].end) == (found[1].start, found[1].end)
    assert rows_of(found) == rows_of(
        find(model, archive[2][20:80], archive, 4, cache=cache_folder, refine=False, prune=False)
    )


def test_an_example_from_the_archive_is_found_where_it_was(model, archive, cache_folder):
    """The ends are looked for again around the best window, which lies on a grid."""
    example = archive[1][40:100]
    best = find(model, example, archive, 3, cache=cache_folder)[0]
    assert best.name == "two"
    common = min(best.end, 100) - max(best.start, 40)
    assert common / (max(best.end, 100) - min(best.start, 40)) > 0.85
    assert best.distance < 0.02
    coarse = find(model, example, archive, 3, cache=cache_folder, refine=False)
    assert best.distance <= coarse[0].distance
    assert best.seconds == (best.start / 30, best.end / 30)


def test_matches_share_no_more_than_they_may(model, archive, cache_folder):
    for overlap in (0.0, 0.25, 0.6):
        found = find(model, open_clip("kick_forward", 2), archive, 40, overlap=overlap, cache=cache_folder)
        for place, one in enumerate(found):
            for other in found[:place]:
                common = min(one.end, other.end) - max(one.start, other.start)
                shorter = min(one.end - one.start, other.end - other.start)
                assert one.clip != other.clip or common <= overlap * shorter
        assert [match.distance for match in found] == sorted(match.distance for match in found)


def test_features_are_kept_and_go_on_where_they_were(model, archive, tmp_path, monkeypatch):
    """A search that is stopped after the second clip computes only the rest when it is started again."""
    monkeypatch.setattr(shards, "_CLIPS", 1)
    real, computed = shards._compute_entry, []

    def compute_and_stop(recipe, skip_bad, portion):
        computed.append((portion.duration_step, portion.clips[0]))
        if len(computed) == 3:
            raise KeyboardInterrupt
        return real(recipe, skip_bad, portion)

    def compute_and_record(recipe, skip_bad, portion):
        computed.append((portion.duration_step, portion.clips[0]))
        return real(recipe, skip_bad, portion)

    example = open_clip("wave", 3)
    monkeypatch.setattr(shards, "_compute_entry", compute_and_stop)
    with pytest.raises(KeyboardInterrupt):
        find(model, example, archive, 2, cache=tmp_path)
    first = set(computed[:2])
    monkeypatch.setattr(shards, "_compute_entry", compute_and_record)
    computed.clear()
    calls = []
    found = find(model, example, archive, 2, cache=tmp_path, progress=lambda *done: calls.append(done))
    assert not first & set(computed)
    total = len(archive) * len(select_duration_steps(len(example) / 30, 1.5))
    assert len(computed) == total - 2
    assert calls[0] == (3, total)
    assert calls[-1] == (total, total)
    computed.clear()
    again = find(model, example, archive, 2, cache=tmp_path)
    assert computed == []
    assert rows_of(again) == rows_of(found) == rows_of(find(model, example, archive, 2))


def test_damaged_files_are_made_again(model, archive, tmp_path):
    example = open_clip("wave", 3)
    expected = rows_of(find(model, example, archive, 3, cache=tmp_path))
    files = sorted(tmp_path.glob("*.safetensors"))
    files[0].write_bytes(files[0].read_bytes()[:1000])
    files[1].unlink()
    assert rows_of(find(model, example, archive, 3, cache=tmp_path)) == expected


def test_other_models_and_changed_recordings_have_features_of_their_own(model, archive, tmp_path):
    example = open_clip("wave", 3)
    find(model, example, archive, 1, cache=tmp_path)
    count = len(list(tmp_path.glob("*.json")))
    other = FewShotModel.load()
    with torch.no_grad():
        next(other.parameters()).mul_(1.01)
    found = find(other, example, archive, 1, cache=tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 2 * count
    assert rows_of(found) == rows_of(find(other, example, archive, 1))
    folder = tmp_path / "clips"
    folder.mkdir()
    write_npz(archive[0], folder / "a.npz")
    first = find(model, example, open_folder(folder), 1, cache=tmp_path / "cache")
    write_npz(archive[1], folder / "a.npz")
    os.utime(folder / "a.npz", ns=(1, 1))
    second = find(model, example, open_folder(folder), 1, cache=tmp_path / "cache")
    assert rows_of(first) != rows_of(second)
    assert rows_of(second) == rows_of(find(model, example, open_folder(folder), 1))


@pytest.mark.processes
def test_processes_find_what_one_finds(model, archive, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "_CLIPS", 2)
    example = open_clip("squat", 3)
    assert rows_of(find(model, example, archive, 5, jobs=2, cache=tmp_path)) == rows_of(
        find(model, example, archive, 5)
    )


def test_long_recordings_are_held_in_parts(model, archive, cache_folder, tmp_path, monkeypatch):
    """Never more than a file's windows are in memory, and the answer does not depend on how many."""
    example = open_clip("clap", 3)
    expected = rows_of(find(model, example, archive, 4, cache=cache_folder))
    monkeypatch.setattr(shards, "_WINDOWS", 8)
    monkeypatch.setattr(windows, "_TOGETHER", 4)
    found = find(model, example, archive, 4, cache=tmp_path)
    assert [row[:3] for row in rows_of(found)] == [row[:3] for row in expected]
    counts = [count for file in tmp_path.glob("*.json") for count in json.loads(file.read_text())["windows"]]
    assert sum(counts) == found.windows
    assert max(counts) < 8 + 4


def test_windows_prepared_together_are_those_prepared_alone(model, archive):
    motion = archive[0]
    for length in (30, 61):
        cut = cut_windows(motion, length, 0.25)
        for some in (cut, cut[:1], cut[:2]):
            found = torch.cat([part.values for part in encode_windows(model, motion, some)])
            alone = [model.features(model.collate([motion[a:b]]), "support").values for a, b in some]
            torch.testing.assert_close(found, torch.cat(alone), atol=2e-5, rtol=0)


def test_gaps_and_several_persons_are_searched_as_they_are_compared(model):
    """Joints that are missing, frames without anybody, and two persons: windows are prepared one by one."""
    motion = open_clip("wave", noise=1.0, missing=3.0)
    valid = motion.valid.clone()
    valid[40:44] = False
    gappy = motion.replace(valid=valid)
    pair = Motion(torch.cat([motion.joints, motion.joints + 1], 1), motion.layout, rate=30.0)
    for one in (motion, gappy, pair):
        cut = cut_windows(one, 30, 0.5)
        found = torch.cat([part.values for part in encode_windows(model, one, cut)])
        alone = [model.features(model.collate([one[a:b]]), "support").values for a, b in cut]
        torch.testing.assert_close(found, torch.cat(alone), atol=2e-5, rtol=0)


def test_two_persons_are_found_by_their_pairing(model, tmp_path):
    """Interactions keep both persons' features on disk."""
    clips = open_synthetic(subjects=3, takes=1, cameras=1, actions=["shake_hands", "punch_other"])
    write_archive(list(clips.motions), tmp_path / "pairs", name="pairs")
    archive = open_archive(tmp_path / "pairs")
    example = clips[0]
    found = find(model, example, archive, 6, refine=False, stretch=2.0)
    expected, _ = search_every_window(model, example, archive, 6, 0.25, stretch=2.0)
    assert [row[:3] for row in rows_of(found)] == [(clip, start, end) for _, clip, start, end in expected]


@given(st.floats(0.05, 300), st.floats(1, 4))
@settings(max_examples=60)
def test_duration_steps_lie_within_the_stretch(seconds, stretch):
    found = select_duration_steps(seconds, stretch)
    inside = [r for r in range(-40, 40) if seconds / stretch <= 2 ** (r / 2) <= seconds * stretch]
    assert set(inside) <= set(found)
    assert all(seconds / stretch * 0.84 <= 2 ** (r / 2) <= seconds * stretch * 1.19 for r in found)
    assert found


def test_windows_cover_a_recording_to_its_end():
    motion = open_clip("wave")[:95]
    assert cut_windows(motion, 40, 0.25) == [(a, a + 40) for a in (0, 10, 20, 30, 40, 50, 55)]
    assert cut_windows(motion, 95, 0.25) == [(0, 95)]
    assert cut_windows(motion, 190, 0.25) == [(0, 95)]
    assert cut_windows(motion, 191, 0.25) == []
    valid = motion.valid.clone()
    valid[:30] = False
    assert cut_windows(motion.replace(valid=valid), 40, 0.25)[0] == (10, 50)
    assert count_window_frames(2, 30.0) == 60


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"align.gamma": 0.1},
        {"align.metric": "rbf"},
        {"views.kind": "euler", "views.azimuth": 15, "views.altitude": 0},
    ],
)
def test_bounds_are_never_above_the_distance(changes):
    """Whatever the temperature, the base distance and the views are."""
    normal = {
        "inputs.prepare.layout": "core15",
        "align.normalise": "length",
    }
    model = FewShotModel.raw(RAW.with_values({**normal, **changes}))
    basis = compute_coarse_basis(model)
    clips = [open_clip(action, 1) for action in ("wave", "squat", "kick_forward", "clap", "bow")]
    query = model.features(model.collate(clips[:2]), "query")
    support = model.features(model.collate(clips), "support")
    whole, bound = (
        model.compare(query, support),
        model.compare(project_features(query, basis), project_features(support, basis)),
    )
    assert (bound <= whole + 1e-5).all()
    assert (bound[0, 1:] > 0.2 * whole[0, 1:]).all()


@pytest.mark.parametrize("changes", [{"align.normalise": "divergence"}, {"align.method": "pool"}])
def test_distances_without_a_bound_are_all_computed(archive, changes):
    model = FewShotModel.raw(RAW.with_values({"inputs.prepare.layout": "core15", **changes}))
    assert compute_coarse_basis(model) is None
    found = find(model, open_clip("wave", 3), archive, 2, refine=False)
    assert found.compared == found.windows
    expected, _ = search_every_window(model, open_clip("wave", 3), archive, 2, 0.25)
    assert [match.distance for match in found] == pytest.approx([row[0] for row in expected], abs=1e-5)


def test_a_folder_of_recordings_is_searched(model, archive, tmp_path):
    (tmp_path / "sub").mkdir()
    write_npz(archive[0], tmp_path / "a.npz")
    write_npz(archive[1], tmp_path / "sub" / "b.npz")
    (tmp_path / "notes.docx").write_bytes(b"nothing")
    folder = open_folder(tmp_path)
    assert folder.names == ("a.npz", "sub/b.npz")
    assert [name for name, _ in folder.dropped] == ["notes.docx"]
    assert find(model, archive[1][40:100], folder, 1)[0].name == "sub/b.npz"
    assert len(open_folder(tmp_path / "a.npz")) == 1


@pytest.mark.errors
def test_what_cannot_be_searched_is_said(model, archive, tmp_path):
    with pytest.raises(ConfigError, match="k and jobs must be at least 1"):
        find(model, archive[0], archive, 0)
    with pytest.raises(ConfigError, match="stride must be in"):
        find(model, archive[0], archive, stride=0)
    with pytest.raises(DataError, match="a single frame is not a movement"):
        find(model, archive[0][:1], archive)
    with pytest.raises(DataError, match="no recording of a known format"):
        open_folder(tmp_path)
    empty = replace(open_synthetic(subjects=1, takes=1, cameras=1, actions=["wave"]), clips=())
    with pytest.raises(DataError, match="no clips to search"):
        find(model, archive[0], empty)


@pytest.mark.errors
def test_a_bad_clip_stops_the_search_or_is_listed(model, archive, tmp_path):
    write_npz(archive[0], tmp_path / "a.npz")
    write_npz(archive[1], tmp_path / "b.npz")
    folder = open_folder(tmp_path)
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(DataError, match="--skip-bad leaves such clips out"):
        find(model, archive[0][:60], folder, 1, cache=tmp_path / "cache")
    found = find(model, archive[0][:60], folder, 1, cache=tmp_path / "cache", skip_bad=True)
    assert found[0].name == "a.npz"
    assert [name for name, _ in found.skipped] == ["clip 1"]
    with pytest.raises(DataError, match="--skip-bad"):  # also where it is known from before
        find(model, archive[0][:60], folder, 1, cache=tmp_path / "cache")


@recordings
def test_motion_capture_is_searched_without_aligning_most_of_it(model, tmp_path):
    """Some clips of CMU: what was cut out of one is the first match, and most windows are never aligned."""
    from jeanie.datasets import open_dataset

    cmu = open_dataset("cmu")
    some = replace(cmu, clips=cmu.clips[:12])
    example = cmu[3][300:360]
    found = find(model, example, some, 3, cache=tmp_path)
    assert (found[0].name, found[0].label) == (cmu.clips[3].name, None)
    assert abs(found[0].start - 300) < 10
    assert found.compared < 0.35 * found.windows
    assert rows_of(found) == rows_of(find(model, example, some, 3, prune=False, cache=tmp_path))


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
    monkeypatch.setattr(shards, "_compute_entry", pytest.fail)  # nothing may be computed any more
    os.utime(folder / "0.npz", ns=(7, 7))
    for again in (open_archive(tmp_path / "archive"), open_folder(folder)):
        found = find(model, example, again, 2, cache=cache)
        assert [row[2:] for row in rows_of(found)] == [row[2:] for row in rows_of(first)]
    (cache / "clips.json").write_text("[]")
    assert rows_of(find(model, example, open_folder(folder), 2, cache=cache)) == rows_of(first)


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
