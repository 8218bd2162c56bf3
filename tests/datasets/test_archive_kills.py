"""A kill at any moment of ``prepare`` leaves the old or the new archive, and no work is done twice."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from jeanie.datasets.archive import open_archive

# A process that has everything loaded and forks a child for each line "out mode seed clips delay event". The
# child prepares version ``seed`` of the archive. Its parent kills it after ``delay`` seconds, or it kills
# itself at its ``event``-th touch of the file system (an audit event, or a sync).
SERVER = """
import os, signal, sys, time
from functools import partial
from pathlib import Path
import numpy as np
from jeanie.datasets import archive_writer, swap
from jeanie.datasets.dataset import Clip, Clips
from jeanie.datasets.prepare import prepare
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion

TOUCHES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.scandir", "fsync"}
fsync = os.fsync

def read(seed, clip):
    joints = np.random.default_rng([seed, clip.index]).normal(size=(40, 1, 15, 3)).astype(np.float32)
    return Motion(joints, LAYOUTS["core15"], name=clip.name)

def work(out, mode, seed, clips, event):
    archive_writer._SYNC_CLIPS = 4
    if mode == "steps":
        swap._exchanged = lambda one, other: False
    left = [event]

    def touch(name, arguments):
        if name in TOUCHES:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def synced(handle):
        touch("fsync", ())
        fsync(handle)

    listed = tuple(Clip(f"{seed}/{at}", Path("nowhere"), index=at) for at in range(clips))
    dataset = Clips(f"version {seed}", LAYOUTS["core15"], listed, partial(read, seed))
    os.fsync = synced
    sys.addaudithook(touch)
    print("resumed", prepare(dataset, out)["resumed"], flush=True)

print("ready", flush=True)
for line in sys.stdin:
    out, mode, seed, clips, delay, event = line.split()
    child = os.fork()
    if child == 0:
        try:
            work(out, mode, int(seed), int(clips), int(event))
        finally:
            os._exit(0)
    if float(delay) >= 0:
        time.sleep(float(delay))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else "done", flush=True)
"""


class Server:
    def __init__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", SERVER]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout.readline().strip() == "ready"

    def run(self, out, mode, seed, clips, delay=-1.0, event=0):
        """How the child ended, and how many clips it took over (None if it did not get so far)."""
        self.process.stdin.write(f"{out} {mode} {seed} {clips} {delay} {event}\n")
        self.process.stdin.flush()
        resumed = None
        while (said := self.process.stdout.readline().split())[0] == "resumed":
            resumed = int(said[1])
        return said[0], resumed

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    made.close()


def whole(out, clips):
    """Seed of the version that lies at ``out``, after a check that it is complete and undamaged."""
    archive = open_archive(out)
    seed = int(archive.name.removeprefix("version "))
    assert [archive.clip_name(at) for at in range(len(archive))] == [f"{seed}/{at}" for at in range(clips)]
    for at in range(clips):
        expected = np.random.default_rng([seed, at]).normal(size=(40, 1, 15, 3)).astype(np.float32)
        assert archive.clip(at).numpy().tobytes() == expected.tobytes()
    assert archive.damaged() == []
    return seed


@pytest.mark.parametrize("mode", ["swap", "steps"])
def test_a_kill_at_every_touch_of_the_file_system_leaves_the_old_or_the_new_archive(server, tmp_path, mode):
    out, clips = tmp_path / "a", 10
    assert server.run(out, mode, 0, clips)[0] == "done"
    old, outcomes = 0, []
    for event in range(1, 200):
        ended, _ = server.run(out, mode, event, clips, event=event)
        found = whole(out, clips)
        assert found in (old, event)
        outcomes.append((ended, found == event))
        old = found
        if ended == "done":
            break
    assert outcomes[-1] == ("done", True)
    assert outcomes.count(("killed", False)) > 20
    assert ("killed", True) in outcomes
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("mode", ["swap", "steps"])
def test_a_kill_at_a_random_moment_leaves_the_old_or_the_new_archive(server, tmp_path, mode):
    out, clips = tmp_path / "a", 30
    start = time.perf_counter()
    assert server.run(out, mode, 0, clips)[0] == "done"
    usual = time.perf_counter() - start
    random = np.random.default_rng(11)
    old, killed = 0, 0
    for seed in range(1, 21):
        killed += server.run(out, mode, seed, clips, delay=random.uniform(0, 1.2 * usual))[0] == "killed"
        found = whole(out, clips)
        assert found in (old, seed)
        old = found
    assert killed > 3


def test_what_a_killed_run_had_done_is_not_done_again_and_the_result_is_the_same(server, tmp_path):
    taken = set()
    for event in range(4, 40, 3):
        out = tmp_path / f"a{event}"
        if server.run(out, "swap", 1, 20, event=event)[0] == "killed" and not out.exists():
            ended, resumed = server.run(out, "swap", 1, 20)
            assert (ended, whole(out, 20)) == ("done", 1)
            taken.add(resumed)
    assert {0, 4, 8, 12, 16, 20} <= taken
    assert server.run(tmp_path / "plain", "swap", 1, 20)[0] == "done"
    parts = ("joints.npy", "valid.npy", "names.npy", "index.npy", "archive.json")
    files = [[(folder / part).read_bytes() for part in parts] for folder in tmp_path.iterdir()]
    assert all(found == files[0] for found in files)
