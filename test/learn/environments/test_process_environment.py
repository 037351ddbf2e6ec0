# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An environment in a process of its own behaves as in ours; one that hangs or dies is replaced."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from remote_inference.learn.environment import EnvError, require_promised
from remote_inference.learn.environments.process_environment import ProcessEnvironment
from remote_inference.learn.environments.runners import Timeouts
from support.environments.shed import CRASH, FADE, HANG, RAISE, REFUSE, Shed
from support.importable import python_path

LONG = Timeouts(60.0, 60.0, 60.0, 60.0)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path())


@pytest.fixture
def shed(_importable: None) -> Iterator[ProcessEnvironment]:
    made = ProcessEnvironment("support.environments.shed:Shed", {"size": 3}, LONG)
    made.start()
    yield made
    made.close()


def act(environment: ProcessEnvironment, told: float) -> None:
    environment.step(np.array([told]))


def is_running(process_id: int) -> bool:
    """Return whether the process runs; one that has ended may still wait for its parent to look."""
    try:
        return "State:\tZ" not in Path(f"/proc/{process_id}/status").read_text()
    except FileNotFoundError:
        return False


def test_everything_arrives_as_the_environment_gave_it(shed: ProcessEnvironment) -> None:
    ours = Shed(size=3)
    assert shed.spec == ours.spec
    wanted = list(shed.spec.features)
    for one, other in (
        (shed.reset(2, "tidy", wanted), ours.reset(2, "tidy", wanted)),
        (shed.step(np.zeros(1)).observation, ours.step(np.zeros(1)).observation),
    ):
        require_promised(shed.spec, wanted, one)
        assert all(np.array_equal(one.values[name], other.values[name]) for name in wanted)
        assert one.time_s == other.time_s
    step = shed.step(np.zeros(1))
    assert (step.reward, step.terminated, step.truncated) == (0.5, False, False)
    assert shed.metrics() == ours.metrics().__class__(True, {"steps": 4, "tidy": True, "dust": 0.25})
    assert np.array_equal(shed.render(), ours.render())


def test_an_observation_that_is_not_what_was_promised_is_an_error_with_its_name(
    shed: ProcessEnvironment,
) -> None:
    shed.reset(0, "tidy", ["observation.images.door"])
    with pytest.raises(EnvError, match=r"shed: observation.images.door: found float64, expected .* uint8"):
        shed.step(np.array([FADE]))


def test_an_observation_larger_than_a_pipe_arrives() -> None:
    large = ProcessEnvironment("support.environments.shed:Shed", {"size": 1500}, LONG)
    shown = large.reset(0, "tidy", ["observation.images.door"])
    assert shown.values["observation.images.door"].shape == (1500, 1500, 3)
    large.close()


def test_a_step_that_hangs_ends_the_process_and_a_reset_starts_another() -> None:
    shed = ProcessEnvironment("support.environments.shed:Shed", {}, Timeouts(60.0, 60.0, 0.3, 60.0))
    shed.reset(0, "tidy", [])
    hung = shed.process_id
    assert hung is not None
    with pytest.raises(EnvError, match=r"support.environments.shed:Shed: step took longer than 0\.3 s"):
        act(shed, HANG)
    assert not is_running(hung)
    with pytest.raises(EnvError, match=r"metrics refused: step took longer than 0\.3 s; a reset starts it"):
        shed.metrics()
    assert shed.reset(5, "tidy", ["observation.state"]).values["observation.state"] == [5.0]
    shed.close()


def test_a_crash_is_told_with_its_code_and_a_reset_starts_another(shed: ProcessEnvironment) -> None:
    shed.reset(0, "tidy", [])
    with pytest.raises(EnvError, match=r"step: its process has ended \(code 7\)"):
        act(shed, CRASH)
    shed.reset(0, "tidy", [])
    act(shed, 0.0)


@pytest.mark.parametrize("told", [HANG, CRASH])
def test_a_process_that_is_lost_leaves_no_helper_behind(told: float, tmp_path: Path) -> None:
    """An orphan would go on using the machine, and print a traceback where its owner prints."""
    helper_file = tmp_path / "helper"
    shed = ProcessEnvironment(
        "support.environments.shed:Shed", {"helper_file": str(helper_file)}, Timeouts(60.0, 60.0, 0.3, 60.0)
    )
    shed.reset(0, "tidy", [])
    helper = int(helper_file.read_text())
    assert is_running(helper)
    with pytest.raises(EnvError):
        act(shed, told)
    deadline_s = time.monotonic() + 10.0
    while is_running(helper):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_process_does_not_get_the_terminal_s_signals(shed: ProcessEnvironment) -> None:
    """Its owner ends it: a Ctrl-C that arrives while it imports would be a traceback."""
    assert shed.process_id is not None
    assert os.getpgid(shed.process_id) != os.getpgid(0)


def test_a_process_that_is_killed_is_told(shed: ProcessEnvironment) -> None:
    shed.reset(0, "tidy", [])
    assert shed.process_id is not None
    os.kill(shed.process_id, signal.SIGKILL)
    with pytest.raises(EnvError, match=r"its process has ended \(code -9\)"):
        act(shed, 0.0)


@pytest.mark.parametrize(
    ("told", "problem"),
    [(RAISE, "step: ZeroDivisionError: a plank is missing"), (REFUSE, "shed: the door is locked")],
)
def test_what_the_environment_raises_is_told_and_it_lives_on(
    shed: ProcessEnvironment, told: float, problem: str
) -> None:
    shed.reset(0, "tidy", [])
    before = shed.process_id
    with pytest.raises(EnvError, match=problem):
        act(shed, told)
    act(shed, 0.0)
    assert shed.process_id == before


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("support.environments.shed:Shed", {"broken": True}, "RuntimeError: no roof"),
        ("support.environments.shed:Shed", {"colour": "red"}, "unexpected keyword argument 'colour'"),
        ("nowhere:Nothing", {}, "No module named 'nowhere'"),
        ("belt_harm", {}, "did you mean 'belt_arm'"),
    ],
)
def test_an_environment_that_cannot_be_made_leaves_no_process(
    name: str, options: dict[str, object], problem: str
) -> None:
    with pytest.raises(EnvError, match=problem):
        ProcessEnvironment(name, options, LONG).start()


def test_a_closed_environment_leaves_no_process(shed: ProcessEnvironment) -> None:
    process_id = shed.process_id
    assert process_id is not None
    shed.close()
    assert not is_running(process_id)
    shed.close()
    with pytest.raises(EnvError, match="step refused: it was closed"):
        act(shed, 0.0)
