"""Small valid files of every format for fuzzing: hand-made ones, and real ones from ``$JEANIE_DATA``."""

import io
import json
import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from corpus import CASES

from jeanie.datasets.archive.reader import open_archive
from jeanie.datasets.archive.writer import write_archive
from jeanie.datasets.format_table import FORMATS
from jeanie.datasets.formats.bvh import read_bvh
from jeanie.datasets.formats.c3d import read_c3d
from jeanie.datasets.formats.cmu import open_cmu
from jeanie.datasets.formats.csv_table import read_csv
from jeanie.datasets.formats.gcn_arrays import open_ctr_gcn, open_st_gcn
from jeanie.datasets.formats.hdf5 import open_hdf5
from jeanie.datasets.formats.kinect import (
    read_action_pairs,
    read_msr_screen,
    read_msr_world,
    read_nw_ucla,
    read_sbu,
)
from jeanie.datasets.formats.kinetics import read_kinetics
from jeanie.datasets.formats.mediapipe import read_mediapipe
from jeanie.datasets.formats.npz import read_npz, write_npz
from jeanie.datasets.formats.ntu import read_ntu
from jeanie.datasets.formats.openpose import read_openpose
from jeanie.datasets.formats.pyskl import open_pyskl
from jeanie.datasets.formats.trc import read_trc
from jeanie.datasets.formats.uwa import read_uwa3d
from jeanie.datasets.joint_names import CMU_SUBSET
from jeanie.datasets.layout_files import read_layout_file
from jeanie.datasets.sheets import read_sheet
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["Seed", "make_seeds"]

RANDOM = np.random.default_rng(2024)


@dataclass(frozen=True)
class Seed:
    """Files of a recording (or a whole folder), the files to damage, and their reader."""

    name: str
    files: dict[str, bytes]
    damage: tuple[str, ...]
    read: Callable[[Path], object]
    weight: float = 1.0


def _make_seed(read, name, data, **more):
    return Seed(f"{read.__name__} {name}", {name: data}, (name,), read, **more)


def _read_first(opener):
    """Return a reader of the first motions of a data set, with the name of the opener."""

    def read(path):
        dataset = opener(path)
        return [dataset[at] for at in range(min(2, len(dataset)))]

    read.__name__ = opener.__name__
    return read


def _rows(count, width, separator=" "):
    return (
        "\n".join(separator.join(f"{v:.4f}" for v in row) for row in RANDOM.normal(size=(count, width)))
        + "\n"
    )


def _bvh():
    return (
        "HIERARCHY\nROOT Hips\n{\n OFFSET 0 0 0\n"
        " CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation\n"
        " JOINT Spine\n {\n  OFFSET 0 20 0\n  CHANNELS 3 Zrotation Yrotation Xrotation\n"
        "  End Site\n  {\n   OFFSET 0 9 0\n  }\n }\n"
        " JOINT LeftUpLeg\n {\n  OFFSET 9 0 0\n  CHANNELS 2 Xrotation Yposition\n }\n}\n"
        "MOTION\nFrames: 4\nFrame Time: 0.0333\n" + _rows(4, 11)
    )


def _trc():
    return (
        "PathFileType\t4\t(X/Y/Z)\ta.trc\nDataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\n"
        "100\t100\t3\t2\tmm\t100\nFrame#\tTime\tHead\t\t\tR.Elbow\t\t\t\n\t\tX1\tY1\tZ1\tX2\tY2\tZ2\n\n"
        "1\t0.00\t1\t1700\t30\t200\t1100\t-40\n2\t0.01\t2\t1701\t31\t\t\t\n3\t0.02\t3\t1702\t32\t2\t3\t-4\n"
    )


def _csv():
    rows = "".join(f"{f},{f / 30},{p},1.{p},2,{f},note\n" for f in range(4) for p in range(2))
    return "frame,time,person,head_x,head_y,head_z,remark\n" + rows


def _ntu():
    joint = "0.1 0.2 3.0 250 200 900 500 -0.2 0.0 0.9 0.1 2\n"
    body = "72057594037931101 0 1 1 1 1 0 0.02 -0.1 2\n25\n" + joint * 25
    return "3\n1\n" + body + "0\n2\n" + body + body.replace("72057594037931101", "72057594037931102")


def _action_pairs():
    frame = "40\n" + _rows(40, 4)
    return "3 20\n" + frame + "0\n" + frame


def _kinetics():
    person = {"pose": [0.4, 0.5] * 18, "score": [0.9] * 18}
    frames = [{"frame_index": at + 1, "skeleton": [person] * (at % 3)} for at in range(4)]
    return json.dumps({"data": frames, "label": "dancing", "label_index": 7})


def _openpose():
    person = {"person_id": [-1], "pose_keypoints_2d": [100.0, 50.0, 0.9] * 25}
    return json.dumps([{"version": 1.3, "people": [person] * (1 + at % 2)} for at in range(3)])


