"""The page in Chromium: hands-free recording, and a library of many actions with odd names."""

import itertools
import re

import httpx2
import pytest
from chromium import (
    NEEDS,
    PATIENCE,
    count_time,
    delete_action,
    keep_take,
    list_actions,
    list_events,
    reload_page,
    wait_for,
)
from takes import make_take

pytestmark = [pytest.mark.processes, pytest.mark.plain, *NEEDS]

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
    # on a busy machine, the recording may end between two looks
    wait_for(
        lambda: page.locator("#recording").is_visible() or page.locator("#take").is_visible(), "the recording"
    )
    wait_for(lambda: len(streams) == 2, "another stream")
    wait_for(lambda: page.locator("#take").is_visible(), "the end of the movement")
    assert page.locator("#recording").is_hidden()
    keep_take(page, "hands free")
    delete_action(page, "hands free")


def test_the_recorded_movement_gets_no_answer(page):
    """The body moves every six seconds: between the answers, the recorded movement is missing."""
    page.route("**/pose_worker.js", lambda route: route.fulfill(body=WORKER, content_type="text/javascript"))
    count_time(page)
    page.get_by_label("Name of the movement").fill("recorded")
    page.get_by_role("button", name="Start camera").click()
    wait_for(lambda: list_events(page), "a movement before the recording")
    page.get_by_role("button", name="Record", exact=True).click()
    wait_for(lambda: page.locator("#take").is_visible(), "the end of the movement")
    before = len(list_events(page))
    wait_for(lambda: len(list_events(page)) > before, "a movement after the recording")
    texts = page.locator("#events span").all_text_contents()
    starts = sorted(float(re.search(r"([\d.]+) to", text)[1]) for text in texts)
    assert max(end - start for start, end in itertools.pairwise(starts)) > 9, starts


def test_an_action_is_requested_when_it_comes_into_view_and_its_name_is_text(page, service):
    names = ["<img src=x onerror=console.error(1)>", "\N{HEBREW LETTER ALEF}</li>", *map(str, range(30))]
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    for name in names:
        body = {"label": name, "frames": make_take("bow")}
        assert httpx2.post(f"{service}api/v1/examples", json=body, timeout=PATIENCE).status_code == 201
    page.set_viewport_size({"width": 390, "height": 844})
    reload_page(page)
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
