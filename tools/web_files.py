"""Fetch the files that the page of ``jeanie serve`` needs from other projects, and build its pose model.

    python tools/web_files.py

The packages come from npm at fixed versions and must have the SHA-256 given here. The results go to
``jeanie/serve/static/vendor``, which git ignores and wheels contain. Nothing is done if they are up to date.

A model of MediaPipe's Pose Landmarker is a zip of two TFLite networks. The package ``@mediapipe/pose`` has the networks
without the metadata that the landmarker needs: how pictures are normalised. It is added with the flatbuffers schema of
the Python package mediapipe.
"""

import hashlib
import importlib.util
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import flatbuffers

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "jeanie/serve/static/vendor"
AXE = ROOT / "build/axe.min.js"  # for the tests only
MANIFEST = "manifest.json"


class Package(NamedTuple):
    """An npm package at a fixed version."""

    name: str
    version: str
    sha256: str


TASKS_VISION = Package(
    "@mediapipe/tasks-vision", "0.10.35", "84597a25e13d123b5f4cbe768bb72e97a2c28c7a465f0ace287d8cbe5246bff0"
)
POSE = Package(
    "@mediapipe/pose", "0.5.1675469404", "8bb349a7b3a3ba699df23be804ddd3b3eab810b50b15406894be257859388a84"
)
AXE_CORE = Package("axe-core", "4.14.0", "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af")

COPIES = {
    "vision_bundle.mjs": "vision_bundle.mjs",
    "wasm/vision_wasm_module_internal.js": "vision_wasm_module_internal.js",
    "wasm/vision_wasm_module_internal.wasm": "vision_wasm_module_internal.wasm",
}
# file of @mediapipe/pose -> (name in the model, mean and standard deviation that normalise a picture)
DETECTOR = {"pose_solution_packed_assets.data": ("pose_detector.tflite", 127.5, 127.5)}
MODELS = {
    f"pose_landmarker_{size}.task": DETECTOR
    | {f"pose_landmark_{size}.tflite": ("pose_landmarks_detector.tflite", 0.0, 255.0)}
    for size in ("lite", "full")
}
NOTICE = f"""\
Files of other projects. Both are distributed under the Apache License 2.0, see LICENSE.

{TASKS_VISION.name} {TASKS_VISION.version} (https://github.com/google-ai-edge/mediapipe)
  {", ".join(COPIES.values())}: unchanged.
{POSE.name} {POSE.version} (https://github.com/google-ai-edge/mediapipe)
  {", ".join(MODELS)}: two networks of this package in one file each; metadata about the normalisation of
  pictures was added.
"""