def _mediapipe():
    landmark = {"x": 0.1, "y": -0.4, "z": 0.2, "visibility": 0.99}
    frames = [{"pose_world_landmarks": [landmark] * 33}, {}, {"pose_world_landmarks": [[landmark] * 33] * 2}]
    return json.dumps({"fps": 30, "width": 640, "height": 480, "frames": frames})


def _nw_ucla():
    return json.dumps(
        {"file_name": "a01_s01_e00_v01", "skeletons": RANDOM.normal(size=(3, 20, 3)).tolist(), "label": 1}
    )


def _layout():
    return json.dumps(LAYOUTS["core15"].to_dict())


def _toml_layout():
    return 'name = "mine"\njoints = ["a", "b"]\nbones = [["a", "b"]]\nroot = "a"\ntorso = 1\nup = "y"\n'


def _motion(**tags):
    joints = RANDOM.normal(size=(5, 2, 15, 3)).astype(np.float32)
    joints[1, 0, 3] = np.nan
    return Motion(joints, LAYOUTS["core15"], **tags)


def _npz(folder):
    write_npz(_motion(label="wave", rate=30.0, name="a"), folder / "a.npz")
    return (folder / "a.npz").read_bytes()


def _save_npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _pyskl():
    keypoint = RANDOM.normal(size=(1, 4, 17, 2)).astype(np.float16)
    about = {"frame_dir": "S001C001P001R001A001", "total_frames": 4, "img_shape": (480, 640), "label": 0,
             "keypoint": keypoint, "keypoint_score": np.ones((1, 4, 17), np.float16)}  # fmt: skip
    return pickle.dumps({"split": {"xsub_train": ["a"]}, "annotations": [about, about]}, protocol=4)


def _c3d(folder):
    ezc3d = import_module("ezc3d")
    made = ezc3d.c3d()
    made["parameters"]["POINT"]["RATE"]["value"] = [50]
    made["parameters"]["POINT"]["LABELS"]["value"] = ("LASI", "RASI", "C7")
    made["data"]["points"] = RANDOM.normal(size=(4, 3, 5))
    made.write(str(folder / "a.c3d"))
    return (folder / "a.c3d").read_bytes()


def _hdf5(folder):
    h5py = import_module("h5py")
    with h5py.File(folder / "a.hdf5", "w") as file:
        for name in ("a01_s02_e01", "a02_s02_e01"):
            file.create_group(name)["skeleton"] = RANDOM.normal(size=(15, 3, 6))
    return (folder / "a.hdf5").read_bytes()


def _mat():
    buffer = io.BytesIO()
    import_module("scipy.io").savemat(buffer, {"skeleton": RANDOM.normal(size=(15, 3, 6))})
    return buffer.getvalue()


def _mat73(folder):
    h5py = import_module("h5py")
    with h5py.File(folder / "b.mat", "w", userblock_size=512) as file:
        file["skeleton"] = RANDOM.normal(size=(6, 3, 15))
    return b"MATLAB 7.3 MAT-file".ljust(512) + (folder / "b.mat").read_bytes()[512:]


def _cmu():
    table = {"joints": list(CMU_SUBSET), "clips": [{"id": "01_02", "label": "walk"}, {"id": "01_03"}]}
    arrays = {key: RANDOM.integers(-9, 9, (4, 22, 3)).astype(np.int16) for key in ("01_02", "01_03")}
    return {"cmu_30fps.json": json.dumps(table).encode(), "cmu_30fps_mm.npz": _save_npz(**arrays)}


def _archive(folder):
    write_archive([_motion(label="a", name="x"), _motion(label=3)], folder / "archive", name="mine")
    return {path.name: path.read_bytes() for path in (folder / "archive").iterdir()}


def _real():
    """Yield small real files from ``$JEANIE_DATA``."""
    root = Path(os.environ["JEANIE_DATA"])
    picks = [
        (read_msr_world, "msraction3d/real3d_txt", "*.txt"),
        (read_msr_screen, "msraction3d/skeleton_txt", "*.txt"),
        (read_nw_ucla, "nw-ucla/all_sqe", "*.json"),
        (read_sbu, "sbu/s01s02", "*/*/skeleton_pos.txt"),
        (read_bvh, "bvh", "*.bvh"),
        (read_ntu, "ntu-samples", "*.skeleton"),
        (_read_first(open_pyskl), "pyskl-sample", "*.pkl"),
    ]
    for read, folder, pattern in picks:
        files = sorted((root / folder).glob(pattern), key=lambda path: (path.stat().st_size, path))
        for path in [file for file in files if file.stat().st_size > 500][:2]:
            yield Seed(
                f"{read.__name__} real {path.name}", {path.name: path.read_bytes()}, (path.name,), read
            )


def _corpus(folder):
    """Yield the files of the corpus, for the readers of their formats."""
    for number, (name, case) in enumerate(CASES.items()):
        place = folder / str(number)
        place.mkdir()
        if case.needs is None:
            path = case.write(place)
            files = {file.name: file.read_bytes() for file in sorted(place.iterdir()) if file.is_file()}
            if path.is_file() and len(files) == 1:
                read = FORMATS[case.form].read
                yield Seed(f"{case.form} {name}", files, (path.name,), read, weight=0.3)


