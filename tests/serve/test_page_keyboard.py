"""The page in Chromium: everything works with the keyboard alone."""

import pytest
from chromium import (
    FOCUSED,
    NEEDS,
    check_accessibility,
    count_time,
    list_actions,
    read_focus,
    read_state,
    wait_for,
)

pytestmark = [pytest.mark.processes, pytest.mark.plain, *NEEDS]


def tab_to(page, name, key="Tab"):
    """Press a key until something of a name has the focus; every stop on the way shows that it has it."""
    for _ in range(60):
        page.keyboard.press(key)
        focused = page.evaluate(FOCUSED)
        assert focused["isVisible"], focused
        assert focused["outline"] >= 2, focused
        if focused["name"] == name:
            return
    raise AssertionError(f"{name} cannot be reached")


def test_everything_works_with_the_keyboard_alone(page):
    """A take of the camera is recorded, replayed, kept, renamed and deleted. The focus is visible and never lost."""
    count_time(page)
    choosers = []
    page.on("filechooser", lambda chooser: choosers.append(chooser))  # early: it takes effect after a while
    check_accessibility(page)
    tab_to(page, "Skip to content")
    page.keyboard.press("Enter")
    tab_to(page, "Start camera")
    page.keyboard.press("Enter")
    wait_for(lambda: int(read_state(page, "frames") or 0) > 3, "poses")
    assert read_focus(page) == "Stop"
    tab_to(page, "Name of the movement")
    page.keyboard.type("seen live")
    tab_to(page, "Stop by itself when I stand still")
    page.keyboard.press("Space")
    tab_to(page, "Record", "Shift+Tab")
    page.keyboard.press("Enter")
    wait_for(lambda: page.locator("#countdown").inner_text() in set("54321"), "the countdown")
    wait_for(lambda: int(read_state(page, "recorded") or 0) >= 25, "a take")
    assert read_focus(page) == "Stop recording"
    page.keyboard.press("Enter")
    wait_for(lambda: page.locator("#take").is_visible(), "the replay")
    assert read_focus(page) == "Your take"
    tab_to(page, "Stop", "Shift+Tab")
    page.keyboard.press("Enter")
    wait_for(lambda: read_focus(page) == "Start camera", "the end of the camera")
    check_accessibility(page)
    tab_to(page, "Leave out rest at both ends")
    for is_checked in (False, True):
        page.keyboard.press("Space")
        assert page.locator("#trim").is_checked() == is_checked
    tab_to(page, "Keep")
    page.keyboard.press("Enter")
    wait_for(lambda: list_actions(page) == ["seen live"], "the action")
    tab_to(page, "Least confidence for a name")
    before = page.locator("#threshold").input_value()
    page.keyboard.press("ArrowRight")
    assert page.locator("#threshold-text").inner_text().startswith(f"{int(before) + 5} %")
    tab_to(page, "Count repetitions of")
    page.keyboard.press("s")
    assert page.locator("#count").inner_text() == "0"
    check_order(page)
    rename_and_delete(page)
    tab_to(page, "Import")
    for count, name in enumerate(("Import", "Open skeleton file", "Open video"), start=1):
        if read_focus(page) != name:
            tab_to(page, name, "Shift+Tab")
        page.keyboard.press("Enter")
        wait_for(lambda count=count: read_focus(page) and len(choosers) == count, f"the dialog of {name}")


def check_order(page):
    """Assert that the tabulator visits the page from the top to the bottom."""
    page.locator(".skip").focus()
    order = [page.evaluate(FOCUSED)["index"]]
    while True:
        page.keyboard.press("Tab")
        if (index := page.evaluate(FOCUSED)["index"]) <= order[-1]:
            break
        order.append(index)
    reachable = page.evaluate("""() => [...document.querySelectorAll("*")].map((one, index) => ({ one, index }))
        .filter(({ one }) => one.matches("a, button, input, select, summary") && one.checkVisibility() && !one.disabled)
        .map(({ index }) => index)""")
    assert order == reachable


def rename_and_delete(page):
    tab_to(page, "Rename seen live")
    page.keyboard.press("Enter")
    assert read_focus(page) == "Name"
    check_accessibility(page)
    page.keyboard.press("Escape")
    assert read_focus(page) == "Rename seen live"
    page.keyboard.press("Enter")
    page.keyboard.press("Control+A")
    page.keyboard.type("renamed")
    page.keyboard.press("Enter")
    wait_for(lambda: list_actions(page) == ["renamed"], "the new name")
    wait_for(lambda: read_focus(page) == "Rename renamed", "the focus")
    tab_to(page, "Examples")
    wait_for(lambda: page.locator("#actions .examples li").count() == 1, "the list of examples")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert read_focus(page).startswith("Delete example")
    tab_to(page, "Delete renamed", "Shift+Tab")
    page.keyboard.press("Enter")
    check_accessibility(page)
    assert read_focus(page) == "Cancel"  # nothing is deleted by mistake
    page.keyboard.press("Enter")
    assert read_focus(page) == "Delete renamed"
    page.keyboard.press("Enter")
    tab_to(page, "Delete", "Shift+Tab")
    page.keyboard.press("Enter")
    wait_for(lambda: list_actions(page) == [], "the deletion")
    wait_for(lambda: read_focus(page) == "Library", "the focus")
