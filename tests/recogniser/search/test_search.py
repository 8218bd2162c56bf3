"""Search: the same answer as looking at every window, however few are looked at; kept, resumed, in parallel."""

import os
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from movements import open_clip
from search_cases import list_rows

from jeanie.datasets.archive.reader import open_archive
from jeanie.datasets.archive.writer import write_archive
from jeanie.datasets.folders import open_folder
from jeanie.datasets.formats.npz import write_npz
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot import FewShotModel
from jeanie.fewshot.config import RAW
from jeanie.recogniser.search import candidates as search
from jeanie.recogniser.search import proposals
from jeanie.recogniser.search.bounds import compute_bounds, prepare_query
from jeanie.recogniser.search.encoding import encode_windows
from jeanie.recogniser.search.find import find
from jeanie.recogniser.search.rows import compute_projection, pack_rows
from jeanie.recogniser.search.windows import (
    compute_coarse_basis,
    count_window_frames,
    cut_windows,
    project_features,
    select_duration_steps,
)
from jeanie.skeleton import Motion

DATA = os.environ.get("JEANIE_DATA")
recordings = pytest.mark.skipif(DATA is None, reason="the recordings are not here: set JEANIE_DATA")


def align_every_window(model, example, archive, stride=0.25, stretch=1.5):
    """Every window as a motion of its own, aligned alone; sorted by distance."""
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
    return sorted(rows)


def select_apart(rows, k, overlap):
    """Take sorted windows greedily where they are apart."""
    selected = []
    for row in rows:
        shared = [
            max(0, min(row[3], other[3]) - max(row[2], other[2])) / min(row[3] - row[2], other[3] - other[2])
            for other in selected
            if other[1] == row[1]
        ]
        if len(selected) < k and not any(share > overlap for share in shared):
            selected.append(row)
    return selected


def test_the_answer_is_that_of_looking_at_every_window(model, archive, cache_folder):
    example = open_clip("clap", 1, noise=1.0)
    windows = align_every_window(model, example, archive)
    for overlap in (0.0, 0.5):
        expected = select_apart(windows, 6, overlap)
        found = find(model, example, archive, 6, overlap=overlap, cache=cache_folder, refine=False)
        assert found.windows == len(windows)
        assert [row[:3] for row in list_rows(found)] == [
            (clip, start, end) for _, clip, start, end in expected
        ]
        assert [match.distance for match in found] == pytest.approx([row[0] for row in expected], abs=1e-5)


def test_leaving_windows_out_changes_nothing(model, archive, cache_folder, monkeypatch):
    """Few windows at a time, so that a small archive has something to leave out."""
    monkeypatch.setattr(search, "_FIRST", 1)
    left_out = 0
    for action in ("wave", "squat"):
        example = open_clip(action, 3, noise=1.0)
        for k in (1, 4, 50):
            some = find(model, example, archive, k, cache=cache_folder, refine=False)
            whole = find(model, example, archive, k, cache=cache_folder, refine=False, prune=False)
            assert list_rows(some) == list_rows(whole)
            assert whole.compared == whole.windows == some.windows
            left_out += some.windows - some.compared
    assert left_out > 0


def test_a_search_that_keeps_few_bounds_in_memory_finds_the_same(model, archive, cache_folder, monkeypatch):
    """Windows that were not kept are read again if the result may contain them."""
    example = open_clip("wave", 3, noise=1.0)
    expected = {k: find(model, example, archive, k, cache=cache_folder, refine=False) for k in (1, 4)}
    for kept in (1, 6):
        monkeypatch.setattr(proposals, "_MAX_CANDIDATES", kept)
        for k, whole in expected.items():
            found = find(model, example, archive, k, cache=cache_folder, refine=False)
            assert list_rows(found) == list_rows(whole)
            assert found.windows == found.looked_at == whole.windows


def test_equal_segments_come_in_the_order_of_the_archive(model, archive, cache_folder):
    """Clips three and four are the same recording: whatever is found in one is found in the other."""
    found = find(model, archive[2][20:80], archive, 4, cache=cache_folder, refine=False)
    assert [match.clip for match in found[:2]] == [2, 3]
    assert found[0].distance == found[1].distance
    assert (found[0].start, found[0].end) == (found[1].start, found[1].end)
    assert list_rows(found) == list_rows(
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
    expected = select_apart(align_every_window(model, example, archive, stretch=2.0), 6, 0.25)
    assert [row[:3] for row in list_rows(found)] == [(clip, start, end) for _, clip, start, end in expected]


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
    projection = compute_projection(model)
    rows = pack_rows(support, torch.zeros(len(support), 3, dtype=torch.int32), projection)
    for place in range(len(query)):
        one = query[place : place + 1]
        rounded = torch.from_numpy(compute_bounds(model, prepare_query(one, projection), rows))
        assert (rounded <= whole[place]).all()


@pytest.mark.parametrize("changes", [{"align.normalise": "divergence"}, {"align.method": "pool"}])
def test_distances_without_a_bound_are_all_computed(archive, changes):
    model = FewShotModel.raw(RAW.with_values({"inputs.prepare.layout": "core15", **changes}))
    assert compute_coarse_basis(model) is None
    found = find(model, open_clip("wave", 3), archive, 2, refine=False)
    assert found.compared == found.windows
    expected = select_apart(align_every_window(model, open_clip("wave", 3), archive), 2, 0.25)
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
    assert list_rows(found) == list_rows(find(model, example, some, 3, prune=False, cache=tmp_path))
