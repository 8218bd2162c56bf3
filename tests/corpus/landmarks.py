"""Landmarks of MediaPipe Pose as its users store them: JSON, CSV, numpy arrays, text."""

import gzip
import json

import numpy as np

from corpus.body import FRAMES, MP, MP_NAMES, RATE, Case, frames_of, pixels, relative, with_values, world
from corpus.writers import (
    TIME,
    bytes_file,
    frame_folder,
    json_file,
    long,
    npy_file,
    npz_file,
    table,
    text_file,
    wide,
)


def holistic():
    """543 landmarks of MediaPipe Holistic: face, left hand, pose, right hand."""
    points = np.zeros((FRAMES, 543, 3))
    points[:, 489:522] = relative()
    return points


def tutorial_rows():
    """Rows of 1,662 numbers of the sign-language tutorial: pose with visibility, then face and hands."""
    return np.concatenate([with_values(relative(), 0.9).reshape(FRAMES, 132), np.zeros((FRAMES, 1530))], 1)


def two_headers():
    """A table of pandas whose columns have two levels, and an index."""
    names = [name for name in MP_NAMES for _ in "xyz"]
    rows = [["", *names], ["", *"xyz" * 33], ["frame", *[""] * 99]]
    return table(None, [*rows, *([f, *world()[f].ravel().round(6).tolist()] for f in range(FRAMES))])


def both_spaces():
    titles = [f"{name}{kind}_{axis}" for kind in ("", "_world") for name in MP_NAMES for axis in "xyz"]
    rows = np.concatenate([relative().reshape(FRAMES, 99), world().reshape(FRAMES, 99)], 1)
    return table(titles, rows.round(6).tolist())


