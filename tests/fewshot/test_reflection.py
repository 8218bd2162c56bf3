"""Queries in a mirror: people use either hand, and a model may let the mirror image count at a price."""

import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError
from jeanie.fewshot import Features, FewShotModel
from jeanie.recogniser.search.windows import project_features
from jeanie.skeleton import LAYOUTS, Motion

FACTOR = 1.5


@pytest.fixture(scope="module")
def clips() -> list[Motion]:
    """Some of one person, one of two, some mirrored."""
    names = ["wave", "kick_forward", "shake_hands", "throw", "turn_left"]
    motions = open_synthetic(subjects=2, takes=1, cameras=2, actions=names).motions
    return [clip.mirror() if at % 3 == 0 else clip for at, clip in enumerate(motions)]


def models() -> dict[str, FewShotModel]:
    shipped, raw = (
        FewShotModel.load().with_config(mirror_penalty=None),
        FewShotModel.raw().with_config(mirror_penalty=None),
    )
    return {
        "shipped": shipped,
        "raw, three beside each other": raw,
        "as recorded": FewShotModel.raw("dtw").with_config({"inputs.prepare.layout": "core15"}),
        "with views": shipped.with_config({"views.kind": "euler", "views.altitude": 0, "views.azimuth": 15}),
        "knows motions": shipped.with_config(hubness=0.5),
    }


@pytest.mark.parametrize("name", models())
def test_the_distance_is_the_lesser_of_two_recordings(name, clips):
    """The oracle mirrors the recordings themselves, before anything else is done to them."""
    plain = models()[name]
    if plain.hubness_correction is not None:
        plain = plain.with_config(hubness=0.0).with_hubness_correction(clips)
    both = plain.with_config(mirror_penalty=FACTOR).eval()
    as_is = plain.distances(clips, clips)
    image = plain.distances([clip.mirror() for clip in clips], clips)
    expected = torch.minimum(as_is, FACTOR * image)
    assert_close(both.distances(clips, clips), expected, rtol=1e-3, atol=1e-4)
    assert 0 < float((expected < as_is).float().mean()) < 1, "both kinds are among these"


def test_without_a_factor_nothing_is_reflected(clips):
    model = FewShotModel.load().with_config(mirror_penalty=None)
    assert model.features(model.collate(clips[:2]), "query").mirrored is None


def test_only_queries_are_reflected_and_none_in_training(clips):
    model = FewShotModel.load().with_config(mirror_penalty=FACTOR).eval()
    batch = model.collate(clips[:2])
    assert model.features(batch, "query").mirrored is not None
    assert model.features(batch, "support").mirrored is None
    assert model.train().features(batch, "query").mirrored is None


def test_a_batch_reflected_twice_is_itself(clips):
    model = FewShotModel.raw()
    batch = model.collate(clips)
    again = batch.mirror().mirror()
    assert torch.equal(again.joints, batch.joints)
    assert torch.equal(again.valid, batch.valid)
    assert not torch.equal(batch.mirror().joints, batch.joints)
    assert len(again.components) == len(batch.components) > 0


def test_a_factor_of_one_makes_a_query_and_its_image_alike(clips):
    model = FewShotModel.load().with_config(mirror_penalty=1.0).eval()
    images = [clip.mirror() for clip in clips]
    assert_close(model.distances(clips, clips), model.distances(images, clips), rtol=1e-3, atol=1e-4)


def test_the_path_is_that_of_the_image_where_it_is_nearer(clips):
    model = FewShotModel.load().with_config(mirror_penalty=FACTOR).eval()
    plain = model.with_config(mirror_penalty=None).eval()
    wave = clips[1]
    assert not model.is_mirrored_match(wave, wave)
    assert model.is_mirrored_match(wave.mirror(), wave)
    assert not plain.is_mirrored_match(wave.mirror(), wave)
    assert float(model.trace(wave.mirror(), wave).distance) < 1e-3
    assert float(plain.trace(wave.mirror(), wave).distance) > 1.0
    assert model.match_persons(wave.mirror(), wave) == ((0, 0),)


def test_features_keep_their_image_wherever_they_go(clips):
    model = FewShotModel.load().with_config(mirror_penalty=FACTOR).eval()
    with torch.no_grad():
        query = model.features(model.collate(clips), "query")
        support = model.features(model.collate(clips), "support")
        joined = Features.cat([query[:3], query[3:]])
        assert_close(model.compare(joined, support), model.compare(query, support), rtol=0, atol=0)
        basis = torch.linalg.qr(torch.randn(model.encoder.features, 8))[0]
        bound = model.compare(project_features(query, basis), project_features(support, basis))
    assert bool((bound <= model.compare(query, support) + 1e-5).all())


def test_it_is_kept_in_a_file(clips, tmp_path):
    model = FewShotModel.load().with_config(mirror_penalty=1.25).eval()
    model.save(tmp_path)
    again = FewShotModel.load(tmp_path)
    assert again.config.mirror_penalty == 1.25
    assert_close(again.distances(clips[:2], clips), model.distances(clips[:2], clips), rtol=0, atol=0)


def test_two_hands_that_are_two_actions_are_still_told_apart():
    """Left and right waves, both enrolled: a mirror image has to be a third nearer to win."""
    model = FewShotModel.load().with_config(mirror_penalty=FACTOR).eval()
    waves = open_synthetic(subjects=6, takes=1, cameras=1, actions=["wave"], noise=0, missing=0).motions
    rights = [wave for wave in waves if _moves_more(wave, "right_hand", "left_hand")]
    example, *queries = rights
    assert len(queries) >= 3
    table = model.distances([*queries, *(one.mirror() for one in queries)], [example, example.mirror()])
    assert table.argmin(1).tolist() == [0] * len(queries) + [1] * len(queries)


def _moves_more(motion: Motion, one: str, other: str) -> bool:
    spread = motion.joints[:, 0].std(0).norm(dim=-1)
    names = LAYOUTS[motion.layout.name]
    return bool(spread[names.index(one)] > spread[names.index(other)])


@pytest.mark.errors
def test_a_factor_below_one_is_refused():
    with pytest.raises(ConfigError, match="mirror_penalty"):
        FewShotModel.raw().with_config(mirror_penalty=0.5)
