"""A command does each piece of work once: it reads, measures and encodes a recording once."""

from collections import Counter

import pytest
from movements import join_clips, open_clip
from typer.testing import CliRunner

from jeanie.cli.app import app
from jeanie.datasets.folders import open_folder
from jeanie.datasets.formats.npz import write_npz
from jeanie.encoders.block_encoder import BlockEncoder
from jeanie.fewshot import FewShotModel
from jeanie.recogniser.hits import rate_matches
from jeanie.recogniser.search.find import find
from jeanie.recogniser.search.windows import select_duration_steps
from jeanie.skeleton import LAYOUTS, Motion, plausibility


@pytest.fixture
def counts(monkeypatch):
    """Numbers of measured bodies and of calls of the encoder."""
    counts = Counter()
    for owner, name in ((plausibility, "_measure_body"), (BlockEncoder, "_check")):
        original = getattr(owner, name)

        def count(*arguments, name=name, original=original):
            counts[name] += 1
            return original(*arguments)

        monkeypatch.setattr(owner, name, count)
    return counts


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output


def test_enrol_and_recognise_measure_a_recording_once_and_enrol_encodes_it_once(tmp_path, counts):
    for take in (0, 1):
        write_npz(open_clip("wave", take=take, missing=0.1), tmp_path / f"{take}.npz")
    library = ("--library", tmp_path / "library.db")
    run("enrol", "wave", tmp_path / "0.npz", *library)
    assert counts == {"_measure_body": 1, "_check": 1}
    counts.clear()
    run("recognise", tmp_path / "1.npz", *library)
    assert counts["_measure_body"] == 1


def test_a_search_reads_a_recording_once_for_all_of_its_matches(tmp_path):
    joints, _ = join_clips([open_clip(action, 1) for action in ("wave", "clap", "wave")], pause=1.0)
    write_npz(Motion(joints, LAYOUTS["ntu25"], rate=30.0, name="long"), tmp_path / "long.npz")
    dataset, reads = open_folder(tmp_path), []
    read = dataset.read
    object.__setattr__(dataset, "read", lambda clip: reads.append(clip) or read(clip))
    model, example = FewShotModel.raw(), open_clip("wave")
    matches = find(model, example, dataset, k=4)
    assert len(select_duration_steps(len(example) / example.rate, 1.5)) > 1
    assert len(matches) > 1
    assert len(reads) == 2, "once for the windows of all durations, and once for all matches"
    reads.clear()
    rate_matches(model, example, dataset, matches)
    assert len(reads) == 1
