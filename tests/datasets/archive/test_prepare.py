"""``prepare``: the same archive however it was made, every dropped file listed, nothing left running."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from waiting import wait_for

from jeanie.datasets.archive.prepare import PUBLISHED, prepare
from jeanie.datasets.archive.reader import is_archive, open_archive
from jeanie.datasets.clip_names import Tags
from jeanie.datasets.dataset import Clip, FileDataset
from jeanie.datasets.formats.cmu import open_cmu
from jeanie.datasets.formats.csv_table import read_csv
from jeanie.errors import ConfigError, DataError, RecordingError
from jeanie.skeleton.layout import LAYOUTS

DATA = os.environ.get("JEANIE_DATA")
recordings = pytest.mark.skipif(DATA is None, reason="the recordings are not here: set JEANIE_DATA")


def read_clip(clip):
    return read_csv(clip.source, layout=LAYOUTS["core15"]).replace(label=clip.tags.label, name=clip.name)


def get_cell_folder(root, count, bad=()):
    """A data set of ``count`` small CSV files; those in ``bad`` hold no numbers."""
    root.mkdir(exist_ok=True)
    header = ",".join(f"{joint}_{axis}" for joint in LAYOUTS["core15"].joints for axis in "xyz")
    for at in range(count):
        rows = np.random.default_rng(at).normal(size=(3 + at % 4, 45))
        text = "\n".join(",".join(map(repr, row.tolist())) for row in rows)
        (root / f"{at:03}.csv").write_text(f"{header}\n{'nothing' if at in bad else text}\n")
    files = sorted(root.glob("*.csv"))
    clips = tuple(Clip(file.stem, file, Tags(label=at % 3)) for at, file in enumerate(files))
    return FileDataset("mine", LAYOUTS["core15"], clips, read_clip)


def contents(out):
    """The files of an archive, without the report, which knows the time it took."""
    return {path.name: path.read_bytes() for path in Path(out).iterdir() if path.name != "report.json"}


def test_an_archive_has_the_motions_of_the_data_set(tmp_path):
    dataset = get_cell_folder(tmp_path / "in", 7)
    calls = []
    report = prepare(dataset, tmp_path / "out", source="in", progress=lambda *at: calls.append(at))
    archive = open_archive(tmp_path / "out")
    assert archive.report == report
    assert (report["kept"], report["found"], report["published"], report["complete"]) == (7, 7, None, None)
    assert report["frames"] == sum(len(motion) for motion in dataset.motions)
    assert calls[-1] == (7, 7)
    for one, other in zip(archive, dataset.motions, strict=True):
        assert one.joints.numpy().tobytes() == other.joints.numpy().tobytes()
        assert (one.name, one.label) == (other.name, other.label)


@pytest.mark.processes
def test_the_number_of_processes_does_not_change_the_archive(tmp_path):
    dataset = get_cell_folder(tmp_path / "in", 40, bad=(5, 39))
    one = prepare(dataset, tmp_path / "one", jobs=1, skip_bad=True)
    two = prepare(dataset, tmp_path / "two", jobs=2, skip_bad=True)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert one["dropped"] == two["dropped"]
    assert (one["kept"], two["jobs"]) == (38, 2)


def test_every_dropped_file_is_listed_with_its_reason(tmp_path):
    dataset = get_cell_folder(tmp_path / "in", 6, bad=(2,))
    os.remove(dataset.clips[4].source)
    dataset = replace(dataset, dropped=(("999", "on the list of missing skeletons"),))
    report = prepare(dataset, tmp_path / "out", skip_bad=True)
    assert [one["name"] for one in report["dropped"]] == ["999", "002", "004"]
    assert report["dropped"][0]["reason"] == "on the list of missing skeletons"
    assert str(dataset.clips[2].source) in report["dropped"][1]["reason"]
    assert (report["found"], report["kept"]) == (7, 4)
    assert open_archive(tmp_path / "out").names == ("000", "001", "003", "005")


def test_the_report_says_whether_the_data_set_is_complete(tmp_path):
    dataset = replace(get_cell_folder(tmp_path / "in", 3), name="sbu")
    report = prepare(dataset, tmp_path / "out")
    assert (report["published"], report["found"], report["complete"]) == (PUBLISHED["sbu"], 3, False)


def test_after_a_bad_file_the_work_is_resumed(tmp_path):
    dataset = get_cell_folder(tmp_path / "in", 8, bad=(5,))
    with pytest.raises(RecordingError, match=r"005\.csv"):
        prepare(dataset, tmp_path / "out")
    assert not is_archive(tmp_path / "out")
    report = prepare(dataset, tmp_path / "out", skip_bad=True)
    assert (report["resumed"], report["kept"]) == (5, 7)
    assert os.listdir(tmp_path) in (["in", "out"], ["out", "in"])


def test_a_file_that_changed_is_read_again(tmp_path):
    dataset = get_cell_folder(tmp_path / "in", 8, bad=(5,))
    with pytest.raises(DataError):
        prepare(dataset, tmp_path / "out")
    source = dataset.clips[3].source
    source.write_text(source.read_text() + source.read_text().splitlines()[1] + "\n")
    report = prepare(dataset, tmp_path / "out", skip_bad=True)
    assert report["resumed"] == 3
    assert len(open_archive(tmp_path / "out")[3]) == len(dataset[3])


@pytest.mark.errors
def test_a_data_set_without_usable_clips_is_refused(tmp_path):
    with pytest.raises(DataError, match="no clips"):
        prepare(replace(get_cell_folder(tmp_path / "in", 1), clips=()), tmp_path / "out")
    with pytest.raises(DataError, match="none of 2 clips can be read"):
        prepare(get_cell_folder(tmp_path / "in", 2, bad=(0, 1)), tmp_path / "out", skip_bad=True)
    with pytest.raises(ConfigError, match="at least 1"):
        prepare(get_cell_folder(tmp_path / "in", 1), tmp_path / "out", jobs=0)
    assert not is_archive(tmp_path / "out")


SLOW = """
import sys, time
from jeanie.datasets.archive.prepare import prepare
from jeanie.datasets.dataset import Clip, FileDataset
from jeanie.skeleton.layout import LAYOUTS
from pathlib import Path
from slow_reader import slow

