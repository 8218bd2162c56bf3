"""Encoders and base distances from outside: they train, save and load, and only code that is named is imported."""

import json
import subprocess
import sys
from functools import partial

import pytest
import tiny_task
import torch
from own_parts import Crooked, JointMlp, manhattan
from torch.testing import assert_close

import jeanie
from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.fewshot.model import FewShotModel
from jeanie.training.config import TrainConfig
from jeanie.training.train import train

CLIPS = [tiny_task.dataset()[number] for number in (0, 1, 7, 12)]
PATH = "own_parts:JointMlp"
EXACT = partial(torch.cdist, compute_mode="donot_use_mm_for_euclid_dist")


def own_model(**parts):
    config = tiny_task.model_config()
    torch.manual_seed(0)
    return FewShotModel(config, tiny_task.LAYOUT, **{"encoder": JointMlp, **parts}).eval()


def test_an_encoder_gives_the_features_of_its_module():
    model = own_model()
    batch = model.collate(CLIPS)
    features = model.features(batch, "support")
    assert features.values.shape[-1] == 6
    inner = model.encoder.net.module
    blocks = jeanie.fewshot.inputs.arrange(batch, model.config.inputs, None)[0]
    for clip, count in enumerate(features.counts.tolist()):
        assert_close(features.values[clip, :count], inner(blocks[clip, 0, :count]))
        assert features.values[clip, count:].count_nonzero() == 0  # padding is not encoded


def test_a_module_a_class_and_a_path_make_the_same_model():
    module = JointMlp(tiny_task.LAYOUT, 4, 6)
    model = FewShotModel(tiny_task.model_config(), tiny_task.LAYOUT, encoder=module).eval()
    assert model.config.encoder.module == PATH
    assert model.config.encoder.options is None  # given as an object, so its arguments are not known
    assert own_model().config.encoder.options == {}
    named = tiny_task.model_config().with_values(
        {"encoder.kind": "custom", "encoder.module": PATH, "encoder.options": {"width": 3}}
    )
    built = FewShotModel(named, tiny_task.LAYOUT, encoder=PATH)
    assert built.encoder.features == built.config.encoder.features == 3


def test_a_saved_model_names_its_parts_and_loads_only_with_permission(tmp_path):
    model = own_model(metric=manhattan)
    expected = model.distances(CLIPS[:2], CLIPS)
    model.save(tmp_path)
    record = json.loads((tmp_path / "model.json").read_text())["config"]
    assert record["encoder"] == {"kind": "custom", "module": PATH, "options": {}, "features": 6}
    assert record["align"]["metric"] == "own_parts:manhattan"
    with pytest.raises(
        ConfigError, match=r"only code that you name is imported.*--encoder own_parts:JointMlp"
    ):
        FewShotModel.load(tmp_path)
    with pytest.raises(ConfigError, match="--metric own_parts:manhattan"):
        FewShotModel.load(tmp_path, encoder=PATH)
    with pytest.raises(ConfigError, match="got other:Thing"):
        FewShotModel.load(tmp_path, encoder="other:Thing", metric="own_parts:manhattan")
    for encoder, metric in (
        (PATH, "own_parts:manhattan"),
        (JointMlp, manhattan),
        (JointMlp(tiny_task.LAYOUT, 4, 6), manhattan),
        (["x:Y", PATH], ["own_parts:manhattan"]),
    ):
        again = FewShotModel.load(tmp_path, encoder=encoder, metric=metric)
        assert_close(again.distances(CLIPS[:2], CLIPS), expected)


