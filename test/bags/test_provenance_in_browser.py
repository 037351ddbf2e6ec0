# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`explain --html`: the page of a run in a real browser, from a file and without a network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="no selenium: pip install selenium, and run tools/ensure_chromium.sh")

from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from remote_inference.bags.provenance.page.page import write_page
from remote_inference.msg import ClientState
from remote_inference.tools.cli import main
from support.nodes.browser import CONTRAST, chromium, complaints, needs_browser, overflow, prefer, resize
from support.recording.explained_run import (
    BEGIN_TICK,
    CLAMPED_TICK,
    FIRST_ROW,
    PERSON_TICKS,
    command,
    write_explained_run,
    write_long_run,
    write_takeover_run,
)
from support.recording.synthetic_run import Recording

pytestmark = needs_browser

HEIGHT = 900


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_explained_run(tmp_path_factory.mktemp("bags") / "run")


@pytest.fixture(scope="module")
def page(bag: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pages") / "run.html"
    assert main(["explain", str(bag), "--html", str(out), "--quiet"]) == 0
    return out


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    with chromium(tmp_path_factory.mktemp("browser") / "profile", 1280, HEIGHT) as driver:
        yield driver


def text(browser: WebDriver, selector: str) -> str:
    return browser.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)


def go_to(browser: WebDriver, tick: int) -> None:
    """Move the slider, as a hand would."""
    script = """
    const slider = document.getElementById("cursor");
    slider.value = arguments[0];
    slider.dispatchEvent(new Event("input"));
    """
    browser.execute_script(script, tick)


def test_the_command_at_the_cursor_is_explained(browser: WebDriver, page: Path) -> None:
    browser.get(page.as_uri())
    go_to(browser, CLAMPED_TICK)
    assert text(browser, "#where") == f"tick {CLAMPED_TICK}, 1.263 s"
    assert text(browser, "#clock") == "2026-09-21 14:13:21.260 UTC"
    assert f"action {FIRST_ROW + 2} of request 1" in text(browser, "#command")
    assert "300.0 ms" in text(browser, "#latency")
    assert "transport 100.0 ms" in text(browser, "#latency")
    assert "1.5000 → 1.0000 (joint_limit)" in text(browser, "#guard")
    assert text(browser, "#seen") == "What the policy saw for this command"
    shown = browser.find_elements(By.CSS_SELECTOR, "#cameras img")
    assert [image.get_attribute("alt") for image in shown] == ["wrist, request 1", "front, request 1"]
    assert all(browser.execute_script("return arguments[0].naturalWidth", image) == 320 for image in shown)
    go_to(browser, 60)
    assert "stopped: /e_stop: pressed" in text(browser, "#why")
    assert text(browser, "#seen") == "What was sent last, with request 2"
    assert text(browser, "#latency") == ""
    assert complaints(browser) == []


def test_keys_buttons_and_the_timeline_move_the_cursor(browser: WebDriver, page: Path) -> None:
    browser.get(page.as_uri())
    assert text(browser, "#where").startswith(f"tick {BEGIN_TICK},"), "at the first motion"
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert text(browser, "#where").startswith(f"tick {BEGIN_TICK + 2},")
    browser.find_element(By.ID, "back").click()
    assert text(browser, "#where").startswith(f"tick {BEGIN_TICK + 1},")
    browser.find_element(By.CSS_SELECTOR, "#bands svg").click()  # its middle
    assert text(browser, "#where").startswith(("tick 54,", "tick 55,"))
    browser.find_element(By.ID, "cursor").send_keys(Keys.END)
    assert text(browser, "#where").startswith("tick 109,")


