"""A kill at any moment of ``prepare`` leaves the old or the new archive, and no work is done twice."""

import os
import subprocess
import sys

import numpy as np
import pytest

from jeanie.datasets.archive.reader import open_archive

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork"),
]

# A process that has everything loaded and forks a child for each line "out mode seed clips event line". The child
# prepares version ``seed`` of the archive. It kills itself at its ``event``-th access to the file system (an audit
# event or a sync) or before its ``line``-th line of code; 0 disables both. At its end the child writes one line to a
# pipe, "resumed lines". A child that is killed writes nothing or a part of the line, which does not count.
SERVER = """
import os, signal, sys, traceback
from functools import partial
from pathlib import Path
import numpy as np
from jeanie._internal import files
from jeanie.datasets.archive import writer as archive_writer
from jeanie.datasets.dataset import Clip, FileDataset
from jeanie.datasets.archive.prepare import prepare
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.scandir", "fsync"}
fsync = os.fsync

def read(seed, clip):
    joints = np.random.default_rng([seed, clip.index]).normal(size=(40, 1, 15, 3)).astype(np.float32)
    return Motion(joints, LAYOUTS["core15"], name=clip.name)

def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)

def work(out, mode, seed, clips, last_event, last_line):
    archive_writer._SYNC_CLIPS, archive_writer._SYNC_SECONDS = 4, float("inf")
    if mode == "steps":
        files._swap = lambda first, second: False
    events, lines = [0], [0]

    def count_event(name, arguments):
        if name in EVENTS:
            events[0] += 1
            if events[0] == last_event:
                kill_self()

    def count_fsync(descriptor):
        count_event("fsync", ())
        fsync(descriptor)

    def count_line(frame, event, argument):
        if "jeanie" not in frame.f_code.co_filename:
            return None
        if event == "line":
            lines[0] += 1
            if lines[0] == last_line:
                kill_self()
        return count_line

    entries = tuple(Clip(f"{seed}/{index}", Path("nowhere"), index=index) for index in range(clips))
    dataset = FileDataset(f"version {seed}", LAYOUTS["core15"], entries, partial(read, seed))
    os.fsync = count_fsync
    sys.addaudithook(count_event)
    sys.settrace(count_line if last_line >= 0 else None)
    report = prepare(dataset, out)
    sys.settrace(None)
    return report["resumed"], lines[0]

print("ready", flush=True)
for line in sys.stdin:
    out, mode, *numbers = line.split()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, "{} {}\\n".format(*work(out, mode, *map(int, numbers))).encode())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        report = pipe.read()
    _, status = os.waitpid(child, 0)
    ended = "killed" if os.WIFSIGNALED(status) else "failed" if status else "done"
    print(ended, report.decode().strip() if report.endswith(b"\\n") else "", flush=True)
"""


class Server:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self.process.stdout.readline().strip() == "ready"

    def run(self, out, mode, seed, clips, event=0, line=-1):
        """Return how the child ended, how many clips it resumed and its number of lines (None if unknown)."""
        self.process.stdin.write(f"{out} {mode} {seed} {clips} {event} {line}\n")
        self.process.stdin.flush()
        ended, *numbers = self.process.stdout.readline().split()
        assert ended in ("done", "killed")
        resumed, lines = map(int, numbers) if numbers else (None, None)
        return ended, resumed, lines

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.close()


def read_version(out, clips):
    """Return the seed of the archive at ``out`` after a check that it is complete and undamaged."""
    archive = open_archive(out)
    seed = int(archive.name.removeprefix("version "))
    assert [archive.get_name(index) for index in range(len(archive))] == [f"{seed}/{i}" for i in range(clips)]
    for index in range(clips):
        expected = np.random.default_rng([seed, index]).normal(size=(40, 1, 15, 3)).astype(np.float32)
        assert archive.get_joints(index).numpy().tobytes() == expected.tobytes()
    assert archive.find_damaged() == []
    return seed


@pytest.mark.parametrize("mode", ["swap", "steps"])
def test_a_kill_at_every_access_to_the_file_system_leaves_the_old_or_the_new_archive(server, tmp_path, mode):
    out, clips = tmp_path / "a", 10
    assert server.run(out, mode, 0, clips)[0] == "done"
    old, outcomes = 0, []
    for event in range(1, 200):
        ended, _, _ = server.run(out, mode, event, clips, event=event)
        version = read_version(out, clips)
        assert version in (old, event)
        outcomes.append((ended, version == event))
        old = version
        if ended == "done":
            break
    assert outcomes[-1] == ("done", True)
    assert outcomes.count(("killed", False)) > 20
    assert ("killed", True) in outcomes
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("mode", ["swap", "steps"])
def test_a_kill_before_a_random_line_of_code_leaves_the_old_or_the_new_archive(server, tmp_path, mode):
    out, clips = tmp_path / "a", 30
    ended, _, lines = server.run(out, mode, 0, clips, line=0)
    assert ended == "done"
    random = np.random.default_rng(11)
    old, killed = 0, 0
    for seed in range(1, 21):
        line = int(random.integers(1, 1.2 * lines))
        killed += server.run(out, mode, seed, clips, line=line)[0] == "killed"
        version = read_version(out, clips)
        assert version in (old, seed)
        old = version
    assert killed > 3


def test_a_killed_run_is_resumed_after_its_last_synced_clip_with_the_same_result(server, tmp_path):
    resumed_counts = set()
    for event in range(4, 40, 3):
        out = tmp_path / f"a{event}"
        if server.run(out, "swap", 1, 20, event=event)[0] == "killed" and not out.exists():
            ended, resumed, _ = server.run(out, "swap", 1, 20)
            assert (ended, read_version(out, 20)) == ("done", 1)
            resumed_counts.add(resumed)
    assert {0, 4, 8, 12, 16, 20} <= resumed_counts
    assert server.run(tmp_path / "plain", "swap", 1, 20)[0] == "done"
    parts = ("joints.npy", "valid.npy", "names.npy", "index.npy", "archive.json")
    contents = [[(folder / part).read_bytes() for part in parts] for folder in tmp_path.iterdir()]
    assert all(content == contents[0] for content in contents)
