# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The status page of a running server in a real browser: it updates, fits the screen and trusts no name."""

from __future__ import annotations

import re
import signal
import socket
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.free_ports import free_port

pytest.importorskip("selenium", reason="no selenium: pip install selenium, and run tools/ensure_chromium.sh")

from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from remote_inference.server.live_weights import CLOSED
from remote_inference.server.monitoring.health import PAGE, HealthServer
from remote_inference.server.monitoring.metrics import ServerMetrics
from remote_inference.server.monitoring.snapshot import ServerSnapshot, SessionView
from support.nodes.browser import CONTRAST, chromium, complaints, needs_browser, overflow, prefer, resize
from support.nodes.fleet import FleetRobot
from support.nodes.rig import DEADLINE_S, Rig, write_manifest

pytestmark = needs_browser

WIDTH, HEIGHT = 900, 900


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[WebDriver]:
    with chromium(tmp_path / "profile", WIDTH, HEIGHT) as driver:
        yield driver


def wait_for(browser: WebDriver, condition: Callable[[], Any], what: str) -> None:
    WebDriverWait(browser, DEADLINE_S, 0.1).until(lambda _: condition(), f"{what}: not within {DEADLINE_S} s")


def text(browser: WebDriver, selector: str) -> str:
    return browser.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)


def rows(browser: WebDriver) -> list[list[str]]:
    script = "return [...document.querySelectorAll('#rows tr')].map(r => [...r.cells].map(c => c.innerText))"
    return browser.execute_script(script)


def points(browser: WebDriver, selector: str) -> int:
    """Return how many points a drawn line has."""
    script = "return document.querySelector(arguments[0])?.getAttribute('d')?.split('L').length ?? 0"
    return browser.execute_script(script, selector)


def test_the_page_shows_the_sessions_and_their_changes(rig: Rig, tmp_path: Path, browser: WebDriver) -> None:
    port = free_port()
    rig.start_server(write_manifest(tmp_path, health_port=port))
    busy, broken = FleetRobot(rig, "/cell/busy", period_s=0.1), FleetRobot(rig, "/cell/broken")
    broken.request(state=array("f", [1.0]))
    browser.get(f"http://127.0.0.1:{port}/")
    states = [["failing"], ["serving"]]
    wait_for(browser, lambda: [row[1:2] for row in rows(browser)[::2]] == states, "both sessions' states")
    assert (text(browser, "#server"), text(browser, "#state")) == ("/policy_server", "ready")
    assert text(browser, "#sessions") == "2 of 4"
    first, outcome, second = rows(browser)
    assert first[:2] == [f"/cell/broken\n{broken.session.session_id}", "failing"]
    assert outcome == ["malformed observation: state: found 1 values, expected 2"]
    assert second[:2] == [f"/cell/busy\n{busy.session.session_id}", "serving"]
    wait_for(
        browser, lambda: points(browser, "#rows tr:last-child path:last-child") >= 20, "a line of latencies"
    )
    wait_for(browser, lambda: points(browser, "#load-line path:last-child") >= 2, "a line of loads")
    requests = int(rows(browser)[-1][7])
    wait_for(browser, lambda: int(rows(browser)[-1][7]) > requests, "live numbers without a reload")
    wait_for(browser, lambda: float(text(browser, "#rate").split()[0]) > 1.0, "the rate of requests")
    broken.close()
    wait_for(browser, lambda: text(browser, "#sessions") == "1 of 4", "the session that was closed")
    assert complaints(browser) == []
    assert browser.save_screenshot(str(tmp_path / "status_page.png"))


def test_the_page_says_when_the_server_is_gone_and_recovers(
    rig: Rig, tmp_path: Path, browser: WebDriver
) -> None:
    port = free_port()
    manifest = write_manifest(tmp_path, health_port=port)
    rig.start_server(manifest)
    wait_for(browser, lambda: _listens(port), "the health port")
    browser.get(f"http://127.0.0.1:{port}/")
    wait_for(browser, lambda: text(browser, "#state") == "ready", "ready")
    assert text(browser, "#alarm") == ""
    assert text(browser, "#empty") == "No robot has a session."
    rig.server.send_signal(signal.SIGKILL)
    rig.server.wait(10)
    wait_for(browser, lambda: text(browser, "#state") == "no answer", "the server missed")
    assert "has not answered since" in text(browser, "#alarm")
    rig.start_server(manifest)
    wait_for(browser, lambda: text(browser, "#state") == "ready", "ready again")
    assert text(browser, "#alarm") == ""


