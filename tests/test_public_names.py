"""The public names: what programs may rely on, and that the docstring of each is complete."""

import ast
import importlib
import inspect
import re
import textwrap

import pytest

import jeanie

pytestmark = pytest.mark.plain  # the type-checking hook changes the source that these tests read

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
