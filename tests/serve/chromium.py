"""The page of ``jeanie serve`` in Chromium: its fixtures, and what tests do with it."""

import os
import time
from pathlib import Path

import pytest
from browser import CHROMIUM, needs_browser
from running import run_service

ROOT = Path(__file__).resolve().parents[2]
VIDEOS = Path(os.environ.get("JEANIE_DATA", "")) / "video"
MODEL = ROOT / "jeanie/serve/static/vendor/pose_landmarker_lite.task"
AXE = ROOT / "build/axe.min.js"
PATIENCE = 240  # seconds until a condition must hold; a busy machine is slow
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
]  # fmt: skip

NEEDS = [
    needs_browser,
    pytest.mark.skipif(not MODEL.exists() or not AXE.exists(), reason="no pose model: run make web"),
    pytest.mark.skipif(not VIDEOS.exists(), reason="no videos in $JEANIE_DATA/video"),
]


def wait_for(condition, what, progress=lambda: None):
    """Poll until a condition holds, and give up if ``progress`` stays the same for too long."""
    end, reached = time.monotonic() + PATIENCE, progress()
    while not (value := condition()):
        if (now := progress()) != reached:
            end, reached = time.monotonic() + PATIENCE, now
        assert time.monotonic() < end, f"waited {PATIENCE} s for {what}"
        time.sleep(0.1)
    return value


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Address of a service with an empty library."""
    library = tmp_path_factory.mktemp("page") / "library.db"
    with run_service(library) as process:
        yield process.url


@pytest.fixture(scope="module")
def camera_file(tmp_path_factory):
    """Camera 1 as a film for a fake camera, with rest at both ends; Chromium plays it in a loop."""
    import cv2

    capture = cv2.VideoCapture(str(VIDEOS / "four-cameras/cam01.mp4"))
    pictures = []
    while (read := capture.read())[0]:
        pictures.append(cv2.resize(read[1], (640, 360)))
    pictures = [pictures[0]] * 30 + pictures[::2] + [pictures[-1]] * 30
    path = tmp_path_factory.mktemp("camera") / "camera.mjpeg"
    path.write_bytes(b"".join(cv2.imencode(".jpg", picture)[1].tobytes() for picture in pictures))
    return path


@pytest.fixture(scope="module")
def browser(camera_file):
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        flags = [*FLAGS, f"--use-file-for-fake-video-capture={camera_file}"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def page(browser, service):
    """The page. At the end, no request has left the origin and the console has no error."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, requests, errors = context.new_page(), [], []
    context.on("request", lambda request: requests.append(request.url))
    page.on("websocket", lambda socket: requests.append(socket.url))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(service)
    wait_for(lambda: read_state(page, "ready") == "1", "the page")
    yield page
    host = service.removeprefix("http://").rstrip("/")
    own = (f"http://{host}/", f"ws://{host}/", f"blob:http://{host}/", "data:")
    assert [url for url in requests if not url.startswith(own)] == []
    assert len(requests) > 10
    assert errors == []
    context.close()


def read_state(page, name):
    return page.evaluate("(name) => document.documentElement.dataset[name] || ''", name)


def open_video(page, path):
    """Open a video and wait until all its frames were looked at."""
    before = int(read_state(page, "videos") or 0)
    page.locator("#video-input").set_input_files(path)
    wait_for(
        lambda: int(read_state(page, "videos") or 0) > before,
        f"progress of {path.name}",
        page.locator("#speed").text_content,
    )


def reload_page(page):
    page.reload()
    wait_for(lambda: read_state(page, "ready") == "1", "the page")


def list_events(page):
    return page.locator("#events b").all_text_contents()


def list_actions(page):
    return page.locator("#actions h3").all_text_contents()


def keep_take(page, label):
    page.get_by_label("Name of the movement").fill(label)
    page.locator("#keep").click()
    wait_for(lambda: label in list_actions(page), f"{label} in the library")


def keep_video(page, path, label):
    """Open a video and enrol all of it."""
    open_video(page, path)
    page.get_by_role("button", name="Use whole video").click()
    wait_for(lambda: page.locator("#take-canvas").is_visible(), "the replay")
    keep_take(page, label)


def delete_action(page, label):
    action = page.locator("#actions > li").filter(has=page.get_by_role("heading", name=label, exact=True))
    action.scroll_into_view_if_needed()
    wait_for(lambda: action.locator(".examples li").count() > 0, "the examples")
    page.get_by_role("button", name=f"Delete {label}", exact=True).click()
    page.locator("#confirm-dialog").get_by_role("button", name="Delete").click()
    wait_for(lambda: label not in list_actions(page), "the deletion")


def check_accessibility(page):
    """Assert that axe-core has no serious finding."""
    page.evaluate("window.axe ? 0 : 1") and page.evaluate(AXE.read_text() + "\n;0")
    found = page.evaluate("async () => (await axe.run(document, {iframes: false})).violations")
    serious = [
        (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


# The time of the page is counted in pictures: a busy machine leaves no gaps in a recording of the camera.
COUNTED_TIME = """
let pictures = 0;
performance.now = () => pictures * 1000 / 30;
HTMLVideoElement.prototype.requestVideoFrameCallback = (callback) => setTimeout(() => {
  pictures += 1;
  callback();
}, 5);
"""


def count_time(page):
    page.add_init_script(COUNTED_TIME)
    reload_page(page)


FOCUSED = """() => {
  const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
  return {
    name: one.getAttribute("aria-label") || one.labels?.[0]?.innerText || one.textContent.trim().replace(/\\s+/g, " "),
    isVisible: box.width > 0 && box.top < innerHeight && box.bottom > 0,
    outline: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
    index: [...document.querySelectorAll("*")].indexOf(one),
  };
}"""


def read_focus(page):
    return page.evaluate(FOCUSED)["name"]