CASES = {
    "mediapipe world, JSON lines": Case("one json.dumps per frame", text_file("a.jsonl", lambda: "".join(
        json.dumps({"frame": f, "pose_world_landmarks": row}) + "\n" for f, row in enumerate(frames_of(world())))),
        "mediapipe", "hips"),
    "mediapipe MessageToDict": Case("google.protobuf.json_format.MessageToDict(results.pose_landmarks)", json_file(
        "a.json", lambda: [{"landmark": row} for row in frames_of(relative())]), "mediapipe", "relative"),
    "mediapipe MessageToDict, world": Case("MessageToDict(results.pose_world_landmarks)", json_file(
        "a.json", lambda: [{"landmark": row} for row in frames_of(world())]), "mediapipe", "hips"),
    "mediapipe dict by name": Case("{landmark.name: {x, y, z}} per frame", json_file("a.json", lambda: [
        dict(zip(MP_NAMES, row, strict=True)) for row in frames_of(relative())]), "mediapipe", "relative"),
    "mediapipe dicts with a name": Case("list of {name, x, y, z}", json_file("a.json", lambda: [
        [{"name": name, **landmark} for name, landmark in zip(MP_NAMES, row, strict=True)]
        for row in frames_of(world())]), "mediapipe", "hips"),
    "mediapipe dicts with an index": Case("list of {id, x, y, z}, unordered", json_file("a.json", lambda: [
        [{"id": at, **landmark} for at, landmark in reversed(list(enumerate(row)))] for row in frames_of(world())]),
        "mediapipe", "hips"),
    "mediapipe image and world": Case("both results per frame", json_file("a.json", lambda: {"fps": 30, "frames": [
        {"pose_landmarks": a, "pose_world_landmarks": b} for a, b in zip(frames_of(relative()), frames_of(world()),
        strict=True)]}), "mediapipe", "hips", rate=30.0),
    "mediapipe image with size": Case("pose_landmarks of a square video", json_file("a.json", lambda: {
        "width": 800, "height": 800, "frames": [{"pose_landmarks": row} for row in frames_of(relative())]}),
        "mediapipe", "relative"),
    "mediapipe tasks": Case("PoseLandmarkerResult of @mediapipe/tasks-vision", json_file("a.json", lambda: [
        {"landmarks": [a], "worldLandmarks": [b]} for a, b in zip(frames_of(relative()), frames_of(world()),
        strict=True)]), "mediapipe", "hips"),
    "mediapipe dict by frame": Case("{frame number: landmarks}", json_file("a.json", lambda: {
        str(f): {"landmarks": row} for f, row in enumerate(frames_of(relative()))}), "mediapipe", "relative"),
    "BlazePose of TensorFlow.js": Case("pose-detection estimatePoses", json_file("a.json", lambda: [
        {"score": 0.9, "keypoints": [{**point, "name": name.lower()} for name, point in zip(MP_NAMES, a, strict=True)],
         "keypoints3D": [{**point, "name": name.lower()} for name, point in zip(MP_NAMES, b, strict=True)]}
        for a, b in zip(frames_of(relative()), frames_of(world()), strict=True)]), "mediapipe", "hips"),
    "mediapipe npy": Case("np.save of [T, 33, 3]", npy_file("a.npy", world), "npy", "hips"),
    "mediapipe npy, image, visibility": Case("np.save of [T, 33, 4]", npy_file(
        "a.npy", lambda: with_values(relative(), 0.9)), "npy", "relative"),
    "mediapipe npy, rows of 99": Case("np.save of flattened frames", npy_file(
        "a.npy", lambda: world().reshape(FRAMES, 99)), "npy", "hips"),
    "mediapipe npy, rows of 132": Case("keypoints of the sign-language tutorials: x, y, z, visibility", npy_file(
        "a.npy", lambda: with_values(relative(), 0.9).reshape(FRAMES, 132)), "npy", "relative"),
    "mediapipe npz": Case("np.savez(keypoints=[T, 33, 5])", npz_file(
        "a.npz", keypoints=lambda: with_values(world(), 0.9, 0.8), fps=lambda: np.array(30)), "npz", "hips", rate=30.0),
    "mediapipe npy, y turned up": Case("np.save after y = -y and x = -x", npy_file(
        "a.npy", lambda: world() * [-1, -1, 1]), "npy", "hips"),
    "mediapipe CSV by name": Case("columns NOSE_x, NOSE_y, NOSE_z", text_file(
        "a.csv", lambda: wide(MP_NAMES, relative(), before=[("frame", int)])), "csv", "relative"),
    "mediapipe CSV by name, world": Case("columns nose_x, ... of world landmarks", text_file(
        "a.csv", lambda: wide([name.lower() for name in MP_NAMES], world(), before=[TIME])), "csv", "hips", rate=RATE),
    "mediapipe CSV x0": Case("columns x0, y0, z0, v0", text_file("a.csv", lambda: wide(
        range(33), with_values(world(), 0.9), "{axis}{name}", "xyzv")), "csv", "hips"),
    "mediapipe CSV 0_x": Case("columns 0_x, 0_y, 0_z", text_file("a.csv", lambda: wide(range(33), relative())), "csv",
        "relative"),
    "mediapipe CSV with a class": Case("class, x1, y1, z1, v1, ..., the body-language tutorial", text_file(
        "a.csv", lambda: wide(range(1, 34), with_values(relative(), 0.9), "{axis}{name}", "xyzv",
        before=[("class", lambda f: "wave")])), "csv", "relative"),
    "mediapipe CSV, one row per landmark": Case("frame, landmark, x, y, z", text_file(
        "a.csv", lambda: long(MP_NAMES, relative())), "csv", "relative"),
    "mediapipe CSV, one row per index": Case("frame, landmark (number), x, y, z", text_file(
        "a.csv", lambda: long(range(33), world())), "csv", "hips"),
    "mediapipe CSV without a header": Case("np.savetxt of rows of 99", text_file("a.csv", lambda: table(
        None, world().reshape(FRAMES, 99).round(6).tolist())), "csv", "hips"),
    "mediapipe tasks, Python": Case("PoseLandmarkerResult with presence, per person", json_file("a.json", lambda: [
        {"pose_landmarks": [a], "pose_world_landmarks": [b]} for a, b in zip(frames_of(relative(), presence=0.9),
        frames_of(world(), presence=0.9), strict=True)]), "mediapipe", "hips"),
    "mediapipe holistic": Case("MessageToDict of holistic results, camel case, hands missing", json_file(
        "a.json", lambda: [{"poseLandmarks": {"landmark": row}, "leftHandLandmarks": None, "faceLandmarks": {
        "landmark": row * 14}} for row in frames_of(relative())]), "mediapipe", "relative"),
    "mediapipe, microseconds": Case("time stamps of LIVE_STREAM", json_file("a.json", lambda: {"frames": [
        {"timestamp_us": round(f * 1e6 / RATE), "world_landmarks": row} for f, row in enumerate(frames_of(world()))]}),
        "mediapipe", "hips", rate=RATE),
    "mediapipe, milliseconds": Case("timestamp_ms of VIDEO mode, 25 per second", json_file("a.json", lambda: [
        {"timestamp_ms": 40 * f, "landmarks": row} for f, row in enumerate(frames_of(relative()))]),
        "mediapipe", "relative", rate=25.0),
    "mediapipe, header apart": Case("{metadata: {fps, width, height}, frames}", json_file("a.json", lambda: {
        "metadata": {"fps": 30, "width": 800, "height": 800}, "frames": [{"landmarks": row} for row in
        frames_of(relative())]}), "mediapipe", "relative", rate=30.0),
    "mediapipe, wide image": Case("1600 x 800: x in parts of the width", json_file("a.json", lambda: {
        "width": 1600, "height": 800, "frames": [{"pose_landmarks": [{"x": x, "y": 2 * y, "z": z} for x, y, z in row]}
        for row in relative().tolist()]}), "mediapipe", "relative"),
    "mediapipe dict by frame_0": Case("{frame_0: landmarks}", json_file("a.json", lambda: {
        f"frame_{f}": row for f, row in enumerate(frames_of(relative()))}), "mediapipe", "relative"),
    "mediapipe per person": Case("{frames: [{people: [{landmarks}]}]}", json_file("a.json", lambda: {"frames": [
        {"frame": f, "people": [{"id": 1, "landmarks": row}]} for f, row in enumerate(frames_of(relative()))]}),
        "mediapipe", "relative"),
    "mediapipe lmList": Case("cvzone and PoseModule: [id, x, y] in pixels", json_file("a.json", lambda: [
        [[at, x, y] for at, (x, y) in enumerate(row)] for row in pixels(MP).tolist()]), "mediapipe", "px"),
    "mediapipe lmList with z": Case("[id, x, y, z]", json_file("a.json", lambda: [
        [[at, *point] for at, point in enumerate(row)] for row in relative().tolist()]), "mediapipe", "relative"),
    "mediapipe without z": Case("{x, y} per landmark", json_file("a.json", lambda: [
        [{"x": 1000 * x, "y": 1000 * y} for x, y, _ in row] for row in relative().tolist()]), "mediapipe", "px"),
    "mediapipe flat lists": Case("99 numbers per frame", json_file("a.json", lambda: world().reshape(
        FRAMES, 99).tolist()), "mediapipe", "hips"),
    "mediapipe flat keypoints": Case("{frame, keypoints: 132 numbers}", json_file("a.json", lambda: [
        {"frame": f, "keypoints": row} for f, row in enumerate(with_values(relative(), 0.9).reshape(
        FRAMES, 132).tolist())]), "mediapipe", "relative"),
    "ML Kit": Case("{type, position: {x, y, z}, inFrameLikelihood}", json_file("a.json", lambda: [
        {"landmarks": [{"type": at, "position": {"x": 1000 * x, "y": 1000 * y, "z": 1000 * z},
        "inFrameLikelihood": 0.9} for at, (x, y, z) in enumerate(row)]} for row in relative().tolist()]),
        "mediapipe", "px"),
    "mediapipe gzip": Case("gzip of JSON", bytes_file("a.json.gz", lambda: gzip.compress(json.dumps(
        frames_of(world())).encode())), "mediapipe", "hips"),
    "mediapipe CSV gzip": Case("DataFrame.to_csv(a.csv.gz)", bytes_file("a.csv.gz", lambda: gzip.compress(
        wide(MP_NAMES, world()).encode())), "csv", "hips"),
    "mediapipe npz, image and world": Case("np.savez of both with visibility and times", npz_file(
        "a.npz", pose_landmarks=relative, pose_world_landmarks=world, visibility=lambda: np.ones((FRAMES, 33)),
        timestamps=lambda: np.arange(FRAMES) / RATE), "npz", "hips", rate=RATE),
    "mediapipe npy, 2-D": Case("np.save of [T, 33, 2] in pixels", npy_file("a.npy", lambda: pixels(MP)), "npy", "px"),
    "mediapipe npy, 543": Case("holistic landmarks of a sign-language contest", npy_file("a.npy", holistic), "npy",
        "relative"),
    "mediapipe npy, rows of 1662": Case("keypoints of the sign-language tutorial with face and hands", npy_file(
        "a.npy", tutorial_rows), "npy", "relative"),
    "mediapipe text": Case("np.savetxt with spaces", text_file("a.txt", lambda: "\n".join(
        " ".join(f"{value:.6f}" for value in row) for row in world().reshape(FRAMES, 99))), "csv", "hips"),
    "mediapipe CSV with an index": Case("DataFrame.to_csv with its index", text_file(
        "a.csv", lambda: wide(MP_NAMES, world(), before=[("", int)])), "csv", "hips"),
    "mediapipe CSV, two headers": Case("columns with two levels", text_file("a.csv", two_headers), "csv", "hips"),
    "mediapipe CSV, image and world": Case("NOSE_x and NOSE_world_x", text_file("a.csv", both_spaces), "csv", "hips"),
    "mediapipe CSV, dots": Case("columns NOSE.x, NOSE.visibility", text_file("a.csv", lambda: wide(
        MP_NAMES, with_values(world(), 0.9), "{name}.{axis}", ["x", "y", "z", "visibility"])), "csv", "hips"),
    "mediapipe CSV landmark_00_x": Case("numbers with zeros before them", text_file("a.csv", lambda: wide(
        [f"{at:02}" for at in range(33)], world(), "landmark_{name}_{axis}")), "csv", "hips"),
    "mediapipe CSV, rows by time": Case("timestamp, landmark, x, y, z", text_file("a.csv", lambda: table(
        ["timestamp", "landmark", "x", "y", "z"], [[round(f / RATE, 6), name, *world()[f, j].round(6).tolist()]
        for f in range(FRAMES) for j, name in enumerate(MP_NAMES)])), "csv", "hips", rate=RATE),
    "mediapipe CSV, rows without names": Case("frame, x, y, z: 33 rows per frame", text_file("a.csv", lambda: table(
        ["frame", "x", "y", "z"], [[f, *world()[f, j].round(6).tolist()] for f in range(FRAMES) for j in range(33)])),
        "csv", "hips"),
    "mediapipe, UTF-16": Case("PowerShell's > of a program's output", bytes_file("a.json", lambda: json.dumps(
        frames_of(relative())).encode("utf-16")), "mediapipe", "relative"),
    "mediapipe JSON lines with a header": Case("{fps} in the first line, a mark before it", bytes_file(
        "a.jsonl", lambda: b"\xef\xbb\xbf" + "\n".join(map(json.dumps, [{"fps": "30000/1001", "width": 800,
        "height": 800}, *({"landmarks": row} for row in frames_of(relative()))])).encode()),
        "mediapipe", "relative", rate=29.97),
    "mediapipe, lists by axis": Case("{x: [33], y: [33], z: [33]}", json_file("a.json", lambda: [
        dict(zip("xyz", row.T.tolist(), strict=True)) for row in relative()]), "mediapipe", "relative"),
    "mediapipe, capital letters": Case("{X, Y, Z}: C# serialisers", json_file("a.json", lambda: [
        [{"X": x, "Y": y, "Z": z} for x, y, z in row] for row in relative().tolist()]), "mediapipe", "relative"),
    "mediapipe, result in a frame": Case("{frame, result: {pose_landmarks}}", json_file("a.json", lambda: [
        {"frame": f, "result": {"pose_landmarks": [row]}} for f, row in enumerate(frames_of(relative()))]), "mediapipe",
        "relative"),
    "mediapipe folder": Case("one file of landmarks per frame", frame_folder(
        lambda f: {"pose_landmarks": frames_of(relative())[f]}), "mediapipe", "relative"),
}  # fmt: skip
