"""The recall of an index: where it finds results, the settings that are selected, and the confidence."""

import numpy as np
import pytest

from jeanie.recogniser.search import recall as module
from jeanie.recogniser.search.candidates import Window
from jeanie.recogniser.search.recall import Sample, compute_lower_limit
from jeanie.recogniser.search.row_files import CacheEntry, RowFile
from jeanie.recogniser.search.rows import build_row_type

PROBES = np.array([1, 3, 6])


def find_by_sorting(numbers, distances, cells, own, probes, candidates):
    """Whether the nearest windows of the first cells include one of some numbers."""
    read = sorted(
        (distance, number in own, number)
        for number, distance, cell in zip(numbers, distances, cells, strict=True)
        if cell < probes
    )
    return any(number in own for _, _, number in read[:candidates])


@pytest.mark.parametrize("seed", range(5))
def test_places_say_which_settings_find_a_result(seed):
    """Random windows with equal distances among them; a result with two numbers, and one that is in no cell."""
    random = np.random.default_rng(seed)
    numbers = random.permutation(100)[:40]
    distances = random.integers(0, 15, 40).astype(np.float32)
    cells = random.integers(0, 6, 40).astype(np.int32)
    results = [numbers[[3]], numbers[[5, 17]], np.array([1000]), np.empty(0, np.int64)]
    sample = module._locate_results(numbers, distances, cells, results, PROBES)
    assert sample.windows.tolist() == [(cells < count).sum() for count in PROBES]
    for result, own in zip(sample.places, results, strict=True):
        for place, count in enumerate(PROBES):
            for candidates in (1, 2, 5, 10, 20, 40):
                known = find_by_sorting(
                    numbers.tolist(), distances.tolist(), cells.tolist(), own.tolist(), count, candidates
                )
                assert (result[place] < candidates) == known


def make_samples(count, places):
    return [Sample(np.array([10, 100, 1000]), np.array(places)) for _ in range(count)]


def test_the_cheapest_settings_with_enough_confidence_are_selected(monkeypatch):
    monkeypatch.setattr(module, "_CANDIDATES", (5, 50, 500))
    always = [[0, 0, 0]] * 10
    assert module._select_settings(PROBES, make_samples(40, always), 0.99) == module.Settings(1, 5)
    late = [[module._MISSED, 30, 20]] * 10
    assert module._select_settings(PROBES, make_samples(40, late), 0.99) == module.Settings(3, 50)
    # the mean is 100 %, but 50 results are too few to know that it is 99 %
    assert module._select_settings(PROBES, make_samples(5, always), 0.99) == module.Settings(6, 500)
    assert module._select_settings(PROBES, make_samples(5, always), 0.9) == module.Settings(1, 5)
    assert module._select_settings(PROBES, [], 0.5) == module.Settings(6, 500)


def test_the_lower_limit_holds_in_most_samples():
    """Examples whose results are found or missed together: a mean would be too high in half the samples."""
    random = np.random.default_rng(0)
    expected = np.full(40, 9)
    too_high = 0
    for _ in range(400):
        shares = random.beta(9, 1, 40)  # mean 0.9
        too_high += compute_lower_limit(random.binomial(expected, shares), expected) > 0.9
    assert too_high <= 0.09 * 400


def test_the_lower_limit_of_nothing_is_zero():
    assert compute_lower_limit(np.zeros(0, int), np.zeros(0, int)) == 0


def test_a_short_recording_has_several_numbers(tmp_path):
    """The same window in two durations, and one in another file of the same duration."""
    kind = build_row_type(None, has_second=False, has_factor=False)
    files = []
    for place, (step, clips, windows) in enumerate(
        [
            (1, range(0, 2), [(0, 0, 9), (1, 0, 5)]),
            (2, range(0, 2), [(1, 0, 5)]),
            (1, range(2, 4), [(1, 0, 5), (0, 3, 9)]),
            (3, range(0, 2), [(1, 0, 5)]),
        ]
    ):
        rows = np.zeros(len(windows), kind)
        rows["window"] = windows
        rows.tofile(tmp_path / f"{place}.rows")
        files.append(RowFile(tmp_path / f"{place}.rows", CacheEntry("", step, clips), kind, len(rows)))
    results = [Window(0.0, 1, 0, 5), Window(0.0, 2, 3, 9)]
    assert [found.tolist() for found in module._find_numbers(files, [1, 2], results)] == [[1, 2], [4]]
