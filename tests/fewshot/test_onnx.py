"""Encoders as ONNX: onnxruntime gives what torch gives, for any batch, and the file says the rest."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from typer.testing import CliRunner

import jeanie
from jeanie.cli.app import app
from jeanie.encoders import GraphEncoderConfig, MlpEncoderConfig, RawEncoderConfig
from jeanie.errors import ConfigError, DataError
from jeanie.fewshot.config import JeanieConfig, ModelConfig, NoViewsConfig
from jeanie.fewshot.inputs import InputConfig, PrepareConfig, arrange
from jeanie.fewshot.onnx import export_onnx, read_description
from jeanie.skeleton import Layout

# torch.export does not trace through the wrappers of the type-checking hook
pytestmark = pytest.mark.plain

TRANSFORMER = GraphEncoderConfig(transformer=True, depth=2, heads=3, head_size=4, features=20)
CORE = PrepareConfig(layout="core15")


def graph_model(encoder=None, **more):
    torch.manual_seed(0)
    config = ModelConfig(
        inputs=InputConfig(prepare=CORE, streams=("joints", "velocity"), gains=(1.0, 2.0)),
        views=NoViewsConfig(),
        encoder=encoder or GraphEncoderConfig(graph="s2gc"),
        **more,
    )
    return jeanie.FewShotModel(config)


MODELS = {
    "shipped": jeanie.FewShotModel.load,
    "s2gc": graph_model,
    "transformer": lambda: graph_model(TRANSFORMER),
    "float64": lambda: graph_model(MlpEncoderConfig(mlp=(32, 16))).double(),
}


SIZES = ((1, 32), (2, 1), (7, 13), (32, 2))  # clips, blocks


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def export_once(tmp_path_factory):
    """Models and their files by name, each exported once."""
    known = {}

    def get_tensor(name):
        if name not in known:
            model, path = MODELS[name]().eval(), tmp_path_factory.mktemp("onnx") / f"{name}.onnx"
            export_onnx(model, path)
            known[name] = (model, path)
        return known[name]

    return get_tensor


@pytest.fixture(scope="module", params=list(MODELS))
def model_and_file(request, export_once):
    return export_once(request.param)


@pytest.fixture(scope="module")
def shipped_and_file(export_once):
    return export_once("shipped")


def test_onnxruntime_gives_what_torch_gives_for_any_number_of_clips_and_blocks(model_and_file):
    model, path = model_and_file
    run = session(path)
    generator = torch.Generator().manual_seed(1)
    for clips, blocks in SIZES:
        shape = (clips, blocks, model.encoder.block, len(model.layout), model.encoder.channels)
        given = torch.randn(shape, generator=generator, dtype=model.dtype)
        with torch.no_grad():
            expected = model.encoder(given)
        (found,) = run.run(["features"], {"blocks": given.numpy()})
        assert found.dtype == expected.numpy().dtype
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_the_file_says_what_the_graph_reads_and_gives(model_and_file):
    model, path = model_and_file
    (component,) = read_description(path)["models"]
    (given,), (got,) = session(path).get_inputs(), session(path).get_outputs()
    assert given.name == component["input"]
    assert got.name == component["output"]
    assert given.shape == ["clip", "block", *component["shape"][2:]]
    assert got.shape[2] == component["features"]
    assert Layout.from_dict(component["layout"]) == model.layout
    assert len(component["gains"]) == len(component["streams"])
    assert component["shape"][-1] == 3 * len(component["streams"])
    counts = torch.tensor([1, 2, 5, 32])
    assert model.encoder.counts(counts).tolist() == [
        -(-n // component["blocks_per_output"]) for n in counts.tolist()
    ]


def test_a_program_can_recognise_with_the_file_and_its_description_alone(shipped_and_file):
    """Blocks after the description, features by onnxruntime, DTW in numpy: the shipped model's distances.

    A query counts as it is, or in a mirror at a price.
    """
    model, path = shipped_and_file
    run = session(path)
    (component,) = json.loads(run.get_modelmeta().custom_metadata_map["jeanie"])["models"]
    clips = jeanie.open_dataset("synthetic").motions[0:60:15]
    inputs = InputConfig(**component["inputs"])
    batch = model.collate(clips)
    blocks, _ = arrange(batch, inputs, None)
    assert blocks.shape[2] == component["blocks"]
    (features,) = run.run(None, {"blocks": blocks[:, 0].numpy()})
    (images,) = run.run(None, {"blocks": arrange(batch.mirror(), inputs, None)[0][:, 0].numpy()})
    assert (component["align"]["metric"], component["align"]["gamma"]) == ("sqeuclidean", 0.0)
    assert component["align"]["normalise"] == "length"
    expected = model.distances(clips, clips)
    for q, (query, image) in enumerate(zip(features, images, strict=True)):
        for s, support in enumerate(features):
            found = min(dtw(query, support), component["mirror_penalty"] * dtw(image, support))
            assert found == pytest.approx(float(expected[q, s]), abs=1e-5)


def dtw(query, support):
    """The hard minimum over paths of the sums of squared distances, over both lengths."""
    table = np.full((len(query) + 1, len(support) + 1), np.inf)
    table[0, 0] = 0
    for t, x in enumerate(query):
        for s, y in enumerate(support):
            before = min(table[t, s], table[t, s + 1], table[t + 1, s])
            table[t + 1, s + 1] = before + ((x - y) ** 2).sum(dtype=np.float64)
    return table[-1, -1] / (len(query) + len(support))


def test_models_beside_have_inputs_and_outputs_of_their_own(tmp_path):
    second = ModelConfig(
        inputs=InputConfig(prepare=CORE, block=4), views=NoViewsConfig(),
        encoder=RawEncoderConfig(), align=JeanieConfig(metric="euclidean"), weight=0.5,
    )  # fmt: skip
    model = graph_model(components=(second,)).eval()
    export_onnx(model, tmp_path / "fused.onnx")
    components = read_description(tmp_path / "fused.onnx")["models"]
    assert [one["weight"] for one in components] == [1.0, 0.5]
    given = [torch.randn(2, n, *one["shape"][2:]) for n, one in zip((3, 6), components, strict=True)]
    names = [one["input"] for one in components]
    found = session(tmp_path / "fused.onnx").run(
        [one["output"] for one in components],
        {name: one.numpy() for name, one in zip(names, given, strict=True)},
    )
    with torch.no_grad():
        np.testing.assert_allclose(found[0], model.encoder(given[0]), rtol=0, atol=1e-5)
    np.testing.assert_array_equal(found[1], given[1].flatten(2))


def test_exporting_changes_nothing_of_the_model_and_tells_nothing_of_the_machine(tmp_path):
    model = graph_model(MlpEncoderConfig(mlp=(8,))).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    export_onnx(model, tmp_path / "a.onnx")
    export_onnx(model, tmp_path / "b.onnx")
    assert model.training
    assert model.encoder.training
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    content = (tmp_path / "a.onnx").read_bytes()
    assert content == (tmp_path / "b.onnx").read_bytes()
    assert b".py" not in content
    assert not [one for node in onnx.load(tmp_path / "a.onnx").graph.node for one in node.metadata_props]


@pytest.mark.errors
def test_what_cannot_be_exported_or_read_is_told(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"accepts motions of any layout; set inputs.prepare.layout"):
        export_onnx(jeanie.FewShotModel.raw("dtw"), tmp_path / "raw.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"\xff" * 64)
    with pytest.raises(DataError, match="not an encoder that jeanie export-onnx wrote"):
        read_description(tmp_path / "bad.onnx")
    other = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], []))
    (tmp_path / "other.onnx").write_bytes(other.SerializeToString())
    with pytest.raises(DataError, match="not an encoder that jeanie export-onnx wrote"):
        read_description(tmp_path / "other.onnx")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ConfigError, match=r"ONNX needs onnxscript; pip install 'jeanie\[onnx\]'"):
        export_onnx(graph_model(), tmp_path / "raw.onnx")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bad.onnx", "other.onnx"]


def test_the_command_writes_the_file_and_says_what_it_reads(tmp_path):
    folder, out = tmp_path / "model", tmp_path / "new" / "encoder.onnx"
    graph_model(MlpEncoderConfig(mlp=(8,), features=12)).save(folder)
    result = CliRunner().invoke(app, ["export-onnx", str(out), "--model", str(folder)])
    assert result.exit_code == 0, result.output
    assert "blocks [clip, block, 8, 15, 6] -> features [clip, output, 12]" in result.output
    result = CliRunner().invoke(app, ["export-onnx", str(out), "--model", str(folder), "--json"])
    facts = json.loads(result.stdout)
    assert facts["bytes"] == out.stat().st_size
    assert {key: facts[key] for key in ("format", "models")} == read_description(out)


@pytest.mark.errors
@pytest.mark.parametrize(
    ("out", "model", "message"),
    [
        ("here.onnx", "nowhere", "cannot be read"),
        (".", None, "a folder"),
    ],
)
def test_the_command_refuses_with_exit_code_2_and_writes_nothing(tmp_path, out, model, message):
    chosen = [] if model is None else ["--model", str(tmp_path / model)]
    result = CliRunner().invoke(app, ["export-onnx", str(tmp_path / out), *chosen, "--json"])
    assert result.exit_code == 2
    assert message in json.loads(result.stdout)["error"]
    assert list(tmp_path.iterdir()) == []