def fetch(package: Package) -> dict[str, bytes]:
    """Download a package and return its files by path."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "npm",
            "pack",
            "--silent",
            "--pack-destination",
            folder,
            f"{package.name}@{package.version}",
        ]
        try:
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            sys.exit("npm is missing; install the package npm")
        archives = list(Path(folder).glob("*.tgz"))
        if result.returncode or len(archives) != 1:
            sys.exit(
                f"{package.name} {package.version}: npm cannot download it: {result.stderr.strip()[:400]}"
            )
        content = archives[0].read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != package.sha256:
        sys.exit(f"{package.name} {package.version}: SHA-256 is {digest}, expected {package.sha256}")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = [member for member in archive if member.isfile()]
        return {item.name.removeprefix("package/"): archive.extractfile(item).read() for item in members}


def load_schema(name: str) -> ModuleType:
    """Load a flatbuffers schema of the package mediapipe, without importing mediapipe itself."""
    package = importlib.util.find_spec("mediapipe")
    if package is None or not package.submodule_search_locations:
        sys.exit("mediapipe is missing; run make setup")
    path = Path(package.submodule_search_locations[0]) / "tasks/metadata" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def describe_normalisation(inputs: int, outputs: int, mean: float, std: float) -> bytes:
    """Return TFLite metadata that normalises the pictures of a network: (value - mean) / std."""
    schema = load_schema("metadata_schema_py_generated")
    options = schema.NormalizationOptionsT()
    options.mean, options.std = [mean], [std]
    unit = schema.ProcessUnitT()
    unit.optionsType, unit.options = schema.ProcessUnitOptions.NormalizationOptions, options
    colours = schema.ImagePropertiesT()
    colours.colorSpace = schema.ColorSpaceType.RGB
    content = schema.ContentT()
    content.contentPropertiesType = schema.ContentProperties.ImageProperties
    content.contentProperties = colours
    picture = schema.TensorMetadataT()
    picture.name, picture.content, picture.processUnits = "image", content, [unit]
    graph = schema.SubGraphMetadataT()
    graph.inputTensorMetadata = [picture, *(schema.TensorMetadataT() for _ in range(inputs - 1))]
    graph.outputTensorMetadata = [schema.TensorMetadataT() for _ in range(outputs)]
    model = schema.ModelMetadataT()
    model.subgraphMetadata = [graph]
    return finish_buffer(model, b"M001")


def finish_buffer(table: object, identifier: bytes) -> bytes:
    """Return a flatbuffers table as bytes."""
    builder = flatbuffers.Builder(0)
    builder.Finish(table.Pack(builder), identifier)
    return bytes(builder.Output())


def add_metadata(network: bytes, mean: float, std: float) -> bytes:
    """Return a TFLite network with metadata about the normalisation of its pictures."""
    schema = load_schema("schema_py_generated")
    model = schema.ModelT.InitFromPackedBuf(network, 0)
    graph = model.subgraphs[0]
    buffer = schema.BufferT()
    buffer.data = list(describe_normalisation(len(graph.inputs), len(graph.outputs), mean, std))
    entry = schema.MetadataT()
    entry.name, entry.buffer = "TFLITE_METADATA", len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or []), entry]
    return finish_buffer(model, b"TFL3")


def build_model(files: dict[str, bytes], networks: dict[str, tuple[str, float, float]]) -> bytes:
    """Return the model file: a zip without compression, the same bytes every time."""
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", zipfile.ZIP_STORED) as archive:
        for source, (name, mean, std) in networks.items():
            archive.writestr(zipfile.ZipInfo(name), add_metadata(files[source], mean, std))
    return result.getvalue()


def expect_packages() -> dict[str, str]:
    """Return what the manifest says if the files belong to the packages of this script."""
    own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return {
        "script": own,
        **{package.name: f"{package.version} {package.sha256}" for package in (TASKS_VISION, POSE)},
    }


def is_current() -> bool:
    """Return whether all files are there and belong to the packages of this script."""
    try:
        manifest = json.loads((VENDOR / MANIFEST).read_text())
        return (
            AXE.exists()
            and manifest["packages"] == expect_packages()
            and all(
                hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest
                for name, digest in manifest["files"].items()
            )
        )
    except (OSError, ValueError, LookupError):
        return False


def main() -> None:
    """Fetch and build everything that is missing or old."""
    if is_current():
        return
    vision = fetch(TASKS_VISION)
    files = {target: vision[source] for source, target in COPIES.items()}
    pose = fetch(POSE)
    files |= {name: build_model(pose, networks) for name, networks in MODELS.items()}
    files["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files["NOTICE"] = NOTICE.encode()
    AXE.parent.mkdir(parents=True, exist_ok=True)
    AXE.write_bytes(fetch(AXE_CORE)["axe.min.js"])
    new = VENDOR.with_name("vendor.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for name, content in files.items():
        (new / name).write_bytes(content)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    manifest = {"packages": expect_packages(), "files": digests}
    (new / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    shutil.rmtree(VENDOR, ignore_errors=True)
    new.rename(VENDOR)
    print(f"{VENDOR.relative_to(ROOT)}: {sum(map(len, files.values())) / 1e6:.1f} MB in {len(files)} files")


if __name__ == "__main__":
    main()
