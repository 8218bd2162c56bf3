"""The benchmark at the size of NTU RGB+D 120, on a shard of it: all its stages run, and its names are those of NTU."""

import re
from itertools import islice
from pathlib import Path

import pytest

from jeanie.evaluation.protocols import get_protocol
from jeanie.evaluation.protocols.published import NTU120_EXEMPLARS

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import ntu120

    return ntu120


def test_the_whole_data_set_has_the_names_of_ntu(benchmark):
    names = [name for name, _ in benchmark.list_names(benchmark.PER_CLASS)]
    assert len(names) == len(set(names)) == 114_480
    assert set(NTU120_EXEMPLARS) <= set(names)
    parts = [tuple(map(int, re.findall(r"\d+", name))) for name in names]
    setups, cameras, subjects, takes, actions = map(set, zip(*parts, strict=True))
    assert (setups, cameras, takes) == (set(range(1, 33)), {1, 2, 3}, {1, 2})
    assert (subjects, actions) == (set(range(1, 107)), set(range(1, 121)))
    assert all((action <= 60) == (setup <= 17) for setup, *_, action in parts)


def test_clips_carry_the_tags_of_their_names(benchmark):
    data = benchmark.make_dataset(2)
    for clip in islice(data.clips, 0, None, 41):
        motion = benchmark.generate(clip)
        assert (motion.name, motion.label, motion.subject) == (clip.name, clip.tags.label, clip.tags.subject)
    forward, backward = (benchmark.generate(data.clips[2 * number]) for number in (0, len(benchmark.NAMES)))
    assert forward.label == 1
    assert backward.label == 1 + len(benchmark.NAMES)


def test_a_shard_goes_through_all_stages(benchmark, tmp_path, monkeypatch):
    small = benchmark.MODEL.with_values({"views.azimuth": 15, "views.altitude": 0})
    monkeypatch.setattr(benchmark, "MODEL", small)
    monkeypatch.setattr(benchmark, "WAY", 3)
    monkeypatch.setattr(benchmark, "measure_parts", lambda learner: {})
    result = benchmark.measure(tmp_path, per_class=3, episodes=4, jobs=1, limit=1)
    assert result["prepare"]["clips"] == 360
    assert result["train"]["episodes"] == 4
    assert len(result["train"]["MB at the start and after each quarter"]) == 5
    assert result["evaluate"]["queries"] == len(get_protocol("ntu120-oneshot").rules.exemplars) == 20
