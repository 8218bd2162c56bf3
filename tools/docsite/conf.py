"""Options of Sphinx. Nothing on the site needs a network: no web fonts, no content delivery network."""

import os
import re
from importlib.metadata import version as find_version

project = "jeanie"
copyright = "The jeanie developers"
version = release = find_version("jeanie")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 4
exclude_patterns = ["files/**"]
html_theme = "furo"
html_title = f"jeanie {release}"
html_static_path = ["_static"]
html_css_files = ["jeanie.css"]
html_js_files = ["jeanie.js"]
html_show_sourcelink = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = ">>> |\\.\\.\\. "
copybutton_prompt_is_regexp = True
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False  # shapes such as "*views" are no markup
highlight_language = "text"
smartquotes = False  # two hyphens begin an option
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"
linkcheck_ignore = [".*"]
html_baseurl = os.environ.get("JEANIE_DOCS_URL", "")

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields|Example|Examples|Note):$")


def mark_up_docstring(app, what, name, obj, options, lines):
    """Show indented formulas as they are written, and ``|`` and ``*`` as themselves."""
    marked: list[str] = []
    in_section = in_formula = False
    for number, line in enumerate(lines):
        in_section = bool(_SECTION.match(line)) or (in_section and (not line or line.startswith(" ")))
        is_indented = line.startswith("    ") and not in_section
        if is_indented and not in_formula and (number == 0 or not lines[number - 1]):
            marked += ["::", ""]
            in_formula = True
        elif line and not is_indented:
            in_formula = False
        is_code = in_formula or line.lstrip().startswith((">>>", "..."))
        marked.append(line if is_code else escape_outside_code(line))
    lines[:] = marked


def escape_outside_code(line):
    """Return a line in which ``|`` and ``*`` outside of code have no meaning."""
    parts = line.split("``")
    parts[::2] = [re.sub(r"([|*])", r"\\\1", part) for part in parts[::2]]
    return "``".join(parts)


def setup(app):
    """Register the conversion of docstrings, before that of napoleon."""
    app.connect("autodoc-process-docstring", mark_up_docstring, priority=400)
