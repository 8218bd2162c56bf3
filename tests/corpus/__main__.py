"""Write docs/tested_files.md."""

from pathlib import Path

from corpus import CASES, render_page

(Path(__file__).resolve().parents[2] / "docs" / "tested_files.md").write_text(render_page(CASES))
