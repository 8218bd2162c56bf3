"""The index: the same answers as an exact search where it reads everything, updates, damage, and kills."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from movements import open_clip
from search_cases import list_rows, make_recording

from jeanie.datasets.folders import open_folder
from jeanie.datasets.formats.npz import write_npz
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError
from jeanie.fewshot import FewShotModel
from jeanie.recogniser.search import build_index as building
from jeanie.recogniser.search.build_index import build_index
from jeanie.recogniser.search.cache import FeatureRecipe
from jeanie.recogniser.search.find import find
from jeanie.recogniser.search.index import IndexDamaged, find_index_path, is_index_file, open_index
from jeanie.recogniser.search.rows import compute_projection

pytest.importorskip("faiss")
SECONDS = (1.4,)


@pytest.fixture(scope="module")
def index_report(model, archive, tmp_path_factory):
    """An archive with its index, and the report of ``build_index``."""
    cache = tmp_path_factory.mktemp("built")
    return cache, build_index(model, archive, cache, seconds=SECONDS, samples=4)


def open_of(model, archive, cache):
    recipe = FeatureRecipe(model, archive, cache, 0.25, 30.0, compute_projection(model))
    return open_index(find_index_path(recipe))


def test_an_index_that_reads_every_cell_finds_what_an_exact_search_finds(model, archive, index_report):
    cache, report = index_report
    assert report.added == report.windows > 0
    assert report.removed == 0
    for action in ("clap", "wave"):
        example = open_clip(action, 1, noise=1.0)[:42]
        whole = find(model, example, archive, 5, cache=cache, exact=True)
        some = find(model, example, archive, 5, cache=cache, exact=False)
        assert list_rows(some) == list_rows(whole)
        assert (whole.exact, whole.recall, whole.looked_at) == (True, 1.0, whole.windows)
        assert not some.exact
        assert some.recall == report.recall is not None
        assert some.compared <= some.looked_at <= some.windows == whole.windows


def test_the_searches_for_the_recall_are_shown_as_progress(model, archive, index_report):
    calls = []
    build_index(
        model, archive, index_report[0], seconds=SECONDS, samples=3, progress=lambda *done: calls.append(done)
    )
    assert calls[-3:] == [(1, 3), (2, 3), (3, 3)]
    assert calls[0][1] != 3  # clips come first


def test_small_archives_are_searched_exactly_unless_asked(model, archive, index_report):
    assert find(model, open_clip("clap", 1)[:42], archive, 1, cache=index_report[0], refine=False).exact


def test_an_index_reads_less_with_fewer_cells(model, archive, index_report):
    index = open_of(model, archive, index_report[0])
    query = building_query(model)
    few = index.propose(query, [1], probes=1, most=5)
    many = index.propose(query, [1], probes=1000, most=10**6)
    assert few.looked_at < many.looked_at == index.count_windows([1])
    assert set(few.numbers) <= set(many.numbers)
    assert len(few.numbers) <= 5
    assert len(set(many.numbers)) == index.count_windows([1])


def building_query(model):
    from jeanie.recogniser.search.bounds import prepare_query

    query = model.features(model.collate([open_clip("clap", 1)[:42]]), "query")
    return prepare_query(query, compute_projection(model))


def test_the_arrays_are_memory_mapped(model, archive, index_report):
    index = open_of(model, archive, index_report[0])
    for cells in index.cells.values():
        assert isinstance(cells.codes, np.memmap)
        assert isinstance(cells.numbers, np.memmap)
    assert isinstance(index.row_files[0].open(), np.memmap)


def test_new_changed_and_removed_recordings(model, archive, tmp_path):
    """Only what is new is encoded; an index of an earlier state is not used."""
    folder, cache = tmp_path / "in", tmp_path / "cache"
    folder.mkdir()
    for number in range(3):
        write_npz(archive[number], folder / f"{number}.npz")
    example = open_clip("wave", 3)[:42]

    def search(exact):
        return find(model, example, open_folder(folder), 4, cache=cache, exact=exact, refine=False)

    def build():
        report = build_index(model, open_folder(folder), cache, seconds=SECONDS, samples=2)
        assert list_rows(search(False)) == list_rows(search(True))
        assert not search(False).exact
        return report

    first = build()
    assert build().added == build().removed == 0
    write_npz(make_recording(["wave", "bow"], 4, "new"), folder / "new.npz")
    assert search(False).exact
    grown = build()
    assert grown.windows > first.windows
    assert grown.windows == first.windows + grown.added - grown.removed
    write_npz(make_recording(["squat"], 5, "other"), folder / "0.npz")
    os.utime(folder / "0.npz", ns=(1, 1))
    assert search(False).exact
    changed = build()
    assert changed.added
    assert changed.removed
    for name in ("0.npz", "new.npz"):
        (folder / name).unlink()
    smaller = build()
    assert smaller.windows == changed.windows + smaller.added - smaller.removed < changed.windows


def test_damage_is_noticed_and_the_search_is_exact(model, archive, index_report):
    """A flipped byte in any file; a search never fails and never uses it."""
    cache, report = index_report
    example = open_clip("clap", 1)[:42]
    expected = list_rows(find(model, example, archive, 3, cache=cache, exact=True, refine=False))
    assert all(is_index_file(file) for file in report.path.iterdir())
    for file in sorted(report.path.iterdir()):
        whole = file.read_bytes()
        for place in (len(whole) // 3, len(whole) - 1):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
            found = find(model, example, archive, 3, cache=cache, exact=False, refine=False)
            assert list_rows(found) == expected
            is_unused_cell = not found.exact and file.name.startswith(("codes", "numbers"))
            assert found.exact or is_unused_cell, (file.name, place)
        file.write_bytes(whole[:-1])
        assert find(model, example, archive, 3, cache=cache, exact=False, refine=False).exact
        file.write_bytes(whole)
    assert not find(model, example, archive, 3, cache=cache, exact=False, refine=False).exact


def test_files_of_strangers_are_refused(model, archive, index_report):
    """Objects in arrays, huge shapes and other shapes, although the description has their size and sum."""
    path = index_report[1].path
    about_file, victim = path / "index.json", path / "low.npy"
    kept = about_file.read_bytes(), victim.read_bytes()
    about = json.loads(kept[0])["about"]
    try:
        for array in (np.array([{}], object), np.zeros((3, 3, 3), np.float32), np.zeros(0, np.float32)):
            np.save(victim, array, allow_pickle=True)
            content = victim.read_bytes()
            about["arrays"]["low.npy"] = {"bytes": len(content), "sum": building.hash_bytes(content)}
            building.seal_description(path, about)
            with pytest.raises(IndexDamaged):
                open_of(model, archive, index_report[0])
        for text in ("", "[]", "{}", '{"about": 1, "sum": 2}', "\x00"):
            about_file.write_text(text)
            with pytest.raises(IndexDamaged):
                open_of(model, archive, index_report[0])
    finally:
        about_file.write_bytes(kept[0])
        victim.write_bytes(kept[1])


@pytest.mark.errors
def test_what_cannot_be_indexed_is_said(model, archive, tmp_path, monkeypatch):
    made = open_synthetic(subjects=1, takes=1, cameras=1, actions=["wave"])
    with pytest.raises(ConfigError, match="has no files"):
        build_index(model, made, tmp_path)
    with pytest.raises(ConfigError, match="no lower bound"):
        build_index(FewShotModel.raw(), archive, tmp_path)
    with pytest.raises(ConfigError, match="recall must be in"):
        build_index(model, archive, tmp_path, recall=0)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ConfigError, match=r"jeanie\[search\]"):
        build_index(model, archive, tmp_path, seconds=SECONDS)


CHILD = """
import sys, torch
torch.set_num_threads(1)
from jeanie.datasets.folders import open_folder
from jeanie.fewshot import FewShotModel
from jeanie.recogniser.search import build_index as building
folder, cache = sys.argv[1:]
model = FewShotModel.load()
print("start", flush=True)
while True:
    report = building.build_index(model, open_folder(folder), cache, seconds=(1.4,), samples=0)
    print("built", flush=True)
"""


@pytest.mark.processes
def test_a_kill_leaves_a_usable_index(model, archive, tmp_path):
    """A process that updates the index again and again is killed at random moments."""
    folder, cache = tmp_path / "in", tmp_path / "cache"
    folder.mkdir()
    for number in range(2):
        write_npz(archive[number], folder / f"{number}.npz")
    source = open_folder(folder)
    report = build_index(model, source, cache, seconds=SECONDS, samples=0)
    example = open_clip("wave", 3)[:42]
    expected = list_rows(find(model, example, source, 2, cache=cache, exact=True, refine=False))
    moments = random.Random(0)
    for _ in range(3):
        command = [sys.executable, "-c", CHILD, str(folder), str(cache)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "start\n"
            assert child.stdout.readline() == "built\n"
            time.sleep(moments.uniform(0, 0.3))
            child.send_signal(signal.SIGKILL)
            assert child.wait() == -signal.SIGKILL
        found = find(model, example, source, 2, cache=cache, exact=False, refine=False)
        assert not found.exact
        assert list_rows(found) == expected
    build_index(model, source, cache, seconds=SECONDS, samples=0)
    assert [path.name for path in cache.iterdir() if path.is_dir()] == [report.path.name]
