"""The page of ``jeanie serve`` in a browser, with a synthetic body in place of a camera and a pose model.

No person is in these pictures: the camera is an empty picture, and a worker script answers with the poses of synthetic
motions instead of the pose model.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import jeanie
from pictures.scene import FOLDER

__all__ = ["PageClock", "open_page", "photograph_page", "record_page", "save_picture"]

RATE = 30
WIDTH = 640  # of the animation, in pixels
MAX_BYTES = 2_000_000
STEP = 3  # frames between two pictures of it
# joint of ntu25 for each joint of mediapipe33: head, arms and hands, legs and feet
SOURCES = [3] * 11 + [4, 8, 5, 9, 6, 10, 7, 11, 7, 11, 7, 11] + [12, 16, 13, 17, 14, 18, 15, 19, 15, 19]
# seconds at which each motion begins: action, subject, camera
SCRIPT = (
    (6.6, "wave", 0, "centre"),
    (13.5, "wave", 2, "right"),
    (21.0, "bow", 1, "centre"),
)
SECONDS = 60.0
WORKER = """
const poses = POSES;
self.addEventListener("message", ({ data }) => {
  if (data.type !== "picture") return self.postMessage({ type: "ready" });
  data.picture.close();
  const pose = poses[Math.min(poses.length - 1, Math.floor(data.milliseconds * RATE / 1000))];
  self.postMessage({ type: "pose", number: data.number, people: [pose] });
});
"""


def _make_poses() -> list[dict[str, list[list[float]]]]:
    """Return the landmarks of every frame of the script, as the pose model would give them."""
    clips = jeanie.open_dataset("synthetic")
    joints = np.zeros((round(SECONDS * RATE), 25, 3), np.float32)
    end = 0
    for start, action, subject, camera in SCRIPT:
        clip = clips[clips.names.index(f"{action}_s{subject:02d}_t00_{camera}")].fill_gaps(1000)
        body = clip.joints[:, 0].numpy()
        body = body - (body[:1, 12:13] + body[:1, 16:17]) / 2  # the hips of the first frame are the origin
        first = round(start * RATE)
        joints[end:first] = body[0] if not end else joints[end - 1]
        steps = min(15, first - end)  # turn from one pose of rest to the next
        share = np.linspace(0, 1, steps, dtype=np.float32)[:, None, None]
        joints[first - steps : first] = (1 - share) * joints[first - steps] + share * body[0]
        end = first + len(body)
        joints[first:end] = body
    joints[end:] = joints[end - 1]
    world = joints[:, SOURCES] * np.array([-1, -1, 1], np.float32)
    picture = world * np.array([0.3, 0.4, 0.4], np.float32) + np.array([0.5, 0.5, 0], np.float32)
    return [
        {
            name: [[*(round(float(value), 3) for value in point), 1.0] for point in points]
            for name, points in pair
        }
        for pair in (
            (("image", image_points), ("world", world_points))
            for image_points, world_points in zip(picture, world, strict=True)
        )
    ]


@contextmanager
def open_page(*, token: str | None = None, **options: Any) -> Iterator[tuple[Page, Browser]]:
    """Yield the page of a service with an empty library; with a ``token``, the form that asks for it."""
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    worker = WORKER.replace("POSES", json.dumps(_make_poses())).replace("RATE", str(RATE))
    with tempfile.TemporaryDirectory() as folder:
        camera = Path(folder) / "camera.mjpeg"
        shade = np.linspace(52, 24, 480).astype(np.uint8)[:, None, None]
        buffer = BytesIO()
        Image.fromarray(np.broadcast_to(shade, (480, 640, 3)).copy()).save(buffer, "JPEG", quality=95)
        camera.write_bytes(buffer.getvalue() * 30)
        command = [
            sys.executable,
            "-m",
            "jeanie",
            "serve",
            "--library",
            f"{folder}/library.db",
            "--port",
            "0",
        ]
        if token is not None:
            (Path(folder) / "token").write_text(token)
            command += ["--token-file", f"{folder}/token"]
        service = subprocess.Popen(
            [*command, "--no-browser", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        try:
            assert service.stdout is not None
            url = json.loads(service.stdout.readline())["url"]
            flags = ["--no-sandbox", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
            with sync_playwright() as play:
                browser = play.chromium.launch(
                    executable_path=browser_path, args=[*flags, f"--use-file-for-fake-video-capture={camera}"]
                )
                context = browser.new_context(**options)
                context.route(
                    "**/static/pose_worker.js",
                    lambda route: route.fulfill(body=worker, content_type="text/javascript"),
                )
                context.add_init_script(
                    "delete HTMLVideoElement.prototype.requestVideoFrameCallback"
                )  # real time
                page = context.new_page()
                page.clock.install()
                page.goto(url)
                if token is None:
                    page.locator("html[data-ready='1']").wait_for(state="attached")
                    page.clock.pause_at(page.evaluate("Date.now()") + 1000)
                yield page, browser
                browser.close()
        finally:
            service.terminate()
            service.wait()


class PageClock:
    """Time of the page in seconds since the camera was started; it goes on frame by frame on any machine."""

    def __init__(self, page: Page, after_step: Callable[[], None]) -> None:
        self._page, self._after_step = page, after_step
        page.get_by_role("button", name="Start camera").click()
        page.locator("#stage[data-source='camera']").wait_for()
        self._steps = 0

    def wait(self, until: float) -> None:
        """Advance the time of the page."""
        while self._steps < until * RATE:
            before = self._count_frames()
            self._page.clock.run_for(
                round(1000 * (self._steps + 1) / RATE) - round(1000 * self._steps / RATE)
            )
            self._steps += 1
            for _ in range(10):
                if self._count_frames() > before:
                    break
                self._page.clock.run_for(1)
            if self._steps % STEP == 0:
                self._after_step()

    def _count_frames(self) -> int:
        return int(self._page.evaluate("document.documentElement.dataset.frames || 0"))


def _play_script(page: Page, after_step: Callable[[], None] = lambda: None) -> None:
    """Teach the first motion of the script; the second is recognised, the third is unknown."""
    clock = PageClock(page, after_step)
    page.get_by_label("Name of the movement").fill("wave")
    clock.wait(1.0)
    page.get_by_role("button", name="Record", exact=True).click()
    clock.wait(11.9)  # the recording has stopped by itself
    page.locator("#take").wait_for()
    clock.wait(12.8)
    page.locator("#keep").click()
    clock.wait(25.6)


def record_page() -> None:
    """Write the animation: a movement is taught and recognised from another side; another movement is unknown."""
    pictures: list[Image.Image] = []
    with open_page(viewport={"width": 800, "height": 620}, reduced_motion="no-preference") as (page, _):
        page.locator(".columns").evaluate("(part) => part.scrollIntoView()")
        _play_script(page, lambda: pictures.append(Image.open(BytesIO(page.screenshot())).convert("RGB")))
    write_animation(pictures, FOLDER / "live.gif")


def photograph_page() -> None:
    """Write pictures of the page after a first run: light, dark with a comparison, and on a phone."""
    sizes = {"light": (1200, 900), "dark": (1200, 900), "phone": (390, 844)}
    for name, (width, height) in sizes.items():
        scheme = "dark" if name == "dark" else "light"
        with open_page(viewport={"width": width, "height": height}, color_scheme=scheme) as (page, _):
            _play_script(page)
            page.mouse.move(0, 0)
            page.locator(
                "#actions > li"
            ).scroll_into_view_if_needed()  # actions are loaded when they are seen
            page.locator("#actions .examples li").wait_for(state="attached")
            page.clock.run_for(500)
            page.evaluate("scrollTo(0, 0)")
            save_picture(page.screenshot(full_page=True), f"serve-{name}.png")
            if name == "dark":
                page.locator("#events button").nth(1).click()
                page.locator("#event-page").wait_for()
                page.clock.run_for(1500)
                save_picture(page.screenshot(), "serve-event.png")


def save_picture(data: bytes, name: str, colours: int = 64) -> None:
    """Write a PNG of few colours into the folder of the documentation's pictures."""
    Image.open(BytesIO(data)).convert("RGB").quantize(colours).save(FOLDER / name, optimize=True)


def write_animation(pictures: list[Image.Image], target: Path) -> None:
    """Write pictures as an animation of at most ``MAX_BYTES``; the last one stays for two seconds."""
    width, height = pictures[0].size
    size = (WIDTH, round(height * WIDTH / width))
    small = [picture.resize(size, Image.Resampling.LANCZOS) for picture in pictures]
    sample = Image.new("RGB", (WIDTH, 4 * size[1]))  # colours of all states of the page
    for place in range(4):
        sample.paste(small[(2 * place + 1) * len(small) // 8], (0, place * size[1]))
    palette = sample.quantize(96)
    frames = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in small]
    durations = [1000 * STEP // RATE] * (len(frames) - 1) + [2000]
    frames[0].save(target, save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True)
    print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB, {len(frames)} pictures")
    assert target.stat().st_size <= MAX_BYTES
