# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo as a user runs it: real processes, real time, and every file that it promises."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import rclpy
from PIL import Image
from rclpy.context import Context

from remote_inference.bags.decisions.replay import replay_decisions
from remote_inference.bags.storage.bag import BagReader
from remote_inference.tools.cli import main
from remote_inference.tools.demo.results import Cell, write_sweep

DEADLINE_S = 180.0


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "remote_inference.tools.cli", "demo", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def test_the_demo_picks_cubes_at_600_ms_from_a_cold_start_and_leaves_its_results(
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    ended = demo("--episodes", "4", "--latency-ms", "600", "--json", "--quiet", "--out", str(out))
    assert (ended.returncode, ended.stderr) == (0, "")
    summary = json.loads((out / "summary.json").read_text())
    assert json.loads(ended.stdout) == summary
    assert summary["success_rate"] >= 0.75
    assert (summary["episodes"], summary["strategy"]) == (4, "trained")
    assert summary["latency_ms"]["p50"] >= 600.0
    assert summary["actions_by_source"]["chunk"] > 50
    assert "STREAMING" in {entry["state"] for entry in summary["states_visited"]}
    assert summary["versions"]["remote_inference"]
    for picture in ("report.png", "frames.png"):
        with Image.open(out / picture) as image:
            assert min(image.size) > 200
            assert len(set(image.convert("L").resize((64, 64)).tobytes())) > 10
    with BagReader(out / "bag") as bag:
        topics = set(bag.topics)
    assert {
        f"/belt_arm_1/remote_inference/{name}" for name in ("observation", "chunk", "state", "executed")
    } <= topics
    assert "/belt_arm_1/forward_position_controller/commands" in topics
    assert (
        main(["explain", str(out / "bag"), "--namespace", "/belt_arm_1", "--out", str(tmp_path / "r.png")])
        == 0
    )
    assert (tmp_path / "r.png").stat().st_size > 10_000
    replayed = replay_decisions(out / "bag", None, {})
    assert (replayed.exit_code, replayed.first, replayed.problems) == (0, None, [])
    assert replayed.compared["ticks"] > 50


class Demo:
    """A demo on a terminal of 80 columns, which goes on until it is interrupted."""

    def __init__(self, out: Path, *arguments: str) -> None:
        self.out = out
        self.said = ""
        command = [sys.executable, "-m", "remote_inference.tools.cli", "demo", "--out", str(out), *arguments]
        self._terminal, inside = os.openpty()
        self._process = subprocess.Popen(
            command, stdout=inside, stderr=inside, env={**os.environ, "TERM": "xterm", "COLUMNS": "80"}
        )
        os.close(inside)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert self._read(), self._evidence()
            assert time.monotonic() < deadline_s, self._evidence()

    def _read(self) -> bool:
        """Take what was said in the next moment; return False at its end."""
        if select.select([self._terminal], [], [], 0.02)[0]:
            try:
                self.said += os.read(self._terminal, 65536).decode(errors="replace")
            except OSError:  # the terminal's other end is closed
                return False
        return True

    def interrupt(self) -> str:
        """Press Ctrl-C; return all that the demo has said."""
        self._process.send_signal(signal.SIGINT)
        while self._read():
            pass
        os.close(self._terminal)
        assert self._process.wait(DEADLINE_S) == 130, self._evidence()
        assert "Traceback" not in self.said
        assert all("Traceback" not in log.read_text() for log in self.out.glob("**/logs/*.log"))
        return self.said.replace("\r\n", " ")

    def _evidence(self) -> str:
        """Return the end of what the demo said and of every log: its bar is drawn ten times a second."""
        logs = {str(log): log.read_text() for log in sorted(self.out.glob("**/logs/*.log"))}
        return "\n".join(
            f"{name}: ...{text[-1000:]}" for name, text in {"terminal": self.said, **logs}.items()
        )


def test_an_interrupted_demo_tells_its_results_so_far(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "run", "--episodes", "50")
    demo.wait_for(lambda: "1/50" in demo.said)
    said = demo.interrupt()
    assert "of 50 episodes finished" in said
    assert "cubes picked" in said
    assert "request cycle" in said
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 0 < summary["episodes"] < summary["episodes_asked_for"] == 50
    assert len(summary["episode_results"]) == summary["episodes"]
    replayed = replay_decisions(tmp_path / "run" / "bag", None, {})  # at 0 ms
    assert (replayed.exit_code, replayed.first, replayed.problems) == (0, None, [])
    assert replayed.compared["ticks"] > 50


def test_a_demo_that_is_interrupted_while_it_starts_says_so(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "run")
    demo.wait_for((tmp_path / "run" / "logs" / "policy_server.log").exists)
    assert "ended early: 0 of 10 episodes finished" in demo.interrupt()


def test_an_interrupted_sweep_keeps_the_combinations_that_are_finished(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "sweep", "--sweep", "--episodes", "1", "--strategy", "blocking")
    demo.wait_for((tmp_path / "sweep" / "sweep.png").exists)
    said = demo.interrupt()
    assert "ended early: 1 of 6 combinations finished" in said
    assert "Cubes picked by injected latency" in said


def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    ended = demo("--out", str(tmp_path))
    assert ended.returncode == 2
    assert "expected a folder to create" in ended.stderr


@pytest.fixture
def other_arm() -> Iterator[None]:
    """An arm of another demo."""
    context = Context()
    rclpy.init(context=context)
    node = rclpy.create_node("belt_arm", namespace="/belt_arm_1", context=context)
    yield
    node.destroy_node()
    rclpy.shutdown(context=context)


@pytest.mark.usefixtures("other_arm")
def test_a_demo_that_another_one_would_disturb_is_refused(tmp_path: Path) -> None:
    ended = demo("--out", str(tmp_path / "run"))
    assert ended.returncode == 2
    domain = int(os.environ["ROS_DOMAIN_ID"])
    assert (
        f"demo: /belt_arm_1/belt_arm of another demo: running in ROS_DOMAIN_ID {domain}; end that demo, or "
        f"set another domain for this one, such as ROS_DOMAIN_ID={domain + 1}\n"
    ) in ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("arguments", [("--episodes", "0"), ("--latency-ms", "-1"), ("--strategy", "hope")])
def test_impossible_options_are_refused(arguments: tuple[str, str]) -> None:
    ended = demo(*arguments)
    assert ended.returncode == 2
    assert arguments[0] in ended.stderr


def test_the_sweep_is_plotted_with_a_line_per_strategy(tmp_path: Path) -> None:
    cells = {
        (strategy, latency_ms): Cell(strategy, latency_ms, successes, 10)
        for strategy, row in {"trim": (10, 9), "no_trim": (10, 0), "blocking": (9, 1)}.items()
        for latency_ms, successes in zip((0.0, 300.0), row, strict=True)
    }
    write_sweep(cells, tmp_path)
    rows = json.loads((tmp_path / "sweep.json").read_text())
    assert len(rows) == 6
    assert {
        "strategy": "no_trim",
        "latency_ms": 300.0,
        "successes": 0,
        "episodes": 10,
        "success_rate": 0.0,
        "interval": pytest.approx([0.0, 0.2775], abs=1e-4),
    } in rows
    with Image.open(tmp_path / "sweep.png") as image:
        assert image.width > 500
