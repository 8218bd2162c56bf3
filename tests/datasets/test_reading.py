"""Recordings as declared: units, axes, layout files, warnings; folders and sheets as data sets."""

import io
import re
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from corpus import CASES, stack
from corpus.rigs import VICON
from corpus.writers import wide

from jeanie.datasets import ReadOptions, open_dataset, read_motion
from jeanie.datasets.folders import drop_unreadable, list_recordings, open_folder
from jeanie.datasets.formats.units import UPS, rotate_to_y_up
from jeanie.datasets.joint_names import suggest_joints
from jeanie.datasets.layout_files import format_layout_file, read_layout_file
from jeanie.datasets.reading import collect_names
from jeanie.datasets.rig_names import normalise_name, translate_names
from jeanie.datasets.sheets import is_sheet, read_sheet
from jeanie.errors import ConfigError, DataError, RecordingWarning


@pytest.fixture
def table(tmp_path):
    """Centimetres, z up."""
    points = stack(VICON.values())
    turned = np.stack([points[..., 0], -points[..., 2], points[..., 1]], -1)
    path = tmp_path / "a.csv"
    path.write_text(wide(list(VICON), turned, scale=100))
    return path


@pytest.mark.parametrize("up", UPS)
def test_every_up_axis_is_a_rotation_that_brings_it_to_y(up):
    matrix = rotate_to_y_up(np.eye(3), up).T  # columns are the images of the axes
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3))
    assert np.linalg.det(matrix) == pytest.approx(1.0)
    axis = np.eye(3)["xyz".index(up[-1])] * (-1 if up.startswith("-") else 1)
    np.testing.assert_allclose(matrix @ axis, [0, 1, 0])


def test_an_implausible_recording_warns_or_is_refused(table):
    with pytest.warns(RecordingWarning) as found:
        read_motion(table)
    texts = [str(one.message) for one in found]
    assert any("--unit cm" in text for text in texts)
    assert any("--up z" in text for text in texts)
    with pytest.raises(DataError, match=r"a\.csv: the body is .* m tall"):
        read_motion(table, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_motion(table, unit="cm", up="z", strict=True)


@pytest.mark.errors
@pytest.mark.parametrize(
    ("name", "change", "advice"),
    [
        ("BVH, Mixamo", lambda text: rescale_bvh(text, 0.01), "unit='m' (--unit m)"),
        ("BVH, Mixamo", lambda text: rescale_bvh(text, 1 / 2.54), "unit='in' (--unit in)"),
        ("mediapipe world, JSON lines", lambda text: re.sub(
            r'"([xy])": (-?)', lambda match: f'"{match[1]}": ' + ("" if match[2] else "-"), text), "up='y' (--up y)"),
        ("Xsens MVNX", lambda text: re.sub(
            r"<position>([^<]*)", lambda match: "<position>" + lay_down(match[1]), text), "up='y' (--up y)"),
    ],
    ids=["bvh in m", "bvh in inches", "mediapipe", "mvnx"],
)  # fmt: skip
def test_advice_is_about_the_numbers_of_the_file(tmp_path, name, change, advice):
    path = CASES[name].write(tmp_path)
    path.write_text(change(path.read_text()))
    with pytest.warns(RecordingWarning) as found:
        read_motion(path)
    assert any(advice in str(warning.message) for warning in found), [str(one.message) for one in found]
    declared = re.search(r"(unit|up)='(\w+)'", advice)
    read_motion(path, strict=True, **{declared[1]: declared[2]})


def rescale_bvh(text, factor):
    """Multiply the positions of a BVH file whose rotations are 0 by a factor."""
    head, motion = text.split("MOTION")
    first, count, step, *rows = motion.split("\n")
    scaled = (" ".join(str(factor * float(value)) for value in row.split()) for row in rows)
    return "\n".join([head + "MOTION" + first, count, step, *scaled])


def lay_down(numbers):
    """Points with z up, (x, y, z), as points with y up: (x, z, -y)."""
    points = np.array(numbers.split(), float).reshape(-1, 3)[:, [0, 2, 1]] * [1, 1, -1]
    return " ".join(map(str, points.ravel()))


def test_wrong_declarations_name_the_choices(table):
    with pytest.raises(ConfigError, match="unit must be one of m, dm, cm"):
        read_motion(table, unit="furlong")
    with pytest.raises(ConfigError, match="up must be the axis that points up, one of y, x, z"):
        read_motion(table, up="w")
    with pytest.raises(ConfigError, match=r"no layout 'mine'; the known ones are .* or give a layout file"):
        read_motion(table, layout="mine")


@pytest.mark.errors
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unit = 'furlong'", "unit must be one of"),
        ("up = 'north'", "up must be the axis"),
        ("rate = -3", "rate is frames per second"),
        ("color = 1", "unknown color; the keys are name, unit"),
        ("aliases = 3", "aliases is a table"),
        ("bones = [['a']]", r"bones is a list of \[parent, child\]"),
        ("joints = ['head', 'head']", "more than once"),
        ("= 3", "cannot be read as a layout"),
    ],
)
def test_a_wrong_layout_file_names_its_cause(tmp_path, text, message):
    path = tmp_path / "lab.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as error:
        read_layout_file(path)
    assert str(path) in str(error.value)


