"""A training that another process has continued writes no more."""

import pytest
from training_cases import run_training

from jeanie.training.run import Run, TrainingReplaced


def list_files(folder):
    """Return the bytes of what a training must not overwrite."""
    files = [*folder.rglob("*.safetensors"), *folder.rglob("state.json"), folder / "run.json"]
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("episode", [2, 6], ids=["before the first checkpoint", "after it"])
def test_a_training_that_was_replaced_stops_before_its_next_write(episode, tmp_path):
    whole = run_training(tmp_path / "whole")
    written = {}

    def continue_elsewhere(progress):
        if progress.episode == episode and not written:
            written.update({tmp_path: b""})
            run_training(tmp_path / "parts", resume=True)
            written.update(list_files(tmp_path / "parts"))

    with pytest.raises(TrainingReplaced, match="another process continues this training"):
        run_training(tmp_path / "parts", progress=continue_elsewhere)
    del written[tmp_path]
    assert list_files(tmp_path / "parts") == written
    parts = Run.load(tmp_path / "parts")
    assert len({session["attempt"] for session in parts.facts["sessions"]}) == 2
    for path in whole.path.rglob("*.safetensors"):
        assert path.read_bytes() == (parts.path / path.relative_to(whole.path)).read_bytes()
