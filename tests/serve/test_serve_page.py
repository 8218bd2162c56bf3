"""The page in Chromium: a movement is taught by a camera or a video, and recognised from another side."""

import os
import shutil
import time
from pathlib import Path

import httpx2
import pytest
from running import run_service
from takes import make_take

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

ROOT = Path(__file__).resolve().parents[2]
VIDEOS = Path(os.environ.get("JEANIE_DATA", "")) / "video"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MODEL = ROOT / "jeanie/serve/static/vendor/pose_landmarker_lite.task"
AXE = ROOT / "build/axe.min.js"
SIGN, SQUATS = VIDEOS / "asl/eat.mkv", VIDEOS / "pose_squats.mp4"
PATIENCE = 240  # seconds until a condition must hold; a busy machine is slow
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
]  # fmt: skip

pytestmark = [
    pytest.mark.processes,
    pytest.mark.plain,
    pytest.mark.skipif(CHROMIUM is None, reason="no browser: chromium is not in PATH"),
    pytest.mark.skipif(not MODEL.exists() or not AXE.exists(), reason="no pose model: run make web"),
    pytest.mark.skipif(not VIDEOS.exists(), reason="no videos in $JEANIE_DATA/video"),
]


def wait_for(condition, what):
    """Poll until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
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


@pytest.fixture
def squat_file(tmp_path):
    """The second of the three squats, from standing to standing."""
    import cv2

    capture = cv2.VideoCapture(str(SQUATS))
    size = (int(capture.get(cv2.CAP_PROP_FRAME_WIDTH)), int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT)))
    path = tmp_path / "squat.webm"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"VP80"), capture.get(cv2.CAP_PROP_FPS), size)
    for number in range(46):
        picture = capture.read()[1]
        if number >= 20:
            writer.write(picture)
    writer.release()
    return path


@pytest.fixture(scope="module")
def browser(camera_file):
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
    wait_for(lambda: int(read_state(page, "videos") or 0) > before, f"the end of {path.name}")


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


# Stands for the pose model: a body that waves for two of six seconds, and else stands still.
WORKER = """
const heights = [-0.7, -0.5, -0.3, 0, 0.4, 0.8];
const heightOf = (joint) => heights[Math.min(5, Math.floor(joint / 6))];
const rest = [...Array(33).keys()].map((joint) => [joint % 2 ? 0.2 : -0.2, heightOf(joint)]);
self.addEventListener("message", ({ data }) => {
  if (data.type !== "picture") return self.postMessage({ type: "ready" });
  data.picture.close();
  const seconds = data.milliseconds / 1000, far = seconds % 6 < 2 ? Math.sin(6 * seconds) : 0;
  const world = rest.map(([x, y], joint) => [x + (joint > 10 && joint < 23 ? far : 0), y, 0, 1]);
  const image = world.map(([x, y]) => [0.5 + x / 4, 0.5 + y / 4, 0, 1]);
  self.postMessage({ type: "pose", number: data.number, people: [{ image, world }] });
});
"""


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
    page.reload()
    wait_for(lambda: read_state(page, "ready") == "1", "the page")


def test_nobody_need_be_at_the_computer(page):
    """A recording stops when the person stands still; after a restart of the service, the page connects again."""
    streams = []

    def connect(stream):
        streams.append(stream)
        stream.close(code=1012) if len(streams) == 1 else stream.connect_to_server()

    page.route_web_socket("**/api/v1/stream", connect)
    page.route("**/pose_worker.js", lambda route: route.fulfill(body=WORKER, content_type="text/javascript"))
    count_time(page)
    page.get_by_label("Name of the movement").fill("hands free")
    page.get_by_role("button", name="Start camera").click()
    page.get_by_role("button", name="Record", exact=True).click()
    wait_for(lambda: page.locator("#recording").is_visible(), "the recording")
    wait_for(lambda: len(streams) == 2, "another stream")
    wait_for(lambda: page.locator("#take").is_visible(), "the end of the movement")
    assert page.locator("#recording").is_hidden()
    keep_take(page, "hands free")
    delete_action(page, "hands free")


def test_an_action_is_requested_when_it_comes_into_view_and_its_name_is_text(page, service):
    names = ["<img src=x onerror=console.error(1)>", "\N{HEBREW LETTER ALEF}</li>", *map(str, range(30))]
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    for name in names:
        body = {"label": name, "frames": make_take("bow")}
        assert httpx2.post(f"{service}api/v1/examples", json=body, timeout=PATIENCE).status_code == 201
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    wait_for(lambda: sorted(list_actions(page)) == sorted(names), "the names as they are")
    assert page.locator("#actions img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    last = page.locator("#actions > li").last
    assert last.locator(".examples li").count() == 0
    last.scroll_into_view_if_needed()
    wait_for(lambda: last.locator(".examples li").count() == 1, "the last action")
    assert sum("/examples?label=" in url for url in requests) < len(names) / 2
    page.goto("about:blank")  # it would request actions that are deleted
    for name in names:
        httpx2.delete(f"{service}api/v1/actions", params={"label": name}, timeout=PATIENCE).raise_for_status()


def test_a_movement_of_one_camera_is_recognised_by_another(page):
    videos = VIDEOS / "four-cameras"
    page.locator("#model").select_option("full")  # camera 2: confidence 0.6 with full, 0.2 with lite
    keep_video(page, videos / "cam01.mp4", "step")
    page.reload()
    wait_for(lambda: list_actions(page) == ["step"], "the library after a reload")
    page.locator("#threshold").fill("40")
    assert "40 %" in page.locator("#threshold-text").inner_text()
    for camera in ("cam02", "cam03", "cam04"):  # several sources one after the other, without a reload
        open_video(page, videos / f"{camera}.mp4")
        assert list_events(page)[0] == "step", camera


def test_one_sign_is_told_from_the_others(page):
    """Of 20 signs, one is enrolled by correcting an unknown movement. Nothing leaves the origin in over a minute."""
    start = time.monotonic()
    page.locator("#threshold").fill("95")
    open_video(page, SIGN)
    assert list_events(page)[0] == "unknown"
    page.locator("#events button").first.press("Enter")
    wait_for(
        lambda: page.locator("#event-page").is_visible(), "the comparison with the example of another action"
    )
    assert "confidence" in page.locator("#event-text").inner_text()
    check_accessibility(page)
    page.keyboard.press("Escape")
    assert read_focus(page).startswith("unknown")
    page.keyboard.press("Enter")
    page.get_by_label("It was", exact=True).fill(SIGN.stem)
    page.keyboard.press("Enter")
    wait_for(lambda: SIGN.stem in list_actions(page), "the corrected label")
    assert list_events(page)[0] == SIGN.stem
    delete_action(page, "step")
    page.reload()
    wait_for(lambda: list_actions(page) == [SIGN.stem], "the library after a reload")
    open_video(page, SIGN)
    assert list_events(page)[0] == SIGN.stem
    others = sorted(set(SIGN.parent.glob("*.mkv")) - {SIGN})
    assert len(others) == 19
    accepted = []
    for other in others:
        before = page.locator("#events li").count()
        open_video(page, other)
        if SIGN.stem in list_events(page)[: page.locator("#events li").count() - before]:
            accepted.append(other.stem)
    assert len(accepted) <= 2, accepted
    wait_for(lambda: time.monotonic() - start > 61, "more than a minute without a request to another origin")
    delete_action(page, SIGN.stem)


def test_three_squats_are_counted(page, squat_file):
    keep_video(page, squat_file, "squat")
    page.get_by_label("Count repetitions of").select_option("squat")
    open_video(page, SQUATS)
    assert page.locator("#count").inner_text() == "3"
    delete_action(page, "squat")


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
