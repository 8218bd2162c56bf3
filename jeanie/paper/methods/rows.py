"""The methods as rows: a summary, and the changes of the base recipe.

Families share their changes through constants.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["ROWS"]

Changes = Mapping[str, Any]

# -- views ---------------------------------------------------------------------------------------------------------
_NO_VIEWS = {"views.kind": "none"}
_RANGE = {"views.azimuth": 45, "views.altitude": 45, "views.step": 15, "views.sides": "query"}
_EULER = {"views.kind": "euler", **_RANGE}
# simulated cameras need metres
_METRES = {"views.kind": "camera", "inputs.prepare.size": "none", "inputs.prepare.body": "recorded"}
_CAMERA = {**_METRES, **_RANGE}
_BOTH_SIDES = {"views.sides": "both"}
# searched ranges are those of the base; a table searches them on validation classes
_TUNED = {**_METRES, "views.sides": "query"}
_TUNED_BOTH = {**_METRES, **_BOTH_SIDES}
_ANGLES = ("views.azimuth", "views.altitude")
_ANGLES_AND_TARGET = (*_ANGLES, "loss.target")  # the constant c, which the paper tuned

# -- alignment -----------------------------------------------------------------------------------------------------
_PATH = {"align.method": "jeanie"}
_FVM = {"align.method": "fvm"}
_POOL = {"align.method": "pool"}
_POOL_TIME = {"align.method": "pool-time"}
_POOL_VIEWS = {"align.method": "pool-views"}
_SOFT_DTW = {**_PATH, **_NO_VIEWS}
_TRANSFORMER = {"encoder.kind": "graph", "encoder.transformer": True}

# -- classes -------------------------------------------------------------------------------------------------------
_PROTOTYPE = {"align.classes": "prototype", "align.metric": "sqeuclidean", "loss.kind": "cross-entropy"}
_MATCHING = {"align.classes": "attention", "align.metric": "cosine", "loss.kind": "cross-entropy"}

# -- inputs of encoders of positions: a whole clip as one block of 32 frames, or the paper's blocks -----------
_JOINTS = {"inputs.streams": ("joints",), "inputs.gains": ()}
_WHOLE = {"inputs.prepare.frames": 32, "inputs.block": 32, "inputs.stride": 1.0}
_BLOCKS = {"inputs.block": 8, "inputs.stride": 0.6}
_IMAGE = {"encoder.kind": "image", "encoder.width": 32, **_JOINTS}
_VA_RNN = {"encoder.kind": "va-rnn", "encoder.width": 100, **_JOINTS}
_VA_CNN = {"encoder.kind": "va-cnn", "encoder.width": 32, **_JOINTS}
# the networks of the published systems; without them, methods whose names end in -small have small ones
_RESNET18, _RESNET50 = {"encoder.network": "resnet18"}, {"encoder.network": "resnet50"}
_TURNED = {
    "augment.yaw": 17,
    "augment.tilt": 17,
}  # 0.3 rad, the random rotations of the view-adaptive networks
_SUMMED = {"fuse": "together"}
_METRIC = {
    "align.metric": "cosine",
    "loss.kind": "multi-similarity",
    **_POOL,
    **_NO_VIEWS,
    **_WHOLE,
    **_JOINTS,
}


def _row(
    summary: str,
    *changes: Changes,
    components: tuple[Changes, ...] = (),
    needs: tuple[str, ...] = (),
    searches: tuple[str, ...] = (),
) -> Any:
    """Return a row; later changes override earlier ones."""
    merged = {key: value for part in changes for key, value in part.items()}
    return {
        "summary": summary,
        "changes": merged,
        "components": components,
        "needs": needs,
        "searches": searches,
    }


_ALIGNMENT = {
    "pooled": _row("no alignment: distance of mean features", _POOL, _NO_VIEWS),
    "pooled-2v": _row("no alignment: mean features over time and simulated cameras", _POOL, _CAMERA),
    "soft-dtw": _row("temporal alignment only", _SOFT_DTW),
    "soft-dtw-2v": _row("temporal alignment of mean features over simulated cameras", _POOL_VIEWS, _CAMERA),
    "soft-dtw-divergence": _row(
        "temporal alignment minus self-distances (divergence)", _SOFT_DTW, {"align.normalise": "divergence"}
    ),
    "jeanie-v": _row("time and azimuth, Euler angles", _PATH, _EULER, {"views.altitude": 0}),
    "jeanie-v-camvpc": _row("time and azimuth, simulated cameras", _PATH, _CAMERA, {"views.altitude": 0}),
    "jeanie-altitude-camvpc": _row("time and altitude, simulated cameras", _PATH, _CAMERA, {"views.azimuth": 0}),
    "jeanie-2v-euler-simple": _row(
        "the better of a path through azimuths and one through altitudes (K + K' views)",
        _PATH, _EULER, {"views.kind": "euler-simple"},
    ),
    "jeanie-2v-euler": _row("time, azimuth and altitude (K x K' views), Euler angles", _PATH, _EULER),
    "jeanie-2v-euler-both": _row(
        "jeanie-2v-euler with views of query and support (6-D)", _PATH, _EULER, _BOTH_SIDES
    ),
    "jeanie-2v-euler-both-tuned": _row(
        "jeanie-2v-euler-both, searched angle ranges", _PATH, {"views.kind": "euler"}, _BOTH_SIDES, searches=_ANGLES
    ),
    "jeanie-2v-camvpc": _row("time, azimuth and altitude, simulated cameras", _PATH, _CAMERA),
    "jeanie-2v-camvpc-both": _row(
        "jeanie-2v-camvpc with views of query and support (6-D)", _PATH, _CAMERA, _BOTH_SIDES
    ),
    "jeanie-2v-camvpc-tuned": _row("jeanie-2v-camvpc, searched angle ranges", _PATH, _TUNED, searches=_ANGLES),
    "jeanie-2v-both": _row(
        "simulated cameras for query and support (6-D), searched angle ranges", _PATH, _TUNED_BOTH, searches=_ANGLES
    ),
    **{
        f"jeanie-shift-{shift}": _row(
            f"jeanie-2v-both with at most {shift} views per step",
            _PATH, _TUNED_BOTH, {"align.shift": shift}, searches=_ANGLES,
        )
        for shift in (1, 2, 3, 4)
    },
    "jeanie-loss-v1": _row(
        "jeanie-2v-camvpc-tuned with the loss mean(d+)^2 + (mean(d-) - c)^2",
        _PATH, _TUNED, {"loss.kind": "squared"}, searches=_ANGLES_AND_TARGET,
    ),
    "jeanie-loss-v2": _row(
        "jeanie-2v-camvpc-tuned with the loss |mean(d+)| + |mean(d-) - c|",
        _PATH, _TUNED, {"loss.kind": "absolute"}, searches=_ANGLES_AND_TARGET,
    ),
    "fvm": _row("free viewpoint matching, Euler angles for the query", _FVM, _EULER),
    "fvm-both": _row(
        "free viewpoint matching, Euler angles for query and support", _FVM, _EULER, _BOTH_SIDES
    ),
    "fvm-camvpc": _row("free viewpoint matching, simulated cameras for the query", _FVM, _CAMERA),
    "fvm-camvpc-both": _row(
        "free viewpoint matching, simulated cameras for query and support", _FVM, _CAMERA, _BOTH_SIDES
    ),
    "udtw": _row("temporal alignment weighted by a learnt uncertainty", _NO_VIEWS, {"align.method": "udtw"}),
    "2d-pooled": _row("pooled on positions without depth", _POOL, _NO_VIEWS, {"inputs.prepare.flat": True}),
    "2d-soft-dtw": _row("soft-dtw on positions without depth", _SOFT_DTW, {"inputs.prepare.flat": True}),
}  # fmt: skip

_WITH_TRANSFORMER = {
    f"{name}-transformer": _row(
        f"{name} with the transformer", _ALIGNMENT[name]["changes"], _TRANSFORMER, searches=_ALIGNMENT[name]["searches"]
    )
    for name in (
        "pooled", "pooled-2v", "soft-dtw", "soft-dtw-2v", "jeanie-2v-euler", "jeanie-2v-euler-both-tuned",
        "jeanie-2v-camvpc", "jeanie-2v-both", "jeanie-shift-2", "fvm", "fvm-both",
    )
}  # fmt: skip

_FRONTAL = {
    "frontal-frame": _row(
        "soft-dtw with each frame turned to the frontal view", _SOFT_DTW, {"inputs.prepare.facing": "frame"}
    ),
    "frontal-block": _row("soft-dtw, each block turned to the frontal view", _SOFT_DTW, {"inputs.block_facing": True}),
    "trajectory-video": _row(
        "soft-dtw with each motion turned by the direction of its torso path",
        _SOFT_DTW, {"inputs.prepare.facing": "travel"},
    ),
    "trajectory-block": _row(
        "soft-dtw with each block turned by the direction of its torso path",
        _SOFT_DTW, {"inputs.block_travel": True, "inputs.prepare.centre": "start"},
    ),
}  # fmt: skip

_CLASSIFIERS = {
    "matching": _row("Matching Nets: attention over cosines of mean features", _POOL, _NO_VIEWS, _MATCHING),
    "matching-2v": _row(
        "Matching Nets, the most similar of the query's cameras", _POOL_TIME, _CAMERA, _MATCHING
    ),
    "prototype": _row("Prototypical Net: class means of mean features", _POOL, _NO_VIEWS, _PROTOTYPE),
    "prototype-2v": _row(
        "Prototypical Net, the most similar of the query's cameras", _POOL_TIME, _CAMERA, _PROTOTYPE
    ),
    "image-matching": _row("Matching Nets on motions as images", _POOL, _NO_VIEWS, _MATCHING, _WHOLE, _IMAGE),
    "image-prototype": _row(
        "Prototypical Net on motions as images", _POOL, _NO_VIEWS, _PROTOTYPE, _WHOLE, _IMAGE
    ),
    "image-block-soft-dtw": _row(
        "Prototypical Net on blocks as images, temporal alignment", _SOFT_DTW, _PROTOTYPE, _BLOCKS, _IMAGE
    ),
    "image-block-jeanie": _row(
        "Prototypical Net on blocks as images, temporal and view alignment",
        _PATH,
        _CAMERA,
        _PROTOTYPE,
        _BLOCKS,
        _IMAGE,
    ),
}

_PROTO_WHOLE = {**_POOL, **_NO_VIEWS, **_PROTOTYPE, **_WHOLE}
_DML_IMAGE = {**_METRIC, "encoder.kind": "image", "encoder.width": 32, "loss.classifier": 1.0}
_DML_THIRDS = {**_METRIC, "encoder.kind": "image-thirds", "encoder.width": 32}


def _build_rivals(suffix: str, note: str, cnn: Changes, dml: Changes) -> dict[str, Any]:
    """Return the compared systems that have networks over images, with the published networks or with small ones."""
    va_cnn = {**_VA_CNN, **cnn}
    return {
        f"prototype-va-cnn{suffix}": _row(
            f"Prototypical Net on a view-adaptive CNN{note}", _PROTO_WHOLE, va_cnn, _TURNED
        ),
        f"prototype-va-fusion{suffix}": _row(
            f"sum of the distances of prototype-va-rnn and prototype-va-cnn, trained jointly{note}",
            _PROTO_WHOLE, _VA_RNN, _TURNED, _SUMMED, components=(va_cnn,),
        ),
        f"va-soft-dtw{suffix}": _row(
            "Prototypical Net on a view-adaptive LSTM and CNN of blocks, temporal alignment, trained jointly "
            f"(VA*){note}",
            _SOFT_DTW, _PROTOTYPE, _BLOCKS, _VA_RNN, _TURNED, _SUMMED, components=(va_cnn,),
        ),
        f"sl-dml{suffix}": _row(
            "joints x frames as an image with x, y, z for colours, multi-similarity loss and miner, and a classifier "
            f"of the training classes{note}",
            _DML_IMAGE, dml, needs=("metric",),
        ),
        f"skeleton-dml{suffix}": _row(
            f"joints of each axis in threes as colours of an image, multi-similarity loss and miner{note}",
            _DML_THIRDS, dml, needs=("metric",),
        ),
    }  # fmt: skip


_RIVALS = {
    "prototype-va-rnn": _row("Prototypical Net on a view-adaptive LSTM", _PROTO_WHOLE, _VA_RNN, _TURNED),
    **_build_rivals("", "; published networks", _RESNET50, _RESNET18),
    **_build_rivals("-small", "; small networks", {}, {}),
}

_ALIGNMENTS: Mapping[str, tuple[str, Changes]] = {
    "pooled": ("no alignment", {**_POOL, **_NO_VIEWS}),
    "soft-dtw": ("temporal alignment", _SOFT_DTW),
    "jeanie": ("temporal and view alignment", {**_PATH, **_CAMERA}),
    "euclidean": (
        "temporal and view alignment, Euclidean",
        {**_PATH, **_CAMERA, "align.metric": "euclidean"},
    ),
    "rbf": ("temporal and view alignment, RBF", {**_PATH, **_CAMERA, "align.metric": "rbf"}),
}
_BACKBONES = {
    f"{graph}-{alignment}": _row(
        f"{graph} backbone, {text}", changes, {"encoder.kind": "graph", "encoder.graph": graph}
    )
    for graph in ("gcn", "sgc", "appnp", "s2gc")
    for alignment, (text, changes) in _ALIGNMENTS.items()
}

ROWS: Mapping[str, Any] = {
    **_ALIGNMENT,
    **_WITH_TRANSFORMER,
    **_FRONTAL,
    **_CLASSIFIERS,
    **_RIVALS,
    **_BACKBONES,
}
