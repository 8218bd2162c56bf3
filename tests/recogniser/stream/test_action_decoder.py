"""The decoder of a stream finds the cheapest explanation by passes through examples."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from movements import cut_to_movement, join_clips, open_clip

from jeanie.recogniser.stream.action_decoder import ActionDecoder, ActionTemplates
from jeanie.recogniser.stream.pose_sampler import PoseSampler

OTHER, ENTER, DWELL, SKIP = 3.75, 2.5, 0.5, 0.2
OUTSIDE = -1


def list_paths(costs, lengths):
    """Yield the cost and the passes of every explanation of all ticks."""

    def advance(tick, state, begun, cost, passes):
        if tick == len(costs):
            row, pose = state
            done = [(row, begun, tick)] if row != OUTSIDE and pose == lengths[row] - 1 else []
            yield cost, passes + done
            return
        row, pose = state
        is_outside = row == OUTSIDE
        if not is_outside:
            for step in range(4):
                if pose + step < lengths[row]:
                    price = (SKIP * (step - 1) if step else DWELL) + costs[tick, row, pose + step]
                    yield from advance(tick + 1, (row, pose + step), begun, cost + price, passes)
        if is_outside or pose == lengths[row] - 1:
            ended = passes if is_outside else [*passes, (row, begun, tick)]
            yield from advance(tick + 1, (OUTSIDE, 0), tick, cost + OTHER, ended)
            for new, length in enumerate(lengths):
                for first in range(min(2, length)):
                    price = ENTER + costs[tick, new, first]
                    yield from advance(tick + 1, (new, first), tick, cost + price, ended)

    yield from advance(0, (OUTSIDE, 0), 0, 0.0, [])


def make_templates(lengths):
    features = np.zeros((len(lengths), max(lengths), 90))
    return ActionTemplates(
        tuple(map(str, range(len(lengths)))), features, np.array(lengths), np.ones(15), 15.0
    )


@pytest.mark.parametrize("seed", range(8))
def test_passes_are_those_of_the_cheapest_of_all_explanations(seed):
    rng = np.random.default_rng(seed)
    lengths = [2, 4]
    costs = rng.uniform(0, 6, (6, 2, 4))
    costs[:, 0, 2:] = np.inf
    decoder = ActionDecoder(make_templates(lengths), 100)
    for cost in costs:
        decoder.push(cost[None])
    _, expected = min(list_paths(costs, lengths), key=lambda path: path[0])
    found = [(int(one.label), one.start - 100, one.end - 100) for one in decoder.list_passes()]
    assert found == expected


def test_movements_without_rest_are_separated():
    """Another performer, one example each; the labels are those of the nearest poses."""
    actions = ("kick_forward", "bow", "squat", "kick_forward", "squat", "bow")
    clips = [cut_to_movement(open_clip(action, 1)) for action in actions]
    joints, truth = join_clips(clips, pause=0.0, blend=0.1)
    sampler = PoseSampler(clips[0].layout, 1, 30)
    poses = sampler.push(joints, torch.ones(joints.shape[:3], dtype=torch.bool)).poses[:, 0].double().numpy()
    examples = [(action, open_clip(action, 0)) for action in sorted(set(actions))]
    templates = ActionTemplates.from_motions(examples, sampler.rate, 30)
    decoder = ActionDecoder(templates, 0)
    decoder.push(templates.compute_costs(poses, poses[:1]))
    found = decoder.list_passes(finish=True)
    assert [one.label for one in found] == [label for _, _, label in truth]
    for one, (start, end, _) in zip(found, truth, strict=True):
        common = min(2 * one.end, end) - max(2 * one.start, start)
        assert common >= 0.5 * (max(2 * one.end, end) - min(2 * one.start, start))


def test_an_example_costs_nothing_at_its_own_poses_and_more_elsewhere():
    squat = open_clip("squat", 0)
    templates = ActionTemplates.from_motions([("squat", squat), ("bow", open_clip("bow", 0))], 15, 30)
    own = replace(
        templates, labels=("squat",), features=templates.features[:1], lengths=templates.lengths[:1]
    )
    poses = own.features[0, : own.lengths[0], :45].reshape(-1, 15, 3) / templates.scales[:, None]
    costs = templates.compute_costs(poses, poses[:1])
    np.testing.assert_allclose(np.diagonal(costs[:, 0]), 0, atol=1e-9)
    assert (costs[:, 1].min(1) > 1e-4).any()
    assert np.isinf(costs[:, templates.lengths < templates.features.shape[1]][..., -1]).all()


def test_rest_at_the_ends_of_an_example_is_cut_off():
    squat = open_clip("squat", 0)
    rest = squat.joints[:1].expand(60, -1, -1, -1)
    longer = squat.replace(joints=torch.cat([rest, squat.joints, rest]), valid=None)
    plain, padded = (
        ActionTemplates.from_motions([("squat", motion)], 15, 30).lengths[0] for motion in (squat, longer)
    )
    assert abs(int(plain) - int(padded)) <= 6
