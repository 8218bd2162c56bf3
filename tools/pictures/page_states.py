"""Every state of the page of ``jeanie serve``, one picture per state: light colours, dark colours, and a phone."""

import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from pictures.live_page import PageClock, open_page, save_picture

__all__ = ["photograph_states"]

LOOKS = (("light", 1000, 860), ("dark", 1000, 860), ("light", 390, 860))  # colours, width, height
SCALE = 0.6  # of the pictures in the documentation
GAP = 16  # pixels between two looks


def photograph_states() -> None:
    """Write one picture per state, with all looks from left to right."""
    looks: list[dict[str, Image.Image]] = [_photograph_look(*look) for look in LOOKS]
    for name in looks[0]:
        pictures = [look[name] for look in looks]
        width = sum(picture.width for picture in pictures) + GAP * (len(pictures) - 1)
        sheet = Image.new("RGB", (width, pictures[0].height), "#808080")
        left = 0
        for picture in pictures:
            sheet.paste(picture, (left, 0))
            left += picture.width + GAP
        small = sheet.resize(
            (round(SCALE * sheet.width), round(SCALE * sheet.height)), Image.Resampling.LANCZOS
        )
        buffer = BytesIO()
        small.save(buffer, "PNG")
        save_picture(buffer.getvalue(), f"page-{name}.png", colours=160)


def _photograph_look(colours: str, width: int, height: int) -> dict[str, Image.Image]:
    pictures: dict[str, Image.Image] = {}
    options = {"viewport": {"width": width, "height": height}, "color_scheme": colours}

    def keep(page: Page, name: str) -> None:
        pictures[name] = Image.open(BytesIO(page.screenshot())).convert("RGB")

    with open_page(**options) as (page, _):
        _visit_states(page, lambda name: keep(page, name))
    with open_page(token="token-of-this-picture", **options) as (page, _):
        page.locator("input[type=password]").wait_for()
        keep(page, "login")
    return pictures


def _visit_states(page: Page, keep: Callable[[str], None]) -> None:
    """Teach a movement, recognise it, see an unknown one, compare, count, and look at the library; keep each state."""
    keep("first-visit")
    clock = PageClock(page, lambda: None)
    page.get_by_label("Name of the movement").fill("wave")
    clock.wait(1.0)
    page.get_by_role("button", name="Record", exact=True).click()
    clock.wait(2.0)
    _show(page, "#stage")
    keep("countdown")
    clock.wait(8.0)
    keep("recording")
    clock.wait(11.9)  # the recording has stopped by itself
    page.locator("#take").wait_for()
    _show(page, "#record-title")
    keep("take")
    clock.wait(12.8)
    page.locator("#keep").click()
    page.locator("#actions > li").wait_for(state="attached")
    page.get_by_label("Count repetitions of").select_option("wave")
    clock.wait(19.0)
    _show(page, "#stage")
    keep("recognised")
    clock.wait(25.6)
    _show(page, "#events-title")
    keep("movements")
    page.locator("#events button[data-known=true]").first.click()
    page.locator("#event-page").wait_for()
    page.clock.run_for(1500)
    keep("comparison")
    page.locator("#close-event").click()
    _show(page, "#actions > li")  # actions are loaded when they are seen
    page.locator("#actions .examples li").wait_for(state="attached")
    page.clock.run_for(500)
    _show(page, "#library-title")
    keep("library")
    page.get_by_role("button", name="Delete wave", exact=True).click()
    page.clock.run_for(500)
    keep("delete")
    page.locator("#confirm-dialog").get_by_role("button", name="Cancel").click()
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder) / "broken.bvh"
        broken.write_text("HIERARCHY")
        page.locator("#skeleton-input").set_input_files(broken)
        page.locator("#problem").wait_for()
    page.evaluate("scrollTo(0, 0)")
    keep("problem")


def _show(page: Page, selector: str) -> None:
    page.mouse.move(0, 0)
    page.locator(selector).first.evaluate("(part) => part.scrollIntoView()")
