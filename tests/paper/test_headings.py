"""Every column of the paper's tables measures what its heading says, and compared systems are the ones of their row.

As in ``test_rows``, the oracle reads printed text alone: headings of columns, and names of rows.
"""

import re

import pytest
from test_rows import OURS, list_measured

from jeanie.evaluation.protocols import PROTOCOLS
from jeanie.paper.tables import get_table, load_tables

SMALL_SETS = {"MSRAction3D": "msraction3d-splits", "3DAct.Pairs": "action-pairs", "UWA3DActivity": "uwa3d"}
HEIGHTS = {"bott.": "bottom", "cent.": "centre", "top": "top"}
SIDES = {"left": 2, "cent.": 1, "right": 3}  # camera 1 of NTU is the centre
NTU120 = re.compile(r"ntu120|NTU-120")


def find_cameras(cell):
    """Cameras of training, supports and queries in the only split of a measurement."""
    (name,) = cell.names
    rules = PROTOCOLS[cell.protocol].rules
    (cameras,) = [cameras for cameras in rules.cameras if name.endswith(cameras.name)]
    return {*cameras.train}, {*cameras.support}, {*cameras.query}


def check_views(cell, group, name):
    """Training view and testing view, as printed above the columns of the multi-view tables."""
    if cell.protocol == "uwa3d-multiview":
        trained, tested = {int(view) for view in re.findall(r"V(\d)", group)}, {int(name[1:])}
    else:
        names = SIDES if cell.protocol == "ntu120-horizontal" else HEIGHTS
        trained, tested = {names[view] for view in group.split(" & ")}, {names[name]}
    assert find_cameras(cell) == (trained, trained, tested)


@pytest.mark.parametrize("table", sorted(load_tables().keys() - {OURS}))
def test_a_column_measures_what_its_heading_says(table):
    for name, text, number, cell in list_measured():
        if name != table:
            continue
        column = get_table(table).columns[number]
        heading = f"{table} {column.group} {column.name}"
        way = re.search(r"(\d+)-way", heading)
        if "multiview" in table or table == "uwa3d-fvm":
            check_views(cell, column.group, column.name)
            if text.startswith("100/"):
                assert cell.names[0].startswith(text.split(" (")[0].removeprefix("100/"))
        elif column.group in SMALL_SETS:
            assert (cell.protocol, cell.way or PROTOCOLS[cell.protocol].way) == (
                SMALL_SETS[column.group], int(way[1]),
            )  # fmt: skip
        elif table == "kinetics":
            assert (cell.protocol, PROTOCOLS["kinetics"].train_classes) == ("kinetics", (200,))
        else:
            assert cell.protocol == ("ntu120-oneshot" if NTU120.search(heading) else "ntu60-oneshot")
            assert cell.train_classes == int(way[1] if way else column.name)
        block = re.fullmatch(r"M = (\d+)", text)
        stride = re.fullmatch(r"S = ([\d.]*)M", column.group)
        blocks = cell.recipe.model.inputs
        if block:
            assert (blocks.block, blocks.stride) == (int(block[1]), float(stride[1] or 1))
        assert cell.limit is None
        assert cell.splits is None  # all of the protocol, or the named one


RIVALS = [
    (name, row.name)
    for name, table in load_tables().items()
    if name != OURS
    for row in table.rows
    if row.method and re.search(r"VA|DML|image tensor", row.name)
]


@pytest.mark.parametrize(("table", "text"), RIVALS, ids=[f"{a}: {b}" for a, b in RIVALS])
def test_a_compared_system_is_the_one_that_its_row_names(table, text):
    networks = {"RNN": [("va-rnn", None)], "CNN": [("va-cnn", "resnet50")]}
    networks["fusion"] = networks["RNN"] + networks["CNN"]
    for cell in [cell for name, row, _, cell in list_measured() if (name, row) == (table, text)]:
        model, train = cell.recipe.model, cell.recipe.train
        parts = (model, *model.components)
        found = [(part.encoder.kind, part.encoder.network) for part in parts]
        kind = re.search(r"VA\*?-(RNN|CNN|fusion)", text)
        if kind:
            expected = networks[kind[1]]
            assert [(name, network if name == "va-cnn" else None) for name, network in found] == expected
            assert model.encoder.kind != "va-rnn" or model.encoder.width == 100
        elif "SL-DML" in text:
            assert found == [("image", "resnet18")]
        elif "Skeleton-DML" in text:
            assert found == [("image-thirds", "resnet18")]
        else:
            assert [name for name, _ in found] == ["image"]
        assert (train.loss.classifier > 0) == ("SL-DML" in text)
        assert (train.augment.yaw > 0 and train.augment.tilt > 0) == ("(aug.)" in text)
        assert len(parts) == 1 or train.fuse == "together"  # the loss of their sum trains both
        assert len({part.align for part in parts}) == 1  # all networks of a fusion are compared alike
        per_block = "per block" in text or "VA*" in text
        for part in parts:
            frames, block = part.inputs.prepare.frames, part.inputs.block
            assert (block == 8 and frames is None) if per_block else (block == frames)


@pytest.mark.parametrize(
    ("text", "facing", "block_facing", "block_travel"),
    [
        ("Each frame to frontal view", "frame", False, False),
        ("Each block to frontal view", "none", True, False),
        ("Traj. aligned baseline (video-level)", "travel", False, False),
        ("Traj. aligned baseline (block-level)", "none", False, True),
        ("soft-DTW (baseline)", "none", False, False),
    ],
)
def test_bodies_are_turned_as_the_row_says(text, facing, block_facing, block_travel):
    cells = [cell for name, row, _, cell in list_measured() if (name, row) == ("ntu60", text)]
    for cell in cells:
        inputs = cell.recipe.model.inputs
        assert (inputs.prepare.facing, inputs.block_facing, inputs.block_travel) == (
            facing, block_facing, block_travel,
        )  # fmt: skip
    assert len(cells) == 5
