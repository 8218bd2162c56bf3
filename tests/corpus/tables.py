"""Tables as spreadsheets, loggers and pandas write them, in CSV and JSON."""

from corpus.body import BODY, CORE, FRAMES, MP_NAMES, RATE, Case, relative, stack, with_values
from corpus.rigs import KINECT
from corpus.writers import TIME, bytes_file, core, json_file, table, text_file, wide


def map_cells(text, change):
    """Change every cell below the header."""
    first, *lines = text.splitlines()
    return "\n".join([first, *(",".join(map(change, line.split(","))) for line in lines)]) + "\n"


def records():
    return [{f"{name}_{axis}": relative()[f, j, at] for j, name in enumerate(MP_NAMES) for at, axis in enumerate("xyz")}
            for f in range(FRAMES)]  # fmt: skip


def with_units(text):
    first, *lines = text.splitlines()
    return "\n".join([first, ",".join(["s"] + ["m"] * 45), *lines]) + "\n"


def point_cells(cell, separator=","):
    """A table with one cell per joint; ``cell`` formats x, y and z."""
    rows = [[round(f / RATE, 6), *(cell.format(*map(float, point.round(5))) for point in stack(CORE)[f])]
            for f in range(FRAMES)]  # fmt: skip
    return table(["time", *CORE], rows, separator)