def _sheet():
    return "file,label,subject,camera,take,start,end\na.csv,wave,anna,1,2,0.5,3\nb/c.npz,clap,,,,,\n"


def _excel():
    """The parts of an Excel file that openpyxl writes and the reader uses."""
    cells = '<c r="A{n}" t="s"><v>{a}</v></c><c r="B{n}" t="inlineStr"><is><t>{b}</t></is></c>'
    cells += '<c r="C{n}"><v>{c}</v></c>'
    rows = "".join(
        f'<row r="{n}">{cells.format(n=n, a=a, b=b, c=c)}</row>'
        for n, a, b, c in ((1, 0, "label", 0), (2, 1, "wave", 1.5))
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("xl/sharedStrings.xml", "<sst><si><t>file</t></si><si><t>a.csv</t></si></sst>")
        archive.writestr("xl/worksheets/sheet1.xml", f"<worksheet><sheetData>{rows}</sheetData></worksheet>")
    return buffer.getvalue()


def make_seeds() -> list[Seed]:
    """Return all seeds, always in the same order."""
    made = [
        _make_seed(read_bvh, "a.bvh", _bvh().encode(), weight=2),
        _make_seed(read_trc, "a.trc", _trc().encode(), weight=2),
        _make_seed(read_csv, "a.csv", _csv().encode(), weight=2),
        _make_seed(read_ntu, "S001C001P001R001A001.skeleton", _ntu().encode()),
        _make_seed(read_msr_world, "a01_s01_e01_skeleton3D.txt", _rows(60, 4).encode()),
        _make_seed(read_msr_screen, "a01_s01_e01_skeleton.txt", _rows(60, 4).encode()),
        _make_seed(read_action_pairs, "a01_s01_e01_skeleton.txt", _action_pairs().encode()),
        _make_seed(read_nw_ucla, "a01_s01_e00_v01.json", _nw_ucla().encode()),
        _make_seed(read_sbu, "skeleton_pos.txt", _rows(4, 91, ",").encode()),
        _make_seed(read_uwa3d, "a01_s01_e01.txt", _rows(5, 45).encode()),
        _make_seed(read_uwa3d, "a01_s01_e01.mat", _mat()),
        _make_seed(read_kinetics, "a.json", _kinetics().encode()),
        _make_seed(read_openpose, "a.json", _openpose().encode()),
        _make_seed(read_mediapipe, "a.json", _mediapipe().encode()),
        _make_seed(Layout.from_file, "layout.json", _layout().encode()),
        _make_seed(Layout.from_file, "layout.toml", _toml_layout().encode()),
        _make_seed(
            read_layout_file, "lab.toml", b'unit = "cm"\nup = "-z"\nrate = 30\n[aliases]\n"Kopf" = "head"\n'
        ),
        _make_seed(read_sheet, "list.csv", _sheet().encode()),
        _make_seed(read_sheet, "list.xlsx", _excel()),
        _make_seed(_read_first(open_pyskl), "a.pkl", _pyskl()),
        _make_seed(_read_first(open_ctr_gcn), "a.npz", _save_npz(**_ctr_gcn())),
        Seed("open_st_gcn", _st_gcn(), ("val_data.npy", "val_label.pkl"), _read_first(open_st_gcn)),
        Seed("open_cmu", files := _cmu(), tuple(files), _read_first(open_cmu)),
    ]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made += _corpus(folder)
        made.append(_make_seed(read_npz, "a.npz", _npz(folder), weight=2))
        made.append(
            Seed("open_archive", files := _archive(folder), tuple(files), _read_first(open_archive), 2)
        )
        if find_spec("ezc3d"):
            made.append(
                _make_seed(read_c3d, "a.c3d", _c3d(folder), weight=0.3)
            )  # the child process starts anew after each crash
        if find_spec("h5py"):
            made.append(_make_seed(read_uwa3d, "a01_s01_e02.mat", _mat73(folder)))
            made.append(_make_seed(_read_first(_open_uwa_hdf5), "a.hdf5", _hdf5(folder)))
    if os.environ.get("JEANIE_DATA"):
        made += _real()
    return made


def _open_uwa_hdf5(path):
    return open_hdf5(path, "uwa3d", LAYOUTS["openni15"])


def _ctr_gcn():
    return {f"{key}_{part}": array for part in ("train", "test") for key, array in
            (("x", RANDOM.normal(size=(2, 5, 150)).astype(np.float32)), ("y", np.eye(2)))}  # fmt: skip


def _st_gcn():
    data = RANDOM.normal(size=(2, 3, 6, 25, 2)).astype(np.float32)
    return {"val_data.npy": _npy(data), "val_label.pkl": pickle.dumps((["a", "b"], [0, 1]))}