def test_a_model_file_never_causes_an_import(tmp_path):
    own_model().save(tmp_path / "model")
    (tmp_path / "own_parts.py").write_text("raise SystemExit('imported')")
    code = (
        "import jeanie, sys\n"
        "try: jeanie.FewShotModel.load('model')\n"
        "except jeanie.ConfigError: print('own_parts' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_other_settings_keep_the_parts_of_a_model():
    model = own_model(metric=manhattan)
    changed = model.with_config({"align.normalise": None})
    assert changed.config.encoder == model.config.encoder
    assert_close(changed.encoder.state_dict(), model.encoder.state_dict())
    assert changed.encoder.net.module is not model.encoder.net.module
    with pytest.raises(ConfigError, match="a different network"):
        model.with_config({"encoder.options": {"width": 9}})
    with pytest.raises(ConfigError, match="not the base distance"):
        model.with_config({"align.metric": "other:distance"})


def test_components_from_outside_are_saved_and_loaded(tmp_path):
    base = tiny_task.model_config()
    part = base.with_values({"encoder.kind": "custom", "encoder.module": PATH, "encoder.options": {"width": 3},
                             "align.metric": "own_parts:manhattan"})  # fmt: skip
    config = base.with_values(components=(part,))
    torch.manual_seed(0)
    model = FewShotModel(config, tiny_task.LAYOUT, encoder=PATH, metric="own_parts:manhattan").eval()
    assert model.config.components[0].encoder.features == 3
    expected = model.distances(CLIPS[:2], CLIPS)
    model.save(tmp_path)
    with pytest.raises(
        ConfigError, match=r"only code that you name is imported.*--encoder own_parts:JointMlp"
    ):
        FewShotModel.load(tmp_path)
    for encoder, metric in (([PATH], ["own_parts:manhattan"]), ([JointMlp], [manhattan])):
        again = FewShotModel.load(tmp_path, encoder=encoder, metric=metric)
        assert_close(again.distances(CLIPS[:2], CLIPS), expected)
    changed = again.with_config(weight=2.0)
    assert_close(changed.components.state_dict(), model.components.state_dict(), check_dtype=False)


def test_a_model_and_its_component_have_encoders_of_their_own(tmp_path):
    part = tiny_task.model_config().with_values(
        {"encoder.kind": "custom", "encoder.module": PATH, "encoder.options": {"width": 3}}
    )
    torch.manual_seed(0)
    model = FewShotModel(part.with_values(components=(part,)), tiny_task.LAYOUT, encoder=JointMlp).eval()
    model.save(tmp_path)
    for again in (FewShotModel.load(tmp_path, encoder=PATH), model.with_config({"align.normalise": None})):
        assert_close(dict(again.state_dict()), dict(model.state_dict()), check_dtype=False)
        own, other = again.encoder.net.module, again.components[0].encoder.net.module
        assert own is not other
        assert not torch.equal(own.net[1].weight, other.net[1].weight)


@pytest.mark.errors
def test_parts_that_do_not_fit_are_explained():
    with pytest.raises(ShapeError, match=r"needs to return features of shape \(2, feature\), got \(12,\)"):
        own_model(encoder=Crooked)
    with pytest.raises(ConfigError, match="called with layout, block, channels"):
        own_model(encoder=lambda: None)
    with pytest.raises(ConfigError, match=r"needs a torch\.nn\.Module"):
        own_model(encoder=lambda **_: 3)
    with pytest.raises(ConfigError, match="needs to know the joints"):
        FewShotModel(tiny_task.model_config(), encoder=JointMlp)
    with pytest.raises(ConfigError, match="no_such_module"):
        FewShotModel(
            tiny_task.model_config().with_values({"align.metric": "no_such_module:f"}),
            tiny_task.LAYOUT,
            metric="no_such_module:f",
        )
    with pytest.raises(ConfigError, match="or an import path"):
        tiny_task.model_config(metric="cosinus")


def test_an_encoder_from_outside_trains_and_its_run_loads(tmp_path):
    config = TrainConfig(episodes=6, validate_every=3, checkpoint_every=3, way=2, queries=1, mirror=False)
    run = train(
        tiny_task.model_config(),
        "synthetic",
        config=config,
        out=tmp_path / "run",
        dataset=tiny_task.dataset(),
        split=tiny_task.split(),
        encoder=partial(JointMlp, width=5),
    )
    assert run.facts["config"]["model"]["encoder"]["module"] == PATH
    with pytest.raises(ConfigError, match="--encoder own_parts:JointMlp"):
        run.model()
    model = run.model(encoder=partial(JointMlp, width=5))
    assert model.encoder.features == 5
    with pytest.raises(DataError, match="size mismatch"):
        run.model(encoder=JointMlp)


@pytest.mark.parametrize("views", [(), (3,)], ids=["recorded", "views"])
@pytest.mark.parametrize("pairs", ["all", "matched"])
@pytest.mark.parametrize("matching", ["jeanie", "fvm"])
def test_a_function_as_base_distance_equals_the_built_in_one(views, pairs, matching):
    torch.manual_seed(1)
    query, support = torch.randn(3, 5, *views, 4), torch.randn(3, 4, 4)
    options = {"pairs": pairs, "matching": matching, "gamma": 0.1, "query_lengths": [5, 3, 4]}
    grads = []
    for metric in ("euclidean", EXACT):
        leaf = query.clone().requires_grad_()
        found = jeanie.distances(leaf, support, metric=metric, **options)
        found.sum().backward()
        grads.append((found.detach(), leaf.grad))
    assert_close(grads[0], grads[1], atol=1e-4, rtol=1e-4)


def test_a_base_distance_gets_queries_first():
    query, support = torch.ones(1, 2, 1), torch.full((1, 3, 1), 5.0)
    cost = lambda x, y: (x[..., None, 0] > y[:, None, :, 0]).float() + 1  # noqa: E731
    assert float(jeanie.distances(query, support, metric=cost, gamma=0)) == 3
    assert float(jeanie.distances(support, query, metric=cost, gamma=0)) == 6


def test_cosine_is_two_minus_two_cosines():
    torch.manual_seed(2)
    query, support = torch.randn(2, 4, 5), torch.randn(3, 4, 5)
    cosine = lambda x, y: 2 - 2 * torch.cosine_similarity(x[:, :, None], y[:, None], dim=-1)  # noqa: E731
    assert_close(
        jeanie.distances(query, support, metric="cosine", gamma=0.1),
        jeanie.distances(query, support, metric=cosine, gamma=0.1),
    )
    assert_close(
        jeanie.distances(query, support, metric="cosine"),
        jeanie.distances(9 * query, support / 7, metric="cosine"),
    )


@pytest.mark.errors
def test_a_base_distance_of_another_shape_is_explained():
    x = torch.randn(2, 4, 5)
    with pytest.raises(ShapeError, match=r"like torch\.cdist, got \(1, 8\)"):
        jeanie.distances(x, x, metric=lambda a, b: a.sum(-1))
    with pytest.raises(ConfigError, match=r"cosine, or a function like torch\.cdist, got 'cosin'"):
        jeanie.distances(x, x, metric="cosin")


@pytest.mark.parametrize("method", ["jeanie", "fvm", "udtw", "pool", "pool-time", "pool-views"])
def test_every_comparison_takes_a_function(method):
    config = tiny_task.model_config().with_values({"align.method": method})
    tables = []
    for changes, metric in (({"align.metric": "euclidean"}, None), ({}, EXACT)):
        torch.manual_seed(3)
        model = FewShotModel(config.with_values(changes), tiny_task.LAYOUT, metric=metric).eval()
        model.comparison.cost_scale.fill_(1.0)
        tables.append(model.distances(CLIPS[:2], CLIPS))
    assert_close(tables[0], tables[1], atol=1e-4, rtol=1e-4)