CASES = {
    "CSV, tuples": Case('"(0.1, 0.2, 0.3)": pandas with tuples', text_file("a.csv", lambda: point_cells(
        '"({}, {}, {})"')), "csv", rate=RATE),
    "CSV, vectors of Unity": Case("(0.1, 0.2, 0.3) without quotes: Vector3.ToString", text_file("a.csv", lambda: (
        point_cells("({}, {}, {})"))), "csv", rate=RATE),
    "CSV, arrays": Case("[0.1 0.2 0.3]: pandas with numpy arrays", text_file("a.csv", lambda: point_cells(
        "[{} {} {}]")), "csv", rate=RATE),
    "CSV, numpy scalars": Case("(np.float64(0.1), ...): csv.writer with tuples of numpy 2", text_file("a.csv", lambda: (
        point_cells('"(np.float64({}), np.float64({}), np.float64({}))"'))), "csv", rate=RATE),
    "CSV, dicts": Case("{'x': 0.1, ...}: pandas with dicts", text_file("a.csv", lambda: point_cells(
        "\"{{'x': {}, 'y': {}, 'z': {}}}\"")), "csv", rate=RATE),
    "CSV, vectors of Unreal": Case("X=0.1 Y=0.2 Z=0.3: FVector.ToString", text_file("a.csv", lambda: point_cells(
        "X={} Y={} Z={}")), "csv", rate=RATE),
    "CSV, one tuple per row": Case("frame, joint, position", text_file("a.csv", lambda: table(
        ["time", "joint", "position"], [[round(f / RATE, 6), name, '"({}, {}, {})"'.format(*stack(CORE)[f, j].round(5))]
                                        for f in range(FRAMES) for j, name in enumerate(CORE)])), "csv", rate=RATE),
    "CSV, numbered axes": Case("Head[0], Head[1], Head[2]", text_file("a.csv", lambda: core(
        title="{name}[{axis}]").replace("[x]", "[0]").replace("[y]", "[1]").replace("[z]", "[2]")), "csv", rate=RATE),
    "CSV, unit behind the axis": Case("head_x_mm", text_file("a.csv", lambda: core(
        title="{name}_{axis}_mm", scale=1000)), "csv", rate=RATE),
    "CSV, UTF-16": Case("Excel, Unicode text: tabs", bytes_file("a.txt", lambda: core().replace(",", "\t").encode(
        "utf-16")), "csv", rate=RATE),
    "CSV, UTF-16 without a mark": Case("Windows programs", bytes_file("a.csv", lambda: core().encode("utf-16-le")),
        "csv", rate=RATE),
    "CSV, UTF-8 with a mark": Case("Excel, CSV UTF-8", bytes_file("a.csv", lambda: b"\xef\xbb\xbf" + core().encode()),
        "csv", rate=RATE),
    "CSV, Windows-1252": Case("old programs: umlauts in the header", bytes_file("a.csv", lambda: core(
        before=[TIME, ("Prüfer", lambda _: "Jürgen")]).encode("cp1252")), "csv", rate=RATE),
    "CSV, semicolons, decimal commas": Case("Excel in German", text_file("a.csv", lambda: core().replace(
        ",", ";").replace(".", ",")), "csv", rate=RATE),
    "CSV, tabs, decimal commas": Case("LabVIEW in German", text_file("a.tsv", lambda: core().replace(
        ",", "\t").replace(".", ",")), "csv", rate=RATE),
    "CSV, decimal commas in quotes": Case('"0,95"', text_file("a.csv", lambda: map_cells(core(), lambda cell: (
        f'"{cell.replace(".", ",")}"'))), "csv", rate=RATE),
    "CSV, thousands": Case('"1,620.00" in millimetres', text_file("a.csv", lambda: map_cells(core(
        title="{name}_{axis} (mm)"), lambda cell: f'"{1000 * float(cell):,.2f}"')), "csv", rate=RATE),
    "CSV, bars": Case("cells separated by |", text_file("a.csv", lambda: core().replace(",", "|")), "csv", rate=RATE),
    "text, columns of spaces": Case("names and numbers separated by spaces", text_file("a.txt", lambda: core().replace(
        ",", "  ")), "csv", rate=RATE),
    "CSV, numpy's header": Case("np.savetxt(header=...)", text_file("a.csv", lambda: "# " + core()), "csv", rate=RATE),
    "CSV, sep=": Case("the first line that Excel understands", text_file("a.csv", lambda: "sep=;\n" + core().replace(
        ",", ";")), "csv", rate=RATE),
    "CSV, empty first rows": Case("a table that does not start in A1", text_file("a.csv", lambda: (
        "," * 45 + "\n") * 3 + core()), "csv", rate=RATE),
    "CSV, facts before the header": Case("a logger's facts about the recording", text_file("a.csv", lambda: (
        "Recording,session 4\nDate,2026-01-02\nRate,30\n\n" + core())), "csv", rate=RATE),
    "CSV, comments before the header": Case("lines with #", text_file("a.csv", lambda: (
        "# sensor 3, room 12\n# one, two\n" + core())), "csv", rate=RATE),
    "CSV, row of units": Case("s, m, m, ... below the header", text_file("a.csv", lambda: with_units(core())), "csv",
        rate=RATE),
    "CSV, times in milliseconds": Case("Zeit (ms)", text_file("a.csv", lambda: core(
        before=[("Zeit (ms)", lambda f: f * 40)])), "csv", rate=25.0),
    "CSV, plain times in milliseconds": Case("time: 0, 40, 80", text_file("a.csv", lambda: core(
        before=[("time", lambda f: f * 40)])), "csv", rate=25.0),
    "CSV, clock times": Case("12:00:00.040", text_file("a.csv", lambda: core(
        before=[("Time", lambda f: f"12:00:{0.04 * f:06.3f}")])), "csv", rate=25.0),
    "CSV, dates": Case("pandas.Timestamp", text_file("a.csv", lambda: core(
        before=[("timestamp", lambda f: f"2026-03-29 01:59:59.{40 * f:03}000")])), "csv", rate=25.0),
    "CSV, names of persons": Case("person: anna", text_file("a.csv", lambda: core(
        before=[("person", lambda _: "anna"), TIME])), "csv", rate=RATE),
    "CSV, quaternions": Case("x, y, z, qw, qx, qy, qz per joint", text_file("a.csv", lambda: wide(
        CORE, with_values(stack(CORE), 1.0, 0.0, 0.0, 0.5), axes=["x", "y", "z", "qw", "qx", "qy", "qz"],
        before=[TIME])), "csv", rate=RATE),
    "CSV, positions and rotations": Case("Head.Position.X, Head.Rotation.X", text_file("a.csv", lambda: wide(
        CORE, with_values(stack(CORE), 90.0, 0.0, 45.0), "{name}.{axis}", [
            f"{kind}.{axis}" for kind in ("Position", "Rotation") for axis in "XYZ"], before=[TIME])), "csv",
        rate=RATE),
    "CSV, translations": Case("head_tx, Maya", text_file("a.csv", lambda: core(title="{name}_t{axis}")), "csv",
        rate=RATE),
    "CSV, separator at the end": Case("a comma after every row, not after the header", text_file(
        "a.csv", lambda: core().replace("\n", ",\n").replace(",\n", "\n", 1)), "csv", rate=RATE),
    "CSV, JointType": Case("Kinect SDK: Frame, JointType, X, Y, Z, TrackingState", text_file("a.csv", lambda: table(
        ["Frame", "JointType", "X", "Y", "Z", "TrackingState"], [[f, name, *BODY[joint][f].round(6).tolist(), "Tracked"]
        for f in range(FRAMES) for name, joint in KINECT.items()])), "csv"),
    "JSON records": Case("DataFrame.to_json(orient='records')", json_file("a.json", records), "json-table",
        "relative"),
    "JSON columns": Case("DataFrame.to_json()", json_file("a.json", lambda: {
        name: {str(f): row[name] for f, row in enumerate(records())} for name in records()[0]}), "json-table",
        "relative"),
    "JSON split": Case("DataFrame.to_json(orient='split')", json_file("a.json", lambda: {
        "columns": list(records()[0]), "index": list(range(FRAMES)),
        "data": [list(row.values()) for row in records()]}), "json-table", "relative"),
    "JSON rows per landmark": Case("[{frame, landmark, x, y, z}]", json_file("a.json", lambda: [
        {"frame": f, "landmark": name, "x": x, "y": y, "z": z} for f, row in enumerate(relative().tolist())
        for name, (x, y, z) in zip(MP_NAMES, row, strict=True)]), "json-table", "relative"),
    "JSON points by joint": Case("{Head: [[x, y, z], ...]}", json_file("a.json", lambda: {
        name: BODY[joint].tolist() for name, joint in KINECT.items()}), "json-table"),
}  # fmt: skip
