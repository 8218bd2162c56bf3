"""Motions become padded batches, and batches blocks from every view, as they would one by one."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from jeanie.errors import ConfigError, DataError
from jeanie.fewshot.inputs import Batch, InputConfig, PrepareConfig, Store, arrange, prepare
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.views import EulerViews

LAYOUT = LAYOUTS["kinect20"]


def motion(frames: int, persons: int = 1, seed: int = 0, missing: bool = False) -> Motion:
    generator = torch.Generator().manual_seed(seed)
    joints = torch.randn(frames, persons, len(LAYOUT), 3, generator=generator) + 1
    valid = torch.ones(joints.shape[:-1], dtype=torch.bool)
    if missing:
        valid[:, :, 7] = False
    return Motion(joints, LAYOUT, rate=30, valid=valid)


def collate(motions: list[Motion], config: PrepareConfig) -> Batch:
    return Store(motions, config)[range(len(motions))]


def test_the_torso_is_the_origin_of_every_frame():
    joints = prepare(motion(9), PrepareConfig()).joints
    assert_close(joints[:, 0, LAYOUT.torso], torch.zeros(9, 3))


def test_the_start_is_the_origin_of_the_whole_clip():
    given = motion(9)
    joints = prepare(given, PrepareConfig(centre="start")).joints
    assert_close(joints, given.joints - given.joints[0, 0, LAYOUT.root])


def test_a_missing_joint_may_be_taken_at_the_origin():
    given = motion(9, missing=True)
    kept = prepare(given, PrepareConfig(centre="start", missing="zero"))
    assert_close(kept.joints[:, 0, 7], (-given.joints[0, 0, LAYOUT.root]).expand(9, 3))
    assert bool(kept.valid.all())
    assert not prepare(given, PrepareConfig(centre="start")).joints[:, 0, 7].any()


def test_bone_lengths_make_the_unit():
    small = prepare(motion(9), PrepareConfig(size="bones")).joints.double().numpy()
    lengths = [np.linalg.norm(small[f, 0, b] - small[f, 0, a]) for f in range(9) for a, b in LAYOUT.bones]
    assert np.mean(lengths) == pytest.approx(0.25, abs=1e-5)


def test_the_liveliest_persons_are_kept():
    given = motion(9, persons=3)
    still = given.joints.clone()
    still[:, 1] = still[:1, 1]
    kept = prepare(given.replace(joints=still), PrepareConfig(persons=2))
    assert kept.joints.shape[1] == 2


def test_a_rate_and_a_number_of_frames_resample():
    assert len(prepare(motion(31), PrepareConfig(rate=15)).joints) == 16
    assert len(prepare(motion(31), PrepareConfig(frames=12)).joints) == 12


def test_padding_persons_and_frames_hold_zero_and_do_not_count():
    batch = collate([motion(5, persons=2), motion(9)], PrepareConfig(centre="none"))
    assert batch.joints.shape == (2, 2, 9, len(LAYOUT), 3)
    assert batch.frames.tolist() == [5, 9]
    assert batch.people.tolist() == [[True, True], [True, False]]
    assert not batch.joints[0, :, 5:].any()
    assert not batch.valid[1, 1].any()


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("streams", [("joints",), ("joints", "motion", "deviation"), ("bones",)])
@pytest.mark.parametrize("scale", ["axis", "body", "none"])
def test_a_clip_in_a_batch_is_as_it_is_alone(scale, streams, missing):
    config = InputConfig(scale=scale, streams=streams, block=4, stride=0.5)
    views = EulerViews(30, 15)
    motions = [motion(5, seed=1, missing=missing), motion(17, seed=2), motion(9, seed=3, missing=missing)]
    together, counts = arrange(collate(motions, config.prepare), config, views)
    for i, one in enumerate(motions):
        alone, count = arrange(collate([one], config.prepare), config, views)
        assert counts[i] == count[0] == alone.shape[4]
        assert_close(together[i, ..., : counts[i], :, :, :], alone[0])


def test_blocks_hold_frames_of_the_scaled_views():
    """An oracle of scalar steps: centre, turn, divide by the largest, cut."""
    config = InputConfig(block=4, stride=0.5)
    given = motion(7)
    found, _ = arrange(collate([given], config.prepare), config, EulerViews(15, 0))
    joints = given.joints[:, 0].double().numpy()
    joints = joints - joints[:, LAYOUT.torso][:, None]
    angle = np.deg2rad(-15)
    turned = (
        joints
        @ np.array([[np.cos(angle), 0, -np.sin(angle)], [0, 1, 0], [np.sin(angle), 0, np.cos(angle)]]).T
    )
    scaled = turned / np.abs(turned).max((0, 1))
    for block, start in enumerate((0, 2, 3)):
        assert_close(
            found[0, 0, 0, 0, block].double(), torch.from_numpy(scaled[start : start + 4]), atol=1e-5, rtol=0
        )


def test_gains_multiply_their_stream():
    config = InputConfig(streams=("joints", "motion"), gains=(1.0, 4.0), scale="none", block=1, stride=1)
    plain, _ = arrange(collate([motion(6)], config.prepare), config.with_values(gains=()), None)
    louder, _ = arrange(collate([motion(6)], config.prepare), config, None)
    assert_close(louder, torch.cat([plain[..., :3], 4 * plain[..., 3:]], -1))


def test_a_block_that_faces_the_camera_has_its_shoulders_across():
    config = InputConfig(block=4, stride=1.0, scale="none", block_facing=True)
    found, _ = arrange(collate([motion(8)], config.prepare), config, None)
    left, right = (
        [LAYOUT.index(f"{side}_{part}") for part in ("shoulder", "hip")] for side in ("left", "right")
    )
    line = (found[0, 0, :, :, right] - found[0, 0, :, :, left]).sum((1, 2))
    assert_close(line[:, 2], torch.zeros(2), atol=1e-5, rtol=0)
    assert bool((line[:, 0] > 0).all())


class Counted(list):
    """Motions that know how often each was read."""

    def __init__(self, motions):
        super().__init__(motions)
        self.reads = [0] * len(motions)

    def __getitem__(self, index):
        self.reads[index] += 1
        return super().__getitem__(index)


@pytest.mark.plain  # the hook looks into sequences, which counts as reading
def test_a_store_prepares_a_clip_once_and_within_its_limit():
    clips = Counted([motion(5, seed=i) for i in range(3)])
    store = Store(clips, PrepareConfig())
    first = store[[0, 2]]
    again = store[torch.tensor([2, 0])]
    assert clips.reads == [1, 0, 1]
    assert torch.equal(first.joints[0], again.joints[1])
    tight = Store(clips, PrepareConfig(), limit=0)
    assert torch.equal(tight[[0]].joints, tight[[0]].joints)
    assert clips.reads[0] == 3


def test_threads_take_turns_in_preparing_motions():
    class Slow(list):
        """Motions that count how many threads read at the same time."""

        reading, most, reads = 0, 0, 0

        def __getitem__(self, index):
            self.reading, self.reads = self.reading + 1, self.reads + 1
            self.most = max(self.most, self.reading)
            time.sleep(0.01)
            self.reading -= 1
            return super().__getitem__(index)

    clips = Slow([motion(5, seed=i) for i in range(4)])
    store = Store(clips, PrepareConfig())
    with ThreadPoolExecutor(4) as threads:
        batches = list(threads.map(store.__getitem__, [[0, 1], [1, 2], [2, 3], [3, 0]]))
    assert (clips.most, clips.reads) == (1, 4)
    assert_close(batches[0].joints[1], batches[1].joints[0], rtol=0, atol=0)


@pytest.mark.errors
def test_what_cannot_be_batched_is_said():
    other = Motion(torch.ones(3, 25, 3), LAYOUTS["ntu25"])
    with pytest.raises(DataError, match=r"the same layout, got kinect20 and ntu25.*core15"):
        collate([motion(3), other], PrepareConfig())
    assert len(collate([motion(3), other], PrepareConfig(layout="core15"))) == 2
    with pytest.raises(DataError, match="at least one motion"):
        collate([], PrepareConfig())
    with pytest.raises(ConfigError, match="no layout 'cor'"):
        prepare(motion(3), PrepareConfig(layout="cor"))
    with pytest.raises(ConfigError, match="gains needs one factor for each of the 1 streams, got 2"):
        InputConfig(gains=(1.0, 2.0))
