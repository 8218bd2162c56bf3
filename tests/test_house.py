"""The architecture as tests: who may import whom, how large modules are, how functions are named, what is public."""

import ast
import importlib
import inspect
import pkgutil
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import jeanie

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "jeanie"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 400

# Folder or module -> what it may import besides itself. The order is that of the data: nothing imports upwards.
_BASE = {
    "errors",
    "config",
    "_internal",
    "compute",
    "kernel",
    "skeleton",
    "datasets",
    "views",
    "encoders",
    "alignment",
}
MAY_IMPORT = {
    "errors": set(),
    "config": {"errors"},
    "_internal": {"errors"},
    "compute": {"errors", "_internal"},
    "kernel": {"errors"},
    "skeleton": {"errors"},
    "datasets": {"errors", "_internal", "compute", "skeleton"},
    "views": {"errors", "skeleton"},
    "encoders": {"errors", "config", "kernel", "skeleton"},
    "alignment": {"errors", "kernel"},
    "fewshot": {"errors", "config", "_internal", "skeleton", "views", "encoders", "alignment"},
    "classifier": {"errors", "skeleton", "fewshot"},
    "plots": {"errors", "skeleton", "alignment"},
    "evaluation": _BASE | {"fewshot"},
    "training": _BASE | {"fewshot", "evaluation"},
    "pretraining": _BASE | {"fewshot", "training"},
    "paper": _BASE | {"fewshot", "evaluation", "training", "pretraining"},
    "recogniser": _BASE | {"fewshot", "plots"},
    "serve": _BASE | {"fewshot", "plots", "recogniser", "evaluation", "training", "pretraining", "paper"},
}
ENTRY_POINTS = {"cli", "__init__", "__main__"}  # these import everything, and nothing imports them

# The same law between the sub-folders of a folder: sub-folder -> sub-folders and modules beside it that it may import.
MAY_IMPORT_INSIDE = {
    "alignment.backends": {"validation"},
    "datasets.formats": {"clip_names", "dataset", "joint_names", "rig_names"},
    "datasets.archive": {"clip_names", "dataset", "formats"},
    "datasets.synthetic": {"clip_names", "dataset"},
    "fewshot.comparison": {"config", "features"},
    "evaluation.protocols": set(),
    "evaluation.report": {"evaluate", "predict", "protocols", "statistics"},
    "paper.methods": set(),
    "paper.tables": {"methods", "tuning"},
    "paper.tuning": {"methods"},
    "recogniser.library": set(),
    "recogniser.stream": {"confidence", "library", "gallery"},
    "recogniser.search": {"fingerprints", "gallery"},
    "recogniser.explain": {"gallery"},
    "recogniser.exercise": {"explain", "stream"},
}

