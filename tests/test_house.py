"""The architecture as tests: who may import whom, how large modules are, how functions are named, what is public."""

import ast
import importlib
import inspect
import pkgutil
import re
import runpy
import subprocess
import sys
import textwrap
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


# What examples, docs and other people's code may rely on: names and keyword arguments with their defaults
CONTRACT = {
    "align": {"gamma": 0.01, "shift": 1, "query_lengths": None, "support_lengths": None, "band": None,
              "plan": "smooth", "backend": "auto"},
    "fvm": {"gamma": 0.01, "view_gamma": None, "query_lengths": None, "support_lengths": None},
    "trace": {"gamma": 0.01, "shift": 1},
    "distances": {"metric": "rbf", "sigma": 2.0, "gamma": 0.01, "shift": 1, "query_lengths": None,
                  "support_lengths": None, "normalise": None, "pairs": "all"},
    "read_motion": {"format": None, "layout": None, "unit": None, "up": None, "rate": None, "mirror": False,
                    "strict": False},
    "open_dataset": {"root": None, "pattern": None},
    "Motion": {"label": None, "subject": None, "view": None, "rate": None, "name": None, "valid": None},
    "train": {},
    "evaluate": {},
    "EulerViews": {"azimuth": 45, "altitude": 45, "step": 15},
}  # fmt: skip
NAMES = {
    "Library",
    "ModelConfig",
    "PROTOCOLS",
    "Recognition",
    "Run",
    "score",
    "TrainConfig",
    "convert",
    "count",
    "explain",
    "find",
    "label",
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
    assert set(CONTRACT) | NAMES <= set(jeanie.__all__)
    for name, options in CONTRACT.items():
        found = inspect.signature(getattr(jeanie, name)).parameters
        assert {option: found[option].default for option in options} == options, name


PUBLIC = importlib.import_module("jeanie")
PUBLIC_NAMES = [
    name
    for name in PUBLIC.__all__
    if inspect.isroutine(getattr(PUBLIC, name)) or inspect.isclass(getattr(PUBLIC, name))
]
ERRORS = {"ConfigError", "DataError", "JeanieError", "ShapeError"}  # each is one sentence, without parameters


def code_of(public: object) -> str:
    """Return the code that runs when a public function or class is called."""
    node = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(public)))).body[0]
    if not isinstance(node, ast.ClassDef):
        return ast.unparse(node)
    methods = [member for member in node.body if isinstance(member, ast.FunctionDef)]
    return "\n".join(
        ast.unparse(method)
        for method in methods
        if method.name in ("__init__", "__post_init__")
        or "validator" in "".join(map(ast.unparse, method.decorator_list))
    )


def described_names(text: str) -> set[str]:
    """Return the names in the sections Args and Attributes of a docstring: "a, b: meaning" describes a and b."""
    sections = re.findall(r"^(?:Args|Attributes):\n((?: .*\n|\n)+)", text + "\n", re.M)
    entries = [
        entry for section in sections for entry in re.findall(r"^    (\*{0,2}\w[\w, *]*):", section, re.M)
    ]
    return {name.strip(" *") for entry in entries for name in entry.split(",")}


def undescribed_parameters(public: object, text: str) -> list[str]:
    """Return the parameters without a meaning; the fields of a configuration have it in their description."""
    if fields := getattr(public, "model_fields", None):
        is_described = {
            name: field.description or "Config" in str(field.annotation) for name, field in fields.items()
        }
        return [
            name for name, is_fine in is_described.items() if not is_fine and name not in ("kind", "method")
        ]
    if getattr(public, "_is_protocol", False) or not (names := inspect.signature(public).parameters):
        return []
    return [name for name in names if not name.startswith("_") and name not in described_names(text)]


def missing_parts(public: object) -> list[str]:
    """Return what the docstring of a public function or class lacks: parameters, result, errors, example.

    A summary that starts with "Return" describes the result. Errors count if the code itself raises them.
    """
    text = inspect.getdoc(public) or ""
    missing = undescribed_parameters(public, text)
    has_result = not inspect.isclass(public) and inspect.signature(public).return_annotation not in (
        None,
        "None",
    )
    if has_result and "Returns:" not in text and not text.startswith("Return "):
        missing.append("Returns")
    if re.search(r"^ *raise \w+Error", code_of(public), re.M) and "Raises:" not in text:
        missing.append("Raises")
    return missing + ([] if ">>>" in text else ["example"])


@pytest.mark.parametrize("name", sorted(set(PUBLIC_NAMES) - ERRORS))
def test_public_docstrings_are_complete(name):
    assert missing_parts(getattr(PUBLIC, name)) == []


def test_the_check_of_docstrings_sees_what_is_missing():
    def incomplete(cost, *, gamma=0.1) -> float:
        """Align a pair.

        Args:
            cost: The costs.
        """
        raise ValueError

    assert missing_parts(incomplete) == ["gamma", "Returns", "Raises", "example"]
