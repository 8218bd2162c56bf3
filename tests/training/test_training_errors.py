"""Wrong input of a training is refused with advice, and a damaged or foreign run is noticed."""

import json

import pytest
from tiny_task import model_config, split
from training_cases import PLAIN, SHORT, run_training

from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.fewshot.config import ModelConfig
from jeanie.training.train import train


@pytest.mark.errors
def test_bad_input_is_told_before_anything_is_written(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(ConfigError, match="no weights to learn"):
        run_training(out, model=ModelConfig(**{**model_config().model_dump(), "encoder": {"kind": "raw"}}))
    with pytest.raises(ConfigError, match="9-way episodes need 9 classes"):
        run_training(out, SHORT.with_values(way=9, mirror=False))
    with pytest.raises(ConfigError, match="no protocol 'nothing'"):
        train(model_config(), "nothing", out=out)
    with pytest.raises(ConfigError, match="has no split 99; they are 0 to"):
        train(model_config(), "synthetic", out=out, split=99)
    assert not out.exists()


@pytest.mark.errors
def test_a_run_is_not_overwritten_nor_resumed_with_other_settings(tmp_path):
    run_training(tmp_path / "run", SHORT.with_values(episodes=2))
    with pytest.raises(ConfigError, match=r"contains a run; continue it with resume"):
        run_training(tmp_path / "run", SHORT.with_values(episodes=2))
    with pytest.raises(ConfigError, match=r"config.train.rate: 0.003 there, 0.5 now"):
        run_training(tmp_path / "run", SHORT.with_values(episodes=2, rate=0.5), resume=True)
    with pytest.raises(ConfigError, match="split 'tiny' was started with other classes"):
        run_training(tmp_path / "run", SHORT.with_values(episodes=2), resume=True, split=split(validation=()))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(ConfigError, match="exists and is not a run"):
        run_training(tmp_path / "mine", SHORT.with_values(episodes=2), resume=True)


@pytest.mark.errors
def test_a_damaged_checkpoint_is_noticed(tmp_path):
    run = run_training(tmp_path / "run", SHORT.with_values(episodes=2))
    (path,) = (run.folder() / "last").glob("*.safetensors")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="tensors of the checkpoint were changed"):
        run_training(tmp_path / "run", SHORT.with_values(episodes=2), resume=True)
    (run.folder() / "last/state.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(DataError, match="checkpoint cannot be read"):
        run_training(tmp_path / "run", SHORT.with_values(episodes=2), resume=True)


@pytest.mark.errors
def test_a_gradient_that_is_not_finite_ends_training_with_advice(tmp_path):
    config = PLAIN.with_values(
        episodes=50, batch=1, optimiser="sgd", rate=1e18, schedule="constant", clip=None
    )
    with pytest.raises(JeanieError, match="training has diverged; use a smaller rate"):
        run_training(tmp_path / "run", config, model_config(relative=False))
