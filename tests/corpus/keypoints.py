"""Key points in images: OpenPose, COCO and the programs that write like them."""

import json

import numpy as np

from corpus.body import COCO, FRAMES, HALPE, Case, pixels, with_values
from corpus.writers import frame_folder, json_file, npy_file, text_file, wide
from jeanie.skeleton.layout import LAYOUTS


def openpose_person(frame, joints=LAYOUTS["openpose25"].joints):
    points = with_values(pixels(joints), 0.9)[frame]
    return {"person_id": [-1], "pose_keypoints_2d": np.round(points, 3).ravel().tolist(), "face_keypoints_2d": [],
            "hand_left_keypoints_2d": [], "hand_right_keypoints_2d": [], "pose_keypoints_3d": []}  # fmt: skip


def openpose_frame(frame):
    return {"version": 1.3, "people": [openpose_person(frame)]}


def openpose_folder(folder):
    """What --write_json makes: one file per frame."""
    place = folder / "json"
    place.mkdir()
    for frame in range(FRAMES):
        (place / f"video_{frame:012}_keypoints.json").write_text(json.dumps(openpose_frame(frame)))
    return place


def coco_person(frame, joints=COCO, **more):
    points = np.round(with_values(pixels(joints), 0.9)[frame], 3)
    return {"keypoints": points.ravel().tolist(), "score": 2.9, "category_id": 1, **more}


def mmpose_instance(frame, joints=COCO):
    points = pixels(joints)[frame]
    box = [[*points.min(0).tolist(), *points.max(0).tolist()]]
    return {
        "keypoints": points.tolist(),
        "keypoint_scores": [0.9] * len(points),
        "bbox": box,
        "bbox_score": 0.99,
    }


def whole_body(frame):
    """COCO-WholeBody: 17 points of the body, then feet, face and hands."""
    return [*mmpose_instance(frame)["keypoints"], *[[500.0, 500.0]] * 116]


def named_points(frame, **more):
    """Key points of TensorFlow.js: dicts with a name."""
    return [{"x": x, "y": y, "score": 0.9, "name": name, **more}
            for name, (x, y) in zip(COCO, pixels(COCO)[frame].tolist(), strict=True)]  # fmt: skip


def ultralytics(frame):
    x, y = pixels(COCO)[frame].T.tolist()
    return {"name": "person", "class": 0, "confidence": 0.91, "box": {"x1": 1.0, "y1": 2.0, "x2": 3.0, "y2": 4.0},
            "keypoints": {"x": x, "y": y, "visible": [0.9] * len(x)}}  # fmt: skip


CASES = {
    "OpenPose folder": Case("--write_json", openpose_folder, "openpose", "px"),
    "OpenPose list": Case("the files of a video in one list", json_file(
        "a.json", lambda: [openpose_frame(f) for f in range(FRAMES)]), "openpose", "px"),
    "OpenPose dict by frame": Case("{file name: frame}", json_file(
        "a.json", lambda: {f"{f:012}": openpose_frame(f) for f in range(FRAMES)}), "openpose", "px"),
    "OpenPose JSON lines": Case("one frame per line", text_file("a.jsonl", lambda: "".join(
        json.dumps(openpose_frame(f)) + "\n" for f in range(FRAMES))), "openpose", "px"),
    "OpenPose npy": Case("np.save of datum.poseKeypoints per frame", npy_file("a.npy", lambda: with_values(
        pixels(LAYOUTS["openpose25"].joints), 0.9)), "npy", "px"),
    "COCO annotations": Case("cocodataset.org/#format-data", json_file("a.json", lambda: {
        "images": [{"id": f, "file_name": f"{f}.jpg"} for f in range(FRAMES)], "categories": [{"id": 1}],
        "annotations": [coco_person(f, image_id=f, id=f) for f in range(FRAMES)]}), "coco", "px"),
    "COCO results": Case("result_keypoints.json of MMPose and ViTPose", json_file("a.json", lambda: [
        coco_person(f, image_id=f) for f in range(FRAMES)]), "coco", "px"),
    "AlphaPose": Case("alphapose-results.json, tracked", json_file("a.json", lambda: [
        coco_person(f, image_id=f"{f}.jpg", box=[1, 2, 3, 4], idx=1) for f in reversed(range(FRAMES))]), "coco", "px"),
    "AlphaPose, Halpe": Case("alphapose-results.json, 26 points", json_file("a.json", lambda: [
        coco_person(f, HALPE, image_id=f"{f}.jpg", idx=1) for f in range(FRAMES)]), "coco", "px"),
    "MMPose demo": Case("topdown_demo_with_mmdet.py --save-predictions", json_file("a.json", lambda: {
        "meta_info": {"dataset_name": "coco", "num_keypoints": 17},
        "instance_info": [{"frame_id": f + 1, "instances": [mmpose_instance(f)]} for f in range(FRAMES)]}),
        "coco", "px"),
    "MMPose inferencer": Case("MMPoseInferencer pred_out_dir of a video", json_file("a.json", lambda: [
        {"frame_id": f, "instances": [mmpose_instance(f)]} for f in range(FRAMES)]), "coco", "px"),
    "MMPose whole body": Case("133 points of COCO-WholeBody", json_file("a.json", lambda: [
        {"frame_id": f, "instances": [{"keypoints": whole_body(f), "keypoint_scores": [0.9] * 133}]}
        for f in range(FRAMES)]), "coco", "px"),
    "easy_ViTPose": Case("inference.py --save-json: [y, x, score]", json_file("a.json", lambda: {
        "keypoints": [{"0": with_values(pixels(LAYOUTS["vitpose25"].joints)[f][:, ::-1], 0.9).tolist()}
                      for f in range(FRAMES)], "skeleton": {"0": "nose"}}), "coco", "px"),
    "AlphaPose, by image": Case("--format open", json_file("a.json", lambda: {f"{f}.jpg": {
        "version": "AlphaPose v0.3", "bodies": [{"joints": coco_person(f)["keypoints"]}]} for f in range(FRAMES)}),
        "coco", "px"),
    "Ultralytics": Case("results.to_json() of YOLO pose models, one list per frame", json_file("a.json", lambda: [
        [ultralytics(f)] for f in range(FRAMES)]), "coco", "px"),
    "MoveNet": Case("pose-detection of TensorFlow.js", json_file("a.json", lambda: [
        [{"score": 0.9, "keypoints": named_points(f)}] for f in range(FRAMES)]), "coco", "px"),
    "PoseNet": Case("{part, position: {x, y}, score}", json_file("a.json", lambda: [{"score": 0.9, "keypoints": [
        {"part": point["name"], "position": {"x": point["x"], "y": point["y"]}, "score": 0.9}
        for point in named_points(f)]} for f in range(FRAMES)]), "coco", "px"),
    "OpenPifPaf": Case("openpifpaf.video --json-output", text_file("a.jsonl", lambda: "".join(json.dumps(
        {"frame": f + 1, "predictions": [coco_person(f, bbox=[1, 2, 3, 4])]}) + "\n" for f in range(FRAMES))), "coco",
        "px"),
    "COCO CSV, numbered": Case("columns x0, y0, c0 of 17 key points", text_file("a.csv", lambda: wide(
        range(17), with_values(pixels(COCO), 0.9), "{axis}{name}", "xyc")), "csv", "px"),
    "COCO npy": Case("np.save of [T, 17, 3]", npy_file("a.npy", lambda: with_values(pixels(COCO), 0.9)), "npy", "px"),
    "MMPose folder": Case("one file per image", frame_folder(lambda f: {"instances": [mmpose_instance(f)]}), "coco",
        "px"),
}  # fmt: skip
