"""Exports of motion-capture programs: Motive, Nexus, Qualisys, OpenSim, C3D, DeepLabCut."""

from importlib import import_module

import numpy as np

from corpus.body import BODY, COCO, FRAMES, RATE, Case, pixels, stack, with_values, z_up
from corpus.markers import baseline, cast, opencap, plug_in_gait, sports
from corpus.rigs import OPTITRACK
from corpus.writers import table, text_file


def motive(columns, *, units="Meters", scale=1.0, version="1.23", words=True):
    """Motive's CSV export: (type, name, positions or None for a rotation) per point."""
    facts = (f"Format Version,{version},Take Name,Take 1,Take Notes,,Capture Frame Rate,{RATE:f},Export Frame Rate,"
             f"{RATE:f},Rotation Type,Quaternion,Length Units,{units},Coordinate Space,Global")  # fmt: skip
    rows = [["", word if words else ""] for word in ("Type", "Name", "ID", "")] + [
        ["Frame", "Time (Seconds)"]
    ]
    for kind, name, places in columns:
        axes, value = ("XYZW", "Rotation") if places is None else ("XYZ", "Position")
        for axis in axes:
            for row, cell in zip(rows, (kind, name, "AB:12", value, axis), strict=True):
                row.append(cell)
    lines = [facts, "", *(",".join(row) for row in rows)]
    for frame in range(FRAMES):
        cells = [[0, 0, 0, 1] if places is None else [format_cell(v * scale) for v in places[frame]]
                 for _, _, places in columns]  # fmt: skip
        lines.append(
            ",".join([str(frame), f"{frame / RATE:.6f}", *(str(cell) for row in cells for cell in row)])
        )
    return "\n".join(lines) + "\n"


def format_cell(value):
    return "" if np.isnan(value) else f"{value:.6f}"


def motive_bones():
    """A skeleton of Motive: its root bone has the name of the skeleton, every bone a rotation and a position."""
    bones = [(f"Anna:{'Anna' if name == 'Hip' else name}", joint) for name, joint in OPTITRACK.items()]
    columns = [("Bone", name, places) for name, joint in bones for places in (None, BODY[joint])]
    other = [
        ("Bone Marker", "Anna:HeadTop", BODY["head"] + 0.2),
        ("Marker", "Unlabeled 1402", BODY["head"] * np.nan),
    ]
    return motive([*columns, *other], units="Millimeters", scale=1000)


def nexus(markers):
    """The ASCII export of Nexus: a section Devices, then Trajectories in millimetres, z up."""
    points = z_up(stack(markers, markers)) * 1000
    names = ",".join(f",,Patient:{name}" for name in markers)
    rows = [",".join([str(f + 1), "0", *map(format_cell, points[f].ravel())]) for f in range(FRAMES)]
    devices = ["Devices", "1000", ",,Force", "Frame,Sub Frame,Fx", ",,N", "1,0,0.5", "1,1,0.6", ""]
    head = ["Trajectories", f"{RATE:g}", names, "Frame,Sub Frame" + ",X,Y,Z" * len(markers),
            "," + ",mm" * 3 * len(markers)]  # fmt: skip
    return "\n".join([*devices, *head, *rows, ""]) + "\n"


def qualisys(markers):
    """A TSV export of Qualisys Track Manager with titles."""
    points = z_up(stack(markers, markers)) * 1000
    head = {"NO_OF_FRAMES": FRAMES, "NO_OF_CAMERAS": 8, "NO_OF_MARKERS": len(markers), "FREQUENCY": f"{RATE:g}",
            "NO_OF_ANALOG": 0, "ANALOG_FREQUENCY": 0, "DESCRIPTION": "--",
            "TIME_STAMP": "2024-05-02, 10:00:00.000\t1234.5", "DATA_INCLUDED": "3D",
            "MARKER_NAMES": "\t".join(markers)}  # fmt: skip
    lines = [f"{key}\t{value}" for key, value in head.items()]
    lines.append("\t".join(["Frame", "Time", *(f"{name} {axis}" for name in markers for axis in "XYZ")]))
    lines += [
        "\t".join([str(f + 1), f"{f / RATE:.5f}", *map(format_cell, points[f].ravel())])
        for f in range(FRAMES)
    ]
    return "\n".join(lines) + "\n"


def deeplabcut():
    names = [f"{name}" for name in COCO]
    points = with_values(pixels(COCO), 0.9)
    rows = [["scorer", *["DLC_net"] * 3 * len(names)], ["bodyparts", *(n for n in names for _ in range(3))],
            ["coords", *["x", "y", "likelihood"] * len(names)]]  # fmt: skip
    rows += [[f, *np.round(points[f].ravel(), 3).tolist()] for f in range(FRAMES)]
    return table(None, rows)


def kinovea_points():
    """Pixels with y up, as Kinovea shows them."""
    return pixels(COCO) * [1, -1]


def kinovea_csv():
    """A track per joint; quotes, and semicolons because the decimal separator is a comma."""
    titles = ["Time", *(f"{name.replace('_', ' ')}/0/{axis}" for name in COCO for axis in "XY")]
    rows = [[frame * 1000 / RATE, *kinovea_points()[frame].ravel()] for frame in range(FRAMES)]
    cells = [titles, *([f"{value:.3f}".replace(".", ",") for value in row] for row in rows)]
    return "".join(";".join(f'"{cell}"' for cell in row) + "\n" for row in cells)


