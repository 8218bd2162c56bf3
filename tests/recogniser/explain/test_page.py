"""The page of an explanation: whole in itself, true to its numbers, and safe whatever recordings are called."""

import base64
import hashlib
import itertools
import json
import re

import pytest
from browser import needs_browser, read_page
from movements import combine_persons, open_clip, slow_down

from jeanie.fewshot import FewShotModel
from jeanie.recogniser.explain.explain import explain

EVIL = '</script><img src=x onerror="document.title=1">&amp;'


@pytest.fixture(scope="module")
def model():
    return FewShotModel.load()


def write_page(found, path):
    return found.write_html(path).read_text(encoding="utf-8")


def data_of(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


@pytest.fixture(scope="module")
def pair(model):
    wave = open_clip("wave")
    return explain(
        model, slow_down(wave, 1.4).replace(name="query 1"), wave.replace(name="teacher"), label="wave"
    )


def test_the_page_tells_what_the_explanation_tells(pair, tmp_path):
    text = write_page(pair, tmp_path / "deep" / "page.html")
    assert "<h1>Same movement as wave, 1.4x slower.</h1>" in text
    assert "<title>query 1 and teacher</title>" in text
    assert text.count('class="joint"') == len(pair.joints)
    assert "1.40 times as long" in text


def test_nothing_is_fetched_from_anywhere(pair, tmp_path):
    text = write_page(pair, tmp_path / "page.html")
    assert "http" not in text.replace("http-equiv", "")
    assert not re.search(r'(src|href)="(?!data:)', text)
    assert "default-src 'none'" in text
    script = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text


def test_names_are_text_and_never_markup(model, tmp_path):
    wave = open_clip("wave")
    found = explain(model, wave.replace(name=EVIL), wave.replace(name=EVIL), label=EVIL)
    text = write_page(found, tmp_path / "page.html")
    assert EVIL not in text
    assert "<img" not in text
    assert text.count("</script>") == 2
    assert data_of(text)["scene"]["titles"] == [EVIL, EVIL]


def test_both_begin_and_end_together_and_never_go_back(pair, tmp_path):
    path = data_of(write_page(pair, tmp_path / "page.html"))["scene"]["path"]
    assert path[0] == [0, 0]
    assert path[-1] == [pair.query.frames - 1, pair.support.frames - 1]
    assert all(a <= c and b <= d for (a, b), (c, d) in itertools.pairwise(path))


def test_poses_are_those_of_the_bodies(pair, tmp_path):
    side = data_of(write_page(pair, tmp_path / "page.html"))["scene"]["query"]
    bodies = pair.bodies[0]
    assert side["frames"][0] == 0
    assert side["frames"][-1] == pair.query.frames - 1
    head, way = bodies.joints[0, 0, 0], bodies.joints[0, 0, -1]
    expected = [float(head[0]), float(head[1] + way[1]), float(head[2])]
    assert [value / 1000 for value in side["poses"][0][0][0]] == pytest.approx(expected, abs=1e-3)


def test_long_recordings_make_no_long_page(model, tmp_path):
    long = slow_down(open_clip("wave"), 40)
    text = write_page(explain(model, long, open_clip("wave")), tmp_path / "page.html")
    assert len(data_of(text)["scene"]["query"]["frames"]) == 300
    assert len(text) < 400_000


@needs_browser
@pytest.mark.parametrize("persons", [1, 2])
def test_a_browser_shows_it_without_an_error(model, tmp_path, persons):
    wave = open_clip("wave").replace(name=EVIL)
    motion = wave if persons == 1 else combine_persons(wave, open_clip("squat"))
    explain(model, motion, motion).write_html(tmp_path / "page.html")
    result = read_page((tmp_path / "page.html").as_uri() + "#still", tmp_path / "profile")
    assert re.search(r'<html[^>]* data-ready="1"', result.stdout), result.stderr[-2000:]
    assert re.search(r'<html[^>]* data-errors="0"', result.stdout)
    assert "<img" not in result.stdout
    assert re.search(r'data-part="query-time">\d+\.\d\d s<', result.stdout)