if __name__ == "__main__":
    clips = tuple(Clip(str(at), Path(__file__)) for at in range(4000))
    data = FileDataset("slow", LAYOUTS["core15"], clips, slow)
    prepare(data, sys.argv[1], jobs=2, progress=lambda done, total: print(done, flush=True))
"""
READER = """
import os, time
from pathlib import Path
import numpy as np
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

def slow(clip):
    Path(__file__).with_name(f"{os.getpid()}.pid").touch()
    time.sleep(0.01)
    return Motion(np.ones((2, 15, 3)), LAYOUTS["core15"])
"""


def is_running(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.processes
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see which processes run")
def test_a_kill_of_the_parent_leaves_no_process_behind(tmp_path):
    (tmp_path / "slow_reader.py").write_text(READER)
    (tmp_path / "go.py").write_text(SLOW)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "go.py"), str(tmp_path / "out")],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    while int(parent.stdout.readline()) < 20:
        pass
    readers = [int(file.stem) for file in tmp_path.glob("*.pid")]
    assert readers
    assert all(map(is_running, readers))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not any(map(is_running, readers)), "the end of the readers")
    assert not is_archive(tmp_path / "out")


@recordings
def test_cmu_is_complete(tmp_path):
    dataset = open_cmu(Path(DATA, "cmu"))
    small = replace(dataset, clips=dataset.clips[::50])
    report = prepare(small, tmp_path / "out")
    assert report["kept"] == 49
    assert (report["published"], len(dataset)) == (2425, 2425)
    archive = open_archive(tmp_path / "out")
    for at in (0, 17, 48):
        assert archive[at].joints.numpy().tobytes() == small[at].joints.numpy().tobytes()
