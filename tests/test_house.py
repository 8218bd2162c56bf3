"""The architecture, held by a machine: who may import whom, how large a module is, which names are public."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "jeanie"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 400

# room -> rooms it may import; every room may import itself
MAY_IMPORT = {
    "errors": set(),
    "config": {"errors"},
    "terminal": {"errors"},
    "skeleton": {"errors"},
    "align": {"errors"},
    "datasets": {"errors", "skeleton"},
    "views": {"errors", "skeleton"},
    "encoders": {"errors", "config", "skeleton"},
    "fewshot": {"errors", "config", "skeleton", "views", "encoders", "align"},
    "experiments": {"errors", "config", "skeleton", "views", "encoders", "align", "datasets", "fewshot"},
    "recogniser": {"errors", "config", "skeleton", "datasets", "fewshot", "align"},
    "plots": {"errors", "skeleton", "align", "experiments"},
    "web": {"errors", "config", "skeleton", "datasets", "recogniser", "plots"},
}
EVERYTHING = {"cli", "__init__", "__main__"}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(path: Path) -> list[tuple[str, int]]:
    """(module, level) of every import in a file, also those inside functions."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            found.append((base, node.level))
            found += [(f"{base}.{alias.name}", node.level) for alias in node.names]
    return found


def violations(path: Path) -> list[str]:
    room = room_of(name_of(path))
    if room in EVERYTHING:
        return []
    allowed = MAY_IMPORT[room] | {room}
    ours = {module for module, _ in imports_of(path) if module.split(".")[0] == "jeanie" and "." in module}
    return [f"{room} imports {module}" for module in sorted(ours) if room_of(module) not in allowed]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_what_its_room_may(path):
    assert room_of(name_of(path)) in MAY_IMPORT.keys() | EVERYTHING, "a new room needs a row in MAY_IMPORT"
    assert violations(path) == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_are_absolute(path):
    assert [module for module, level in imports_of(path) if level] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_stays_small(path):
    assert len(path.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_public_names_exist(path):
    module = importlib.import_module(name_of(path))
    missing = [name for name in getattr(module, "__all__", []) if not hasattr(module, name)]
    assert missing == []


def test_the_modules_have_an_order():
    """A cycle between modules would make some import order fail."""
    graph = {
        name_of(path): {
            m
            for m, _ in imports_of(path)
            if (PACKAGE.parent / m.replace(".", "/")).exists()
            or (PACKAGE.parent / (m.replace(".", "/") + ".py")).exists()
        }
        for path in MODULES
    }
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, f"circular import: {' -> '.join((*above, module))}"
        if module not in done:
            for other in graph.get(module, ()):
                if other != module and not module.startswith(other + "."):
                    visit(other, (*above, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_importing_jeanie_does_no_work():
    """No optional library, no thread pool, no file is touched by ``import jeanie``."""
    optional = ("matplotlib", "scipy", "pandas", "fastapi", "onnx")
    code = f"import jeanie, sys; print([m for m in {optional} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
    assert shown.stderr == ""


# What examples, docs and other people's code may rely on: names and keyword arguments with their defaults
CONTRACT = {
    "align": {"gamma": 0.01, "shift": 1, "query_lengths": None, "support_lengths": None, "band": None,
              "plan": "smooth", "backend": "auto"},
    "fvm": {"gamma": 0.01, "view_gamma": None, "query_lengths": None, "support_lengths": None},
    "trace": {"gamma": 0.01, "shift": 1},
    "distances": {"metric": "rbf", "sigma": 2.0, "gamma": 0.01, "shift": 1, "query_lengths": None,
                  "support_lengths": None, "normalise": None, "pairs": "all"},
    "read_motion": {"format": None, "layout": None},
    "open_dataset": {"root": None},
    "Motion": {"label": None, "subject": None, "view": None, "rate": None, "name": None, "valid": None},
    "train": {},
    "evaluate": {},
    "EulerViews": {"azimuth": 45, "altitude": 45, "step": 15},
}  # fmt: skip
NAMES = {
    "Alignment",
    "BlockEncoder",
    "FewShotModel",
    "Protocol",
    "Recogniser",
    "Report",
    "CameraViews",
    "Layout",
    "LAYOUTS",
    "ShapeError",
    "ConfigError",
    "DataError",
    "JeanieError",
}


def test_the_public_contract_holds():
    import jeanie

    assert set(CONTRACT) | NAMES <= set(jeanie.__all__)
    for name, options in CONTRACT.items():
        found = inspect.signature(getattr(jeanie, name)).parameters
        assert {option: found[option].default for option in options} == options, name
