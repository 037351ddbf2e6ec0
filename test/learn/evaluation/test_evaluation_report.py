# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The report needs no other file, says what the numbers are, and lets no text of others be markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from remote_inference.learn.environment import EnvironmentObservation
from remote_inference.learn.evaluation.document import load_evaluation
from remote_inference.learn.evaluation.report import Findings, write_report
from remote_inference.learn.evaluation.results import EpisodeResult, ResultsFolder
from remote_inference.learn.rollouts.film_strip import FRAMES, Film, to_png
from support.evaluation.drawer_evaluation import make_result, write_evaluation

MODES = {"modes": ["stepped", "charged"], "latencies_ms": [600], "episodes": 2}


class Links(HTMLParser):
    """Collects what a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.loaded += [value or "" for name, value in attrs if name in {"src", "href", "xlink:href"}]


def report(tmp_path: Path, *results: EpisodeResult, **changes: object) -> tuple[str, Findings]:
    tmp_path.mkdir(exist_ok=True)
    evaluation = load_evaluation(write_evaluation(tmp_path, **{**MODES, **changes}))
    with ResultsFolder(tmp_path / "out", evaluation) as folder:
        for result in results:
            folder.append(result)
        if results and results[-1].film:
            (folder.folder / results[-1].film).write_bytes(to_png([np.zeros((4, 6, 3), np.uint8)]))
        findings = write_report(evaluation, folder, "drawer <1>")
    return (tmp_path / "out" / "report.html").read_text(), findings


def charged(seed: int, **changes: object) -> EpisodeResult:
    return make_result(seed, mode="charged", latency_ms=600.0, **changes)


def test_the_page_stands_alone_and_escapes_what_others_wrote(tmp_path: Path) -> None:
    script = "<script>alert(1)</script>"
    page, _ = report(tmp_path, make_result(0), charged(0, success=False, error=script, film="films/a.png"))
    links = Links()
    links.feed(page)
    assert links.scripts == 0
    assert [one.split(",")[0] for one in links.loaded if not one.startswith("#")] == ["data:image/png;base64"]
    assert "drawer &lt;1&gt;" in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_page_says_success_interval_and_what_latency_costs(tmp_path: Path) -> None:
    page, findings = report(
        tmp_path, make_result(0), make_result(1), charged(0), charged(1, success=False, held_steps=5)
    )
    text = re.sub(r"<[^>]+>", " ", page)
    assert re.search(r"pull\s+charged\s+600 ms\s+50% \(1 of 2\)\s+9\.5% to 90\.5%", text)
    assert re.search(r"600 ms\s+100%\s+50%\s+\+50", text)
    assert (findings.asked, findings.played) == (4, 4)


def test_a_picture_has_an_axis_of_latencies_where_there_are_any(tmp_path: Path) -> None:
    page, _ = report(tmp_path, make_result(0), charged(0))
    assert "latency [ms]" in page
    waiting, _ = report(tmp_path / "waiting", make_result(0), modes=["stepped"], latencies_ms=[])
    assert "success [%]" in waiting
    assert "latency [ms]" not in waiting


def test_wide_tables_scroll_and_the_page_does_not(tmp_path: Path) -> None:
    pytest.importorskip("selenium", reason="no selenium: pip install selenium")
    from support.nodes.browser import chromium, is_installed, overflow

    if not is_installed():
        pytest.skip("no chromium: run tools/ensure_chromium.sh")
    numbers = {f"action_error_mean.a_joint_with_a_long_name_{joint}": 0.125 for joint in range(14)}
    report(tmp_path, make_result(0, metrics=numbers), charged(0, metrics=numbers))
    with chromium(tmp_path / "profile", 1000, 900) as browser:
        browser.get((tmp_path / "out" / "report.html").as_uri())
        assert overflow(browser) <= 0


def test_episodes_that_are_missing_are_told(tmp_path: Path) -> None:
    page, _ = report(tmp_path, make_result(0))
    assert "1 of 4 episodes played" in page
    assert "3 of them are not played yet" in page


def test_an_evaluation_without_an_episode_has_a_report_too(tmp_path: Path) -> None:
    page, findings = report(tmp_path)
    assert "0 of 4 episodes played" in page
    assert findings.summaries == []


def test_the_summary_is_json_with_the_same_numbers(tmp_path: Path) -> None:
    _, findings = report(tmp_path, make_result(0), charged(0, success=False, metrics={"way": None}))
    content = json.loads((tmp_path / "out" / "task_summary.json").read_text())
    assert content == json.loads(json.dumps(findings.to_json()))
    assert [one["success_rate"] for one in content["conditions"]] == [1.0, 0.0]
    assert content["rt_degradation"][0]["points"] == 1.0


def test_episodes_that_the_document_no_longer_asks_for_do_not_count(tmp_path: Path) -> None:
    report(tmp_path, make_result(0), make_result(1), episodes=2, modes=["stepped"], latencies_ms=[])
    evaluation = load_evaluation(write_evaluation(tmp_path, episodes=1))
    with ResultsFolder(tmp_path / "out", evaluation) as folder:
        findings = write_report(evaluation, folder, "less")
    assert (findings.asked, findings.played) == (1, 1)


def test_a_film_keeps_few_pictures_and_the_last_one() -> None:
    from support.environments.drawer import FRONT, Drawer

    for steps in (3, 7, 40, 100):
        film = Film(Drawer(), (FRONT,), 40)
        for step in range(steps + 1):
            film.note(step, EnvironmentObservation({FRONT: np.full((4, 6, 3), step, np.uint8)}, 0.1 * step))
        frames = film.finish()
        if steps <= 40:
            assert len(frames) <= FRAMES
            assert frames[-1][0, 0, 0] == steps