def test_the_page_says_how_far_the_served_weights_are_behind_the_trainer_s(browser: WebDriver) -> None:
    snapshot = ServerSnapshot("/server", "abc", "active", 0.0, policy="p 1", policy_fingerprint="f")
    shown = [snapshot]
    port = free_port()
    server = HealthServer(port, lambda: shown[-1], ServerMetrics(lambda: shown[-1], lambda: 0.0).render)

    def says(policy: str) -> bool:
        return " ".join(text(browser, "#policy").split()) == f"p 1 · {policy}"

    try:
        browser.get(f"http://127.0.0.1:{port}/")
        for version, behind, policy in (
            (-1, 0, "f"),
            (0, 1, "f@0 (1 behind the trainer)"),
            (0, 0, "f"),
            (3, 2, "f@3 (2 behind the trainer)"),
            (5, 0, "f@5"),
        ):
            shown.append(replace(snapshot, weights=replace(CLOSED, version=version, behind=behind)))
            wait_for(browser, partial(says, policy), policy)
        assert complaints(browser) == []
    finally:
        server.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def crowded_server() -> Iterator[int]:
    """A server with long and hostile names, large numbers and long reasons."""
    states = ("new", "serving", "quiet", "failing")
    sessions = tuple(
        SessionView(
            f"session{index:05}",
            f"/a_rather_long_site_name/cell_{index}/left_arm",
            "/n",
            states[index % 4],
            requests=123_456,
            errors=index % 2 * 9_999,
            superseded=index,
            last_outcome="<img src=x onerror=\"document.title='run'\">" + "long " * 40,
            last_request_age_s=12.0,
            queue_wait_ms=1234.5,
            inference_ms=99.9,
            latencies_ms=tuple(float(value % 17) for value in range(index * 10)),
        )
        for index in range(7)
    )
    snapshot = ServerSnapshot(
        "/site/policy_server",
        "abc",
        "active",
        0.0,
        loading=True,
        policy="<b>p</b> 1",
        load=0.93,
        loads=(0.1, 0.93),
        max_sessions=8,
        sessions=sessions,
    )
    port = free_port()
    server = HealthServer(port, lambda: snapshot, ServerMetrics(lambda: snapshot, lambda: 0.0).render)
    yield port
    server.close()


@pytest.mark.parametrize("width", [390, 900, 1400])
def test_the_page_fits_a_phone_and_a_screen(browser: WebDriver, crowded_server: int, width: int) -> None:
    resize(browser, width, HEIGHT)
    browser.get(f"http://127.0.0.1:{crowded_server}/")
    wait_for(browser, lambda: len(rows(browser)) > 7, "the sessions")
    assert overflow(browser) <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_is_readable_in_light_and_in_dark(
    browser: WebDriver, crowded_server: int, scheme: str
) -> None:
    """WCAG 2.1, AA: a contrast of at least 4.5."""
    prefer(browser, scheme)
    browser.get(f"http://127.0.0.1:{crowded_server}/")
    wait_for(browser, lambda: len(rows(browser)) > 7, "the sessions")
    background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", background)[0]) < 64) == (scheme == "dark")
    words = browser.execute_script(CONTRAST)
    assert len(words) > 50
    assert [word for ratio, word in words if ratio < 4.5] == []


def test_names_and_reasons_are_shown_and_never_executed(browser: WebDriver, crowded_server: int) -> None:
    browser.get(f"http://127.0.0.1:{crowded_server}/")
    wait_for(browser, lambda: len(rows(browser)) > 7, "the sessions")
    assert text(browser, "#policy") == "<b>p</b> 1"
    assert "<img src=x" in text(browser, "tr.outcome")
    assert not browser.find_elements(By.CSS_SELECTOR, "main img, main b")
    assert browser.title != "run"
    assert text(browser, "#alarm") == "Not ready: the policy is being loaded."
    assert complaints(browser) == []


def test_the_page_loads_nothing_from_other_hosts(browser: WebDriver, crowded_server: int) -> None:
    browser.get(f"http://127.0.0.1:{crowded_server}/")
    wait_for(browser, lambda: len(rows(browser)) > 7, "the sessions")
    script = "return performance.getEntriesByType('resource').map(entry => entry.name)"
    assert set(browser.execute_script(script)) == {f"http://127.0.0.1:{crowded_server}/status.json"}
    assert len(PAGE.read_text().splitlines()) < 300