# Function names that are a bare participle. Words of the field are fine: sorted, batched.
IRREGULAR_PARTICIPLES = {
    "begun", "built", "chosen", "done", "drawn", "found", "given", "held", "hidden", "kept", "known", "left", "lost",
    "made", "met", "said", "seen", "sent", "shown", "sought", "taken", "thrown", "told", "written",
}  # fmt: skip
NO_PARTICIPLES = {"embed", "feed", "need", "seed", "speed", "sorted", "batched"}
PREPOSITIONS = {"about", "at", "by", "from", "in", "of", "on", "to", "with"}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def get_cell_folder(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(path: Path) -> list[tuple[str, int]]:
    """Return (module, level) of every import in a file, also those inside functions."""
    imports: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imports += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            imports.append((base, node.level))
            imports += [(f"{base}.{alias.name}", node.level) for alias in node.names]
    return imports


def own_imports(path: Path) -> list[str]:
    return sorted({name for name, _ in imports_of(path) if name.split(".")[0] == "jeanie" and "." in name})


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_what_its_folder_may(path):
    folder = get_cell_folder(name_of(path))
    assert folder in MAY_IMPORT.keys() | ENTRY_POINTS, "a new folder needs a row in MAY_IMPORT"
    if folder not in ENTRY_POINTS:
        allowed = MAY_IMPORT[folder] | {folder}
        assert [name for name in own_imports(path) if get_cell_folder(name) not in allowed] == []


SUBFOLDERS = sorted(
    f"{path.parent.parent.name}.{path.parent.name}"
    for path in MODULES
    if path.name == "__init__.py" and path.parent.parent.parent == PACKAGE
)


def test_every_subfolder_has_a_law():
    assert [name for name in SUBFOLDERS if name not in MAY_IMPORT_INSIDE] == []


@pytest.mark.parametrize("subfolder", SUBFOLDERS)
def test_a_subfolder_imports_only_what_it_may(subfolder):
    folder, name = subfolder.split(".")
    allowed = MAY_IMPORT_INSIDE[subfolder] | {name}
    violations = []
    for path in sorted((PACKAGE / folder / name).rglob("*.py")):
        for imported in own_imports(path):
            parts = imported.split(".")
            if parts[1] == folder and len(parts) > 2 and parts[2] not in allowed:
                violations.append(f"{name_of(path)} imports {imported}")
    assert violations == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_are_absolute(path):
    assert [module for module, level in imports_of(path) if level] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_stays_small_and_has_no_banner_lines(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_LINES
    assert re.search(r"# ?[-=*]{6,}", text) is None


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_public_names_exist(path):
    module = importlib.import_module(name_of(path))
    assert [name for name in getattr(module, "__all__", []) if not hasattr(module, name)] == []


def has_work(function: ast.FunctionDef) -> bool:
    """Return whether a method does more than a property, an overload or a protocol's placeholder."""
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    return (
        not any(word in decorators for word in ("property", "overload"))
        and ast.unparse(function.body[-1]) != "..."
    )


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_public_functions_and_classes_have_docstrings(path):
    undocumented = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            undocumented += [] if ast.get_docstring(node) else [node.name]
            for member in node.body if isinstance(node, ast.ClassDef) else ():
                if (
                    isinstance(member, ast.FunctionDef)
                    and not member.name.startswith("_")
                    and has_work(member)
                ):
                    undocumented += [] if ast.get_docstring(member) else [f"{node.name}.{member.name}"]
    assert [name for name in undocumented if not name.endswith(".forward")] == []


def is_participle(name: str) -> bool:
    first, *others = name.strip("_").split("_")
    is_bare = not others or others[0] in PREPOSITIONS
    return (
        is_bare and first not in NO_PARTICIPLES and (first.endswith("ed") or first in IRREGULAR_PARTICIPLES)
    )


SCRIPTS = sorted(
    path for folder in ("benchmarks", "examples", "tests", "tools") for path in (ROOT / folder).rglob("*.py")
)


@pytest.mark.parametrize("path", [*MODULES, *SCRIPTS], ids=name_of)
def test_functions_are_named_by_verbs(path):
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and is_participle(node.name):
            is_value = any("property" in ast.unparse(one) for one in node.decorator_list)
            names += [] if is_value or node.name.startswith("test_") else [node.name]
    assert names == []


BENCHMARKS = sorted(path for path in (ROOT / "benchmarks").glob("*.py") if "def main" in path.read_text())
EXAMPLES = [ROOT / "examples" / name for name in ("synthetic_picture.py", "webcam.py")]


@pytest.mark.parametrize("path", [*BENCHMARKS, *EXAMPLES], ids=name_of)
def test_a_script_prints_its_help(path, monkeypatch, capsys):
    """The help needs no data, and printing it imports everything that the script imports."""
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(path), run_name="__main__")
    assert stopped.value.code == 0
    assert "usage:" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["camera_turn.py", "demo.py", "webcam.py"])
def test_examples_import_from_jeanie_alone(name):
    imported = own_imports(ROOT / "examples" / name)
    assert [one for one in imported if one.removeprefix("jeanie.") not in jeanie.__all__] == []


def test_no_package_name_hides_a_submodule():
    """``import jeanie.a.b`` must give the module b, so no package may hold a function of that name."""
    hidden = []
    for path in MODULES:
        if path.name == "__init__.py":
            package = importlib.import_module(name_of(path))
            for module in pkgutil.iter_modules(package.__path__):
                full = f"{package.__name__}.{module.name}"
                if not inspect.ismodule(getattr(package, module.name, package)):
                    hidden.append(full)
    assert hidden == []


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
    optional = ("matplotlib", "scipy", "pandas", "fastapi", "onnx", "sklearn")
    code = f"import jeanie, sys; print([m for m in {optional} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
    assert result.stderr == ""