def test_the_page_begins_at_the_motion_that_was_asked_for(
    browser: WebDriver, bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert main(["explain", str(bag), "--command", str(BEGIN_TICK + 4), "--html", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"page: {out}, ")
    browser.get(out.as_uri())
    assert text(browser, "#where").startswith(f"tick {BEGIN_TICK + 4},")
    shoulder = text(browser, "#joints .joint .name")
    assert f"{command(1, FIRST_ROW + 4)[0]:.4f}" in shoulder


def test_the_images_of_a_request_that_were_left_out_are_not_replaced_in_silence(
    browser: WebDriver, tmp_path: Path
) -> None:
    written = write_page(write_long_run(tmp_path / "run", 8), tmp_path / "page.html", max_image_bytes=120_000)
    browser.get(written.page.as_uri())
    assert f"Left out: {written.left_out[0]}" in text(browser, "#notes")
    go_to(browser, 1)
    assert text(browser, "#seen") == "Images of request 1: those of request 2 are left out"


def test_a_person_s_command_shows_the_camera_s_own_picture(browser: WebDriver, tmp_path: Path) -> None:
    written = write_page(write_takeover_run(tmp_path / "run"), tmp_path / "page.html")
    browser.get(written.page.as_uri())
    go_to(browser, PERSON_TICKS[-1])
    assert text(browser, "#seen") == "What the cameras showed: a person commands, no image is sent"
    (shown,) = browser.find_elements(By.CSS_SELECTOR, "#cameras img")
    assert shown.get_attribute("alt") == "front, its own picture"
    assert browser.execute_script("return arguments[0].naturalWidth", shown) == 64
    assert "front · the camera's own, came at 1.400 s · rgb8" in text(browser, "#cameras")
    go_to(browser, PERSON_TICKS[-1] + 1)
    assert text(browser, "#seen") == "What was sent last, with request 1"
    assert complaints(browser) == []


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a run whose names and texts are long, or markup."""
    folder = tmp_path_factory.mktemp("hostile")
    markup = "</script><img src=x onerror=\"document.title='run'\">"
    recording = Recording(joint_names=["</b>" + "joint" * 20, *(f"joint_{k}" for k in range(5))])
    recording.state(0, ClientState.STALLED, markup + "long " * 60, stop=markup, server="/a/" + "b" * 90)
    for seq_id in (1, 2):
        recording.observation(100 * seq_id, seq_id, task=markup + "pick " * 60)
        recording.chunk(100 * seq_id + 50, seq_id, status=1, message=markup)
    for tick in range(20):
        fields: dict[str, Any] = {"seq_id": 1, "interventions": [markup], "policy_version": "f" * 64}
        recording.executed(160 + 50 * tick, tick, [1e6] * 6 if tick % 3 else None, **fields)
    out = folder / "page.html"
    assert main(["explain", str(recording.write(folder / "<b>run")), "--html", str(out), "--quiet"]) == 0
    return out


@pytest.mark.parametrize("width", [390, 900, 1280])
def test_the_page_fits_a_phone_and_a_screen(
    browser: WebDriver, hostile: Path, page: Path, width: int
) -> None:
    resize(browser, width, HEIGHT)
    try:
        for one in (hostile, page):
            browser.get(one.as_uri())
            for tick in (0, 1, 5):
                go_to(browser, tick)
                assert overflow(browser) <= 0
    finally:
        resize(browser, 1280, HEIGHT)


def test_names_and_reasons_are_shown_and_never_executed(browser: WebDriver, hostile: Path) -> None:
    browser.get(hostile.as_uri())
    for tick in (0, 1):
        go_to(browser, tick)
        assert "<img src=x" in text(browser, "main")
        assert not browser.find_elements(By.CSS_SELECTOR, "main img[src=x], main b b")
    assert text(browser, "#bag") == "<b>run"
    assert browser.title != "run"
    assert complaints(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_is_readable_in_light_and_in_dark(browser: WebDriver, page: Path, scheme: str) -> None:
    """WCAG 2.1, AA: a contrast of at least 4.5."""
    prefer(browser, scheme)
    browser.get(page.as_uri())
    for tick in (CLAMPED_TICK, 60):
        go_to(browser, tick)
        background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (int(re.findall(r"\d+", background)[0]) < 64) == (scheme == "dark")
        words = browser.execute_script(CONTRAST)
        assert len(words) > 40
        assert [word for ratio, word in words if ratio < 4.5] == []


def test_the_page_loads_nothing_from_elsewhere(browser: WebDriver, page: Path) -> None:
    browser.get(page.as_uri())
    script = "return performance.getEntriesByType('resource').map(entry => entry.name)"
    assert [name for name in browser.execute_script(script) if not name.startswith("data:")] == []
    assert not re.search(r"(src|href)=[\"'](?!data:)", page.read_text(encoding="utf-8"))
    assert "http://www.w3.org/2000/svg" in page.read_text(encoding="utf-8"), "a name, not an address"
