"""Pictures of pages that jeanie writes, taken by a browser."""

import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import jeanie
from pictures.scene import FOLDER

__all__ = ["photograph", "photograph_report"]


def photograph(page: Path, target: Path, *, width: int = 1100, height: int = 760, dark: bool = False) -> None:
    """Write the upper part of a page as a picture with few colours."""
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        view = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        view.goto(page.resolve().as_uri())
        view.wait_for_timeout(500)
        view.screenshot(path=str(target))
        browser.close()
    Image.open(target).convert("RGB").quantize(64).save(target, optimize=True)
    print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB")


def photograph_report() -> None:
    """Evaluate two models without learning on the synthetic data set, and photograph the report."""
    models = {
        "shipped model": jeanie.FewShotModel.load(),
        "no learning": jeanie.FewShotModel.raw(),
        "plain DTW": jeanie.FewShotModel.raw("dtw"),
    }
    reports = [
        jeanie.evaluate(model, "synthetic", way=5, limit=60, method=name) for name, model in models.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        page = jeanie.write_html(reports, Path(folder) / "report.html")
        photograph(page, FOLDER / "report.png")