def kinovea_text():
    lines = ["#Kinovea Trajectory data export", "#T X Y", ""]
    for name, places in zip(COCO, kinovea_points().swapaxes(0, 1), strict=True):
        rows = [
            f"{frame / RATE:.6f} {x:.2f} {y:.2f} ".replace(".", ",") for frame, (x, y) in enumerate(places)
        ]
        lines += [f"# {name.replace('_', ' ')}", *rows, ""]
    return "\n".join(lines)


def c3d_file(make, prefix=""):
    """A C3D file of ezc3d: millimetres, z up."""

    def write(folder):
        markers = make()
        file = import_module("ezc3d").c3d()
        file["parameters"]["POINT"]["RATE"]["value"] = [RATE]
        file["parameters"]["POINT"]["UNITS"]["value"] = ["mm"]
        file["parameters"]["POINT"]["LABELS"]["value"] = tuple(prefix + name for name in markers)
        points = z_up(stack(markers, markers)) * 1000
        file["data"]["points"] = np.concatenate([points, np.ones((*points.shape[:2], 1))], -1).transpose(
            2, 1, 0
        )
        file.write(str(folder / "walk.c3d"))
        return folder / "walk.c3d"

    return write


def trc(make=plug_in_gait):
    """OpenSim's TRC of the same markers: millimetres, y up."""
    markers = make()
    points = stack(markers, markers) * 1000
    head = "\t".join(f"{name}\t\t" for name in markers)
    axes = "\t".join(f"X{at}\tY{at}\tZ{at}" for at in range(1, len(markers) + 1))
    rows = "\n".join("\t".join([str(f + 1), f"{f / RATE:.5f}", *(f"{v:.3f}" for v in points[f].ravel())])
                     for f in range(FRAMES))  # fmt: skip
    fields = (
        "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames"
    )
    values = f"{RATE:g}\t{RATE:g}\t{FRAMES}\t{len(markers)}\tmm\t{RATE:g}\t1\t{FRAMES}"
    return f"PathFileType\t4\t(X/Y/Z)\twalk.trc\n{fields}\n{values}\nFrame#\tTime\t{head}\n\t\t{axes}\n\n{rows}\n"


CASES = {
    "C3D, Plug-in Gait": Case("Vicon Nexus", c3d_file(plug_in_gait, "Patient:"), "c3d", rate=RATE, needs="ezc3d"),
    "C3D, CAST": Case("Qualisys Track Manager", c3d_file(cast), "c3d", rate=RATE, needs="ezc3d"),
    "TRC, Plug-in Gait": Case("OpenSim", text_file("a.trc", trc), "trc", rate=RATE),
    "TRC, OpenCap": Case("OpenCap with the marker augmenter", text_file("a.trc", lambda: trc(opencap)), "trc",
        rate=RATE),
    "C3D, OptiTrack Baseline": Case("Motive, export C3D", c3d_file(baseline, "Anna_"), "c3d", rate=RATE, needs="ezc3d"),
    "Motive CSV, bones": Case("Motive 3, export CSV of a skeleton: mm, quaternions", text_file("a.csv", motive_bones),
        "motive", rate=RATE),
    "Motive CSV, markers": Case("Motive, Baseline (37): cm", text_file("a.csv", lambda: motive(
        [("Marker", f"Anna:{name}", places) for name, places in baseline().items()], units="Centimeters", scale=100)),
        "motive", rate=RATE),
    "Motive CSV 1.22": Case("Motive 2, Conventional (39), no words in the header", text_file("a.csv", lambda: motive(
        [("Skeleton Marker", f"S1:{name}", places) for name, places in plug_in_gait().items()], version="1.22",
        words=False)), "motive", rate=RATE),
    "Nexus CSV": Case("Nexus, export ASCII with devices", text_file("a.csv", lambda: nexus(plug_in_gait())), "nexus",
        rate=RATE),
    "Nexus text": Case("Nexus, export ASCII with tabs", text_file(
        "a.txt", lambda: nexus(plug_in_gait()).partition("Trajectories")[1]
        + nexus(plug_in_gait()).partition("Trajectories")[2].replace(",", "\t")), "nexus", rate=RATE),
    "Qualisys TSV": Case("Qualisys Track Manager, export TSV", text_file("a.tsv", lambda: qualisys(cast())), "qualisys",
        rate=RATE),
    "Qualisys TSV, sports": Case("sports marker set", text_file("a.tsv", lambda: qualisys(sports())), "qualisys",
        rate=RATE),
    "Kinovea CSV": Case("File, Export: one track per joint, with its name", text_file("a.csv", kinovea_csv), "kinovea",
        "px", rate=RATE),
    "Kinovea text": Case("the same for gnuplot", text_file("a.txt", kinovea_text), "kinovea", "px", rate=RATE),
    "DeepLabCut": Case("analyze_videos(save_as_csv=True)", text_file("a.csv", deeplabcut), "deeplabcut", "px"),
}  # fmt: skip
