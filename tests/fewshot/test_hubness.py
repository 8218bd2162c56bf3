"""Supports that are near to all known motions are held back, by distances that loops compute one by one."""

import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.fewshot import Features, FewShotModel
from jeanie.fewshot.hubness import HubnessCorrection
from jeanie.recogniser.background import BackgroundSet
from jeanie.recogniser.search.windows import project_features
from jeanie.skeleton import Motion


@pytest.fixture(scope="module")
def clips():
    return list(open_synthetic(subjects=2, takes=1, cameras=1).motions)[::6][:24]


@pytest.fixture(scope="module")
def model():
    return FewShotModel.load()


def random_features(clips, generator, paired=None):
    values, second = torch.randn(2, clips, 5, 3, generator=generator, dtype=torch.float64)
    counts = torch.full((clips,), 5)
    if paired is None:
        return Features(values, counts)
    return Features(values, counts, second=second, paired=torch.tensor(paired))


def compute_blockwise_distance(one, other):
    """Mean squared distance of two motions, block by block."""
    return sum(float(((a - b) ** 2).sum()) for a, b in zip(one, other, strict=True)) / len(one)


@pytest.mark.parametrize("power", [0.5, 2.0])
def test_the_factor_is_that_of_the_mean_distance_to_known_motions(power):
    generator = torch.Generator().manual_seed(0)
    known, supports = random_features(7, generator), random_features(4, generator)
    correction = HubnessCorrection(5, 3, power).double()
    correction.learn([known[:3], known[3:]])
    among = [sum(compute_blockwise_distance(a, b) for b in known.values) / 7 for a in known.values]
    expected = [
        (sum(among) / 7 / (sum(compute_blockwise_distance(s, k) for k in known.values) / 7)) ** power
        for s in supports.values
    ]
    assert correction.factor(supports).tolist() == pytest.approx(expected)


def test_of_two_persons_both_count():
    generator = torch.Generator().manual_seed(1)
    known = random_features(4, generator, [True, False, True, False])
    people = [*known.values, known.second[0], known.second[2]]
    correction = HubnessCorrection(5, 3, 1.0).double()
    correction.learn([known])
    mean = sum(compute_blockwise_distance(a, b) for a in people for b in people) / 36

    def measure_person(person):
        return sum(compute_blockwise_distance(person, other) for other in people) / 6

    expected = [
        mean / ((measure_person(one) + measure_person(two)) / 2 if both else measure_person(one))
        for one, two, both in zip(known.values, known.second, known.paired, strict=True)
    ]
    assert correction.factor(known).tolist() == pytest.approx(expected)


def test_distances_are_those_of_the_model_times_the_factor_of_the_support(model, clips):
    knowing = model.with_hubness_correction(clips[:8], hubness=0.7)
    plain, held = model.distances(clips[8:], clips[6:]), knowing.distances(clips[8:], clips[6:])
    factor = knowing.features(knowing.collate(clips[6:]), "support").factor
    assert_close(held, plain * factor)
    assert 0.01 < float(factor.detach().std()) < 1
    weights = knowing.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert model.config.hubness == 0


def test_a_support_at_the_heart_of_what_is_known_is_held_back_most(model, clips):
    knowing = model.with_hubness_correction(clips)
    features = knowing.features(knowing.collate(clips), "support")
    factor, mean = features.factor.detach(), model.distances(clips, clips).mean(0)
    assert mean[factor.argmax()] < mean.median() < mean[factor.argmin()]
    assert 0.8 < float(factor.mean()) < 1.25


def test_models_beside_and_prototypes_are_held_back_too(model, clips):
    raw = FewShotModel.raw().config.with_values(components=())
    fused = model.with_config(components=(raw,), unit=2.0)
    knowing = fused.with_hubness_correction(clips)
    factor = model.with_hubness_correction(clips).features(model.collate(clips), "support").factor
    assert_close(knowing.distances(clips, clips), fused.distances(clips, clips) * factor)
    means = model.with_config({"align.classes": "prototype", "align.persons": "mean"})
    knowing = means.with_hubness_correction(clips)
    support = knowing.features(knowing.collate(clips), "support")
    classes = knowing.prototypes(support, torch.arange(12).repeat_interleave(2), 12)
    assert_close(classes.factor, knowing.hubness_correction.factor(Features(classes.values, classes.counts)))


def test_it_is_saved_and_taken_off(model, clips, tmp_path):
    knowing = model.with_hubness_correction(clips)
    knowing.save(tmp_path)
    again = FewShotModel.load(tmp_path)
    assert again.config.hubness == 0.5
    assert_close(again.distances(clips[:3], clips), knowing.distances(clips[:3], clips), rtol=0, atol=0)
    bare = again.with_config(hubness=0.0)
    assert_close(bare.distances(clips[:3], clips), model.distances(clips[:3], clips), rtol=0, atol=0)


def test_views_of_queries_do_not_matter(model, clips):
    seen = model.with_config({"views.kind": "euler", "views.altitude": 0, "views.azimuth": 15})
    knowing = seen.with_hubness_correction(clips)
    assert knowing.features(knowing.collate(clips[:2]), "query").factor is None
    factor = knowing.features(knowing.collate(clips[:2]), "support").factor
    assert_close(knowing.distances(clips[5:7], clips[:2]), seen.distances(clips[5:7], clips[:2]) * factor)


def test_features_keep_their_factor_wherever_they_go(model, clips):
    knowing = model.with_hubness_correction(clips)
    background_set = BackgroundSet.from_motions(knowing, clips[:6])
    basis = torch.linalg.qr(torch.randn(knowing.encoder.features, 8))[0]
    coarse = project_features(background_set.support, basis)
    assert coarse.factor is background_set.support.factor
    near = knowing.compare(project_features(background_set.support, basis), coarse)
    assert bool((near <= knowing.compare(background_set.support, background_set.support) + 1e-5).all())
    joined = Features.cat([background_set.support[:2], background_set.support[2:]])
    assert_close(joined.factor, background_set.support.factor)


@pytest.mark.errors
def test_a_correction_that_cannot_be_made_is_an_error(model, clips):
    with pytest.raises(ConfigError, match="hubness is an exponent above 0"):
        model.with_hubness_correction(clips, hubness=0.0)
    with pytest.raises(DataError, match="two motions or more, got 1"):
        model.with_hubness_correction(clips[:1])
    with pytest.raises(DataError, match="two motions or more, got 0"):
        model.with_hubness_correction([])
    with pytest.raises(ConfigError, match="motions of one length"):
        FewShotModel.raw().with_config(components=()).with_config(
            {"inputs.prepare.body": "recorded"}
        ).with_config({"inputs.prepare.frames": None}).with_hubness_correction(clips)
    with pytest.raises(ShapeError, match=r"\(block, feature\) = \(5, 3\), got shape \(2, 4, 3\)"):
        HubnessCorrection(5, 3, 0.5).learn([Features(torch.zeros(2, 4, 3), torch.tensor([4, 4]))])


def test_known_motions_that_are_all_the_same_leave_distances_finite(model, clips):
    """Copies of one motion: nothing deviates, and every factor would divide 0 by 0."""
    same: list[Motion] = [clips[0], clips[0]]
    knowing = model.with_hubness_correction(same)
    factor = knowing.features(knowing.collate(clips), "support").factor
    assert bool(factor.isfinite().all())
