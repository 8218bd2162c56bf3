"""Camera positions reach training: sensor and distances of a data set, outliers, the record of a run, 2-D input."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import typer
from tiny_task import LAYOUT, dataset, model_config, split
from torch.testing import assert_close
from typer.testing import CliRunner

from jeanie.cli.evaluate import evaluate as evaluate_command
from jeanie.cli.train import train as train_command
from jeanie.datasets import open_dataset
from jeanie.datasets.archive.writer import write_archive
from jeanie.errors import ConfigError
from jeanie.evaluation.evaluate import evaluate
from jeanie.evaluation.report.report import pool_seeds
from jeanie.fewshot.cameras import CameraGroupsConfig, describe_hidden_joints
from jeanie.fewshot.config import CameraViewsConfig, ModelConfig
from jeanie.fewshot.inputs import arrange
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion
from jeanie.training.cameras import place_cameras
from jeanie.training.config import TrainConfig
from jeanie.training.run import Run
from jeanie.training.train import train
from jeanie.views import CAMERAS, Camera, CameraViews

DATA = os.environ.get("JEANIE_DATA")
QUICK = TrainConfig(episodes=4, batch=2, validate_every=2, checkpoint_every=2, seed=7)
CAMERA = CameraViewsConfig(azimuth=15, altitude=0, step=15)


def recordings(*, outlier=False, layout=LAYOUT):
    """The tiny task before a camera: takes 0 to 4 stand at x = -1 to 1 m and 2.5 to 4.5 m away."""
    flat = dataset()

    def read(clip):
        motion = flat.read(clip)
        take = clip.tags.subject
        place = torch.tensor([-1 + take / 2, 0.3 * (take % 3), 2.5 + take / 2])
        joints = 0.4 * motion.joints + place
        if outlier and clip.index == 3:
            joints[2, 0, 5, 2] = -4.0
        return motion.replace(joints=joints, layout=layout)

    return replace(flat, read=read, layout=layout)


def config():
    return model_config().with_values({"inputs.prepare.size": "none"}, views=CAMERA)


def test_distances_come_from_thirds_of_x_and_the_sensor_from_the_layout():
    """Torsos at x = -1, -0.5 | 0 | 0.5, 1: their distances are averaged by hand."""
    data = recordings(layout=replace(LAYOUTS["sbu15"]))
    views = place_cameras(config(), data).views
    assert views.camera == "kinect1"
    torsos = {}
    for motion in data.motions:
        column = 0 if motion.subject < 2 else 1 if motion.subject == 2 else 2
        torso = motion.joints[:, 0, list(motion.layout.centre)].mean(1).double().mean(0)
        torsos.setdefault(column, []).append(torso.norm().item())
    expected = [sum(torsos[column]) / len(torsos[column]) for column in range(3)]
    assert_close(list(views.groups.distances), expected, atol=2e-3, rtol=0)
    assert views.build(data.layout).camera.intrinsics == CAMERAS["kinect1"].intrinsics
    model = FewShotModel(config().with_values(views=views), data.layout)
    batch = model.collate([data[0], data[2], data[4]])
    assert_close(batch.cameras[:, 0].tolist(), list(views.groups.distances), atol=1e-6, rtol=0)


def test_every_clip_is_seen_from_its_own_distance_and_height():
    """Takes 0 and 4 stand left and right, at the bottom and in the centre."""
    groups = CameraGroupsConfig(
        distance=3, height=1, x=(-0.2, 0.2), y=(-0.15, 1), distances=(2.5, 3, 9), heights=(0.2, 1.9, 1)
    )
    settings = config().with_values(
        views=CAMERA.with_values(groups=groups), encoder={"kind": "raw"}, inputs={"scale": "none", "block": 1}
    )
    data = recordings()
    model = FewShotModel.raw(settings)
    found = model.features(model.collate([data[0], data[4]]))
    for number, (distance, height) in enumerate(((2.5, 0.2), (9, 1.9))):
        place = {"views.distance": distance, "views.height": height}
        alone = FewShotModel.raw(settings.with_values(place))
        expected = alone.features(alone.collate([data[4 * number]])).values
        assert_close(found.values[number : number + 1, : expected.shape[1]], expected)


def test_explicit_and_known_positions_are_not_estimated_again():
    fixed = config().with_values({"views.distance": 3.0})
    assert place_cameras(fixed, recordings()) == fixed
    placed = place_cameras(config(), recordings())
    assert place_cameras(placed, recordings()) is placed
    euler = model_config()
    assert place_cameras(euler, recordings()) is euler
    component = euler.with_values(components=(config().model_dump(),))
    assert place_cameras(component, recordings()).components[0].views.groups == placed.views.groups


def test_ntu_has_the_positions_of_its_setups(tmp_path):
    """S018 is in no table, so it is measured from its recording."""
    joints = torch.zeros(4, 25, 3)
    joints[..., 1] = torch.linspace(-1.5, 0.2, 25)
    joints[..., 2] = 3.25
    motions = [
        Motion(joints, LAYOUTS["ntu25"], name=f"S{setup:03}C001P001R001A001", label=1, setup=setup)
        for setup in (7, 16, 18)
    ]
    write_archive(motions, tmp_path / "ntu120", name="ntu120")
    data = open_dataset("ntu120", tmp_path / "ntu120")
    views = place_cameras(config(), data).views
    assert views.camera == "kinect2"
    assert [setup for setup, *_ in views.setups] == [7, 16, 18]
    assert views.setups[:2] == ((7, 0.5, 4.5), (16, 2.7, 3.5))
    assert views.setups[2][1] == pytest.approx(1.5 + 0.09, abs=2e-3)
    assert [views.find_camera(motion)[0] for motion in motions][:2] == [4.5, 3.5]
    angles = [views.find_camera(motion)[1] for motion in motions]
    assert angles[1] == pytest.approx(math.degrees(math.asin((2.7 - 1.05) / 3.5)))
    assert angles[0] < 0 < angles[2] < angles[1]
    height, distance = (sum(row[i] for row in views.setups) / 3 for i in (1, 2))
    unknown = views.find_camera(motions[0].replace(setup=None))
    assert unknown == pytest.approx((distance, math.degrees(math.asin((height - 1.05) / distance))))


def test_a_run_records_its_camera_and_a_loaded_model_gives_the_same_views(tmp_path):
    run = train(
        config(), "synthetic", config=QUICK, out=tmp_path / "run", dataset=recordings(), split=split("first")
    )
    placed = place_cameras(config(), recordings())
    facts = json.loads((run.path / "run.json").read_text())
    assert facts["config"]["model"]["views"] == placed.views.model_dump(mode="json")
    assert facts["config"]["model"]["views"]["camera"] == "kinect2"
    assert facts["hidden_joints"]["hidden"] == 0 < facts["hidden_joints"]["valid"]
    model = Run.load(run.path).model()
    assert model.config == placed
    joints = torch.randn(2, 15, 3, generator=torch.Generator().manual_seed(0)) / 3
    assert torch.equal(model.views(joints), FewShotModel(placed, LAYOUT).views(joints))
    clip = recordings()[4]
    assert model.collate([clip]).cameras.tolist() == [pytest.approx(placed.views.find_camera(clip), abs=1e-5)]
    assert model.collate([clip]).cameras[0, 0] == pytest.approx(placed.views.groups.distances[2])


def test_one_outlier_is_masked_counted_and_does_not_end_training(tmp_path):
    """Joint 5 of one frame of clip 3 lies metres behind the camera; all other joints are measured as without it."""
    settings = config().with_values({"views.distance": 3.0, "inputs.scale": "none", "encoder.kind": "raw"})
    plain, broken = FewShotModel.raw(settings), FewShotModel.raw(settings)
    expected = plain.features(plain.collate([recordings()[3]])).values
    found = broken.features(broken.collate([recordings(outlier=True)[3]])).values
    assert found.isfinite().all()
    assert broken.hidden_joints.hidden == 3  # one joint of one frame in three views
    assert 0.9 < (found == expected).float().mean() < 1
    inputs = settings.inputs.with_values(streams=("joints", "motion"), block=1, stride=1.0)
    blocks, _ = arrange(broken.collate([recordings(outlier=True)[3]]), inputs, broken.views)
    steps = blocks[0, 0, :, 0, :, 0, 5, 3:]  # [azimuth, frame, 3]: displacements of the joint
    assert (steps[:, 2:4] == 0).all()  # none into the missing frame, none out of it
    assert (steps[:, 4:] != 0).any()

    run = train(
        config(),
        "synthetic",
        config=QUICK.with_values(episodes=12),
        out=tmp_path / "run",
        dataset=recordings(outlier=True),
        split=split("first"),
    )
    counts = run.facts["hidden_joints"]
    assert 0 < counts["hidden"] < counts["valid"] / 100
    assert json.loads((run.path / "run.json").read_text())["hidden_joints"] == counts


def test_an_evaluation_counts_the_joints_that_its_cameras_do_not_see():
    """One joint of one frame in three views of the query; supports are compared as recorded, in one view."""
    settings = config().with_values({"views.distance": 3.0, "encoder.kind": "raw"})
    model, parts = FewShotModel.raw(settings), [split("first", test=(0, 1))]
    clean = evaluate(model, "synthetic", dataset=recordings(), splits=parts)
    assert clean.hidden_joints["hidden"] == 0 < clean.hidden_joints["valid"]
    assert not describe_hidden_joints(clean.hidden_joints)
    report = evaluate(model, "synthetic", dataset=recordings(outlier=True), splits=parts)
    assert report.hidden_joints == {"hidden": 3, "valid": clean.hidden_joints["valid"]}
    again = evaluate(model, "synthetic", dataset=recordings(outlier=True), splits=parts)
    assert again.json()["hidden_joints"] == report.hidden_joints  # of this evaluation alone
    assert pool_seeds([report, again]).hidden_joints["hidden"] == 6
    other = evaluate(FewShotModel.raw("dtw"), "synthetic", dataset=recordings(), splits=parts)
    assert not other.hidden_joints
    assert "hidden_joints" not in other.json()


def test_the_command_reports_hidden_joints_once_in_text_and_json(tmp_path):
    near = config().with_values({"views.distance": 0.75, "encoder.kind": "raw", "inputs.prepare.frames": 8})
    FewShotModel.raw(near).save(tmp_path / "near")
    app = typer.Typer()
    app.command()(evaluate_command)
    arguments = [str(tmp_path / "near"), "synthetic", "--limit", "1", "--alone"]
    said = CliRunner().invoke(app, arguments).stdout
    assert said.count("joints in simulated views") == 1
    counts = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)["hidden_joints"]
    assert f"near: {counts['hidden']} of {counts['valid']} joints" in " ".join(said.split())


def test_a_distorted_lens_reaches_the_views():
    bent = CAMERA.with_values(camera="kinect1", distance=3.0, distortion=(-0.2, 0.1))
    joints = torch.rand(2, 15, 3, generator=torch.Generator().manual_seed(0)) - 0.5
    camera = Camera(CAMERAS["kinect1"].intrinsics, 3.0, CAMERAS["kinect1"].height, (-0.2, 0.1))
    assert torch.equal(bent.build()(joints), CameraViews(camera, 15, 0, 15, units="metres")(joints))
    straight = bent.with_values(distortion=()).build()(joints)
    assert (bent.build()(joints) - straight).abs().max() > 1e-4


@pytest.mark.errors
@pytest.mark.parametrize("kind", ["euler", "euler-simple", "camera"])
def test_views_of_2d_key_points_are_refused(kind):
    flat = replace(LAYOUT, name="flat15", unit="px", dims=2)
    settings = ModelConfig().with_values({"views.kind": kind})
    with pytest.raises(
        ConfigError, match=r"2-D key points \(flat15\): lift them first, with jeanie lift apply"
    ):
        FewShotModel(settings, flat)
    raw = FewShotModel.raw(settings.with_values({"encoder.kind": "raw"}))
    with pytest.raises(ConfigError, match="lift them first"):
        raw.collate([recordings(layout=flat)[0]])
    canonical = FewShotModel.load().with_config({"views.kind": "euler"})
    with pytest.raises(ConfigError, match="lift them first"):
        canonical.collate([recordings(layout=flat)[0]])
    assert len(FewShotModel.load().collate([recordings(layout=flat)[0]])) == 1


@pytest.mark.errors
def test_cameras_need_metres_and_a_known_sensor():
    pixels = recordings(layout=replace(LAYOUT, name="lifted", unit="px"))
    with pytest.raises(ConfigError, match=r"need joints in metres.*views.kind to 'euler'"):
        place_cameras(config(), pixels)
    with pytest.raises(ConfigError, match="no camera 'webcam'; the known cameras are dataset, kinect1"):
        CAMERA.with_values(camera="webcam").build()


@pytest.mark.skipif(DATA is None, reason="needs JEANIE_DATA with nw-ucla")
def test_the_outlier_of_nw_ucla_does_not_end_a_training_with_cameras(tmp_path):
    """Clip a04_s01_e01_v01 has a joint behind many of the 49 cameras."""
    data = open_dataset("nw-ucla", Path(DATA) / "nw-ucla")
    clip = data.names.index("a04_s01_e01_v01")
    model = FewShotModel.raw(
        ModelConfig().with_values({"views.kind": "camera", "views.distance": 2.74, "encoder.kind": "raw"})
    )
    values = model.features(model.collate([data[clip]])).values
    assert values.isfinite().all()
    assert model.hidden_joints.hidden > 100
    app = typer.Typer()
    app.command()(train_command)
    arguments = ["nwucla-crossview", "--method", "jeanie-2v-camvpc", "--episodes", "1", "--validation", "0"]
    changes = ["--set", "batch=1", "--set", "views.altitude=0", "--split", "0", "--out", tmp_path / "run"]
    said = CliRunner().invoke(app, [str(word) for word in (*arguments, *changes)])
    assert said.exit_code == 0, said.output
    assert "--train-classes 5" in said.stdout
    views = Run.load(tmp_path / "run").recipe.model.views
    assert views.camera == "kinect1"
    assert all(math.isclose(distance, 2.8, abs_tol=0.3) for distance in views.groups.distances)