def test_the_template_of_a_layout_file_reads_back(table, tmp_path):
    _, names = collect_names(table)
    assert names == list(VICON)
    suggested = suggest_joints(names)
    assert suggested == VICON
    path = tmp_path / "lab.toml"
    path.write_text(format_layout_file(table, suggested, unit="cm", up="z", rate=None))
    motion = read_motion(table, layout=path, strict=True)
    assert motion.layout.name == "a"
    assert motion.layout.joints == tuple(VICON.values())


def test_a_layout_file_may_leave_points_out_and_name_bones(table, tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text('unit="cm"\nup="z"\nbones=[["neck", "head"]]\n[aliases]\n"Torso" = ""\n')
    layout = read_motion(table, layout=path).layout
    assert "torso" not in layout.joints
    assert layout.bones == ((layout.index("neck"), layout.index("head")),)


def test_names_of_joints_and_of_bones_are_told_apart():
    joints = ["left_shoulder", "left_elbow", "left_wrist", "left_hand", "left_foot"]
    assert translate_names(joints) == joints
    bones = [
        normalise_name(name) for name in ("LeftShoulder", "LeftArm", "LeftForeArm", "LeftHand", "LeftFoot")
    ]
    assert translate_names(bones) == [
        "left_clavicle",
        "left_shoulder",
        "left_elbow",
        "left_wrist",
        "left_ankle",
    ]


@pytest.fixture
def folder(tmp_path, table):
    root = tmp_path / "clips"
    for name in ("wave/anna_1", "wave/ben_2", "clap/anna_1"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / f"{name}.csv").write_bytes(table.read_bytes())
    return root


OPTIONS = ReadOptions(unit="cm", up="z", rate=30.0, strict=True)


def test_a_pattern_gives_the_tags(folder):
    (folder / "notes.txt").write_text("no recording")
    (folder / "wave" / "odd.csv").write_bytes((folder / "wave" / "anna_1.csv").read_bytes())
    dataset = open_dataset(folder, pattern="{label}/{subject}_{take}", options=OPTIONS)
    assert (dataset.labels, dataset.subjects, dataset.takes) == (
        ("clap", "wave", "wave"),
        ("anna", "anna", "ben"),
        (1, 1, 2),
    )
    assert dict(dataset.dropped).keys() == {"notes.txt", "wave/odd.csv"}
    assert (dataset[2].label, dataset[2].subject, dataset[2].take, dataset[2].rate) == (
        "wave",
        "ben",
        2,
        30.0,
    )
    own = open_dataset("msraction3d", folder, pattern="{label}/{}", options=OPTIONS)
    assert own.labels == ("clap", "wave", "wave", "wave")


@pytest.mark.errors
@pytest.mark.parametrize("pattern", ["{subject}", "{label}/{color}", "{label}{label}", "{label", "label"])
def test_a_wrong_pattern_says_what_one_is(folder, pattern):
    with pytest.raises(ConfigError, match=r"pattern is a path with \{label\}"):
        open_dataset(folder, pattern=pattern)


def excel(rows):
    """A sheet as Excel stores it: texts in a shared list, numbers in the cells, empty cells left out."""
    texts = list(dict.fromkeys(cell for row in rows for cell in row if isinstance(cell, str)))
    lines = []
    for n, row in enumerate(rows, 1):
        cells = [
            f'<c r="{"ABCDEFG"[c]}{n}" t="s"><v>{texts.index(cell)}</v></c>'
            if isinstance(cell, str)
            else f'<c r="{"ABCDEFG"[c]}{n}"><v>{cell}</v></c>'
            for c, cell in enumerate(row)
            if cell is not None
        ]
        lines.append(f'<row r="{n}">{"".join(cells)}</row>')
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        shared = "".join(f"<si><t>{text}</t></si>" for text in texts)
        archive.writestr("xl/sharedStrings.xml", f"<sst {space}>{shared}</sst>")
        archive.writestr(
            "xl/worksheets/sheet1.xml",
            f"<worksheet {space}><sheetData>{''.join(lines)}</sheetData></worksheet>",
        )
    return buffer.getvalue()


ROWS = [
    ["file", "label", "subject", "camera", "start", "end"],
    ["wave/anna_1.csv", "wave", "anna", "left", 0.1, 0.2],
    ["clap/anna_1.csv", "clap", None, None, None, None],
]


@pytest.mark.parametrize("ending", ["csv", "xlsx", "tsv"])
def test_a_sheet_lists_recordings(folder, ending):
    path = folder / f"list.{ending}"
    separator = "\t" if ending == "tsv" else ","
    text = "\n".join(separator.join("" if cell is None else str(cell) for cell in row) for row in ROWS)
    path.write_bytes(excel(ROWS) if ending == "xlsx" else text.encode())
    for dataset in (open_dataset(folder, pattern=path, options=OPTIONS), open_dataset(path, options=OPTIONS)):
        assert (dataset.labels, dataset.subjects, dataset.views) == (
            ("wave", "clap"),
            ("anna", None),
            ("left", None),
        )
        assert [len(motion) for motion in dataset.motions] == [3, 6]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("titled.xlsx", excel([["Study 3"], [], *ROWS])),
        ("german.xlsx", excel([["Datei", "Klasse", "Person", "Kamera", "Start (s)", "End (s)"], *ROWS[1:]])),
        ("titled.csv", b"Study 3\n\nfilename,action\nwave/anna_1.csv,wave\nclap/anna_1.csv,clap\n"),
        ("unicode.csv", "file;label\nwave/anna_1.csv;wave\nclap/anna_1.csv;clap\n".encode("utf-16")),
        ("windows.csv", b"File;Label\r\nwave\\anna_1.csv;wave\r\nclap\\anna_1.csv;clap\r\n"),
    ],
    ids=["titled.xlsx", "german.xlsx", "titled.csv", "unicode.csv", "windows.csv"],
)
def test_a_sheet_may_have_other_titles_rows_before_them_and_paths_of_windows(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    for dataset in (open_dataset(folder, pattern=path, options=OPTIONS), open_dataset(path, options=OPTIONS)):
        assert dataset.labels == ("wave", "clap")
        assert [len(motion) for motion in dataset.motions] == [
            3 if "german" in name or "titled.x" in name else 6,
            6,
        ]


def test_a_recording_whose_facts_name_its_file_is_no_sheet(folder):
    path = folder / "wave" / "anna_1.csv"
    path.write_text("File,session.csv\n\n" + path.read_text())
    assert not is_sheet(path)
    assert len(open_dataset(path, options=OPTIONS)) == 1


@pytest.mark.errors
def test_a_wrong_sheet_names_the_row(tmp_path):
    path = tmp_path / "list.csv"
    for text, message in (
        ("label\nwave\n", "needs a column file.* starts with label"),
        ("file,start\na.csv,soon\n", "row 2: start is in seconds, got 'soon'"),
        ("file,label\n,wave\n", "row 2: no file"),
        ("file\n", "lists no recordings"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            read_sheet(path)


def test_unreadable_recordings_can_be_dropped(folder):
    (folder / "wave" / "bad_3.csv").write_text("a_x,a_y,a_z\n1,2\n")
    dataset = drop_unreadable(open_folder(folder, pattern="{label}/{subject}_{take}", options=OPTIONS))
    assert [name for name, _ in dataset.dropped] == ["wave/bad_3.csv"]
    assert len(dataset) == 3


def test_a_folder_of_openpose_frames_is_one_recording(tmp_path):
    CASES["OpenPose folder"].write(tmp_path)
    assert list_recordings(tmp_path) == [tmp_path / "json"]
    assert len(open_dataset(tmp_path)[0]) == 6


def test_a_pickled_data_set_reads_with_the_same_options(folder):
    import pickle

    data = pickle.dumps(open_dataset(folder, pattern="{label}/{}", options=OPTIONS))
    dataset = pickle.loads(data)  # noqa: S301
    assert dataset[0].layout.unit == "m"
    assert float(dataset[0].joints[..., 1].max()) == pytest.approx(1.62, abs=0.01)
    assert Path(dataset.clips[0].source).name == "anna_1.csv"
