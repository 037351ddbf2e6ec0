# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A group stops its processes however it ends itself, and says how each of them ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from remote_inference.tools.deployment import process_group
from remote_inference.tools.deployment.bringup import Process
from remote_inference.tools.deployment.process_group import ProcessError, ProcessGroup, run_in_foreground
from support.waiting import process_state, wait_until

DEADLINE_S = 30.0
SLEEP = "time.sleep(600)"
# What every script begins with: its process id in the file that its first argument names.
TELL_ID = """
import os, pathlib, signal, sys, time
told = pathlib.Path({told!r})
def tell():
    told.with_suffix(".new").write_text(str(os.getpid()))
    told.with_suffix(".new").rename(told)
"""
WRAPPER = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/../.."]
from remote_inference.tools.deployment.process_group import run_in_foreground
from test_process_group import Script
suspended = sys.argv[3] == "True"
scripts = [Script("script", "script", code=sys.argv[2], is_suspended=suspended)]
sys.exit(run_in_foreground(scripts, quiet=True))
"""


@dataclass(frozen=True)
class Script(Process):
    """A process that runs Python code."""

    code: str = ""

    def command(self) -> list[str]:
        return [sys.executable, "-c", self.code]


def script(code: str, *, name: str = "script", required: bool = True) -> Script:
    return Script("script", name, code=f"import os, sys, time\n{code}", required=required)


class Wrapper:
    """`run_in_foreground` in a process of its own, around one script that has called `tell`."""

    def __init__(self, folder: Path, code: str, *, is_suspended: bool) -> None:
        told = folder / "pid"
        code = TELL_ID.format(told=str(told)) + code
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRAPPER, str(Path(__file__).parent), code, str(is_suspended)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        wait_until(told.exists, "the script runs")
        self.script = int(told.read_text())

    def end(self) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, output


@pytest.fixture
def wrap(tmp_path: Path) -> Iterator[Callable[[str], Wrapper]]:
    wrappers: list[Wrapper] = []

    def start(code: str, *, is_suspended: bool = True) -> Wrapper:
        wrappers.append(Wrapper(tmp_path, code, is_suspended=is_suspended))
        return wrappers[-1]

    yield start
    for wrapper in wrappers:
        wrapper.process.kill()
        wrapper.process.wait()


def test_a_killed_wrapper_takes_its_processes_with_it(wrap: Callable[[str], Wrapper]) -> None:
    """Otherwise a robot's node would keep commanding, and nobody could stop it."""
    wrapper = wrap(f"tell()\n{SLEEP}")
    wrapper.process.kill()
    wait_until(lambda: not process_state(wrapper.script), "the script ends")


def test_a_process_of_a_killed_wrapper_can_still_shut_down_cleanly(
    wrap: Callable[[str], Wrapper], tmp_path: Path
) -> None:
    said = tmp_path / "said"
    take = f"signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path({str(said)!r}).touch(), sys.exit()))"
    wrapper = wrap(f"{take}\ntell()\n{SLEEP}")
    wrapper.process.kill()
    wait_until(said.exists, "the script took SIGTERM")


def test_a_killed_process_is_named_with_its_signal(wrap: Callable[[str], Wrapper]) -> None:
    code, output = wrap("tell()\nos.kill(os.getpid(), signal.SIGKILL)").end()
    assert "remote-inference: script was killed by SIGKILL\n" in output
    assert code == 128 + signal.SIGKILL


def test_an_exit_code_is_said_and_passed_on(wrap: Callable[[str], Wrapper]) -> None:
    code, output = wrap("tell()\nsys.exit(3)").end()
    assert output == "remote-inference: script ended with exit code 3\n"
    assert code == 3


def test_a_process_that_ends_well_is_no_news(wrap: Callable[[str], Wrapper]) -> None:
    assert wrap("tell()").end() == (0, "")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM])
def test_a_process_that_takes_no_signals_yet_ends_without_a_traceback(
    wrap: Callable[[str], Wrapper], number: signal.Signals
) -> None:
    """A node imports for a second before it can take SIGINT as a wish."""
    wrapper = wrap(f"tell()\n{SLEEP}")
    wrapper.process.send_signal(number)
    assert wrapper.end() == (0, "")


def test_one_that_is_not_required_makes_no_failure_of_an_orderly_end(tmp_path: Path) -> None:
    """A recorder whose disk is full."""
    told = tmp_path / "told"
    fail = f"import signal\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(1))\nopen({str(told)!r}, 'w')\n"
    end = f"while not os.path.exists({str(told)!r}): time.sleep(0.01)\nos.kill({os.getpid()}, 15)\n{SLEEP}"
    for required in (False, True):
        told.unlink(missing_ok=True)
        processes = [script(end), script(fail + SLEEP, name="recorder", required=required)]
        assert run_in_foreground(processes, quiet=True) == int(required)


@pytest.mark.parametrize("is_suspended", [True, False])
def test_what_is_suspended_with_its_wrapper_goes_on_with_it(
    wrap: Callable[..., Wrapper], *, is_suspended: bool
) -> None:
    """`fg` continues both. The watchdog of a robot is not suspended."""
    wrapper = wrap(f"tell()\n{SLEEP}", is_suspended=is_suspended)
    wrapper.process.send_signal(signal.SIGTSTP)
    wait_until(lambda: process_state(wrapper.process.pid) == "T", "the wrapper is suspended")
    if is_suspended:  # it got the signal before, but may not have been scheduled since
        wait_until(lambda: process_state(wrapper.script) == "T", "the script is suspended")
    else:
        assert process_state(wrapper.script) != "T"
    wrapper.process.send_signal(signal.SIGCONT)
    wait_until(
        lambda: "T" not in {process_state(wrapper.process.pid), process_state(wrapper.script)}, "both go on"
    )
    wrapper.process.send_signal(signal.SIGINT)
    assert wrapper.end() == (0, "")


def test_repeated_interrupts_leave_no_process_and_no_traceback(
    wrap: Callable[[str], Wrapper], tmp_path: Path
) -> None:
    asked, go = tmp_path / "asked", tmp_path / "go"
    slow_end = f"""
def end(*_):
    pathlib.Path({str(asked)!r}).touch()
    while not os.path.exists({str(go)!r}): time.sleep(0.02)
    sys.exit()
signal.signal(signal.SIGTERM, end)
"""
    wrapper = wrap(f"{slow_end}\ntell()\n{SLEEP}")
    wrapper.process.send_signal(signal.SIGINT)
    wait_until(asked.exists, "the script is asked to stop")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        wrapper.process.send_signal(number)
    assert process_state(wrapper.script)
    go.touch()
    assert wrapper.end() == (0, "")
    assert not process_state(wrapper.script)


def test_the_end_of_an_optional_process_is_logged_while_the_others_run_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The robot goes on without its recorder, and its operator is told."""
    go = tmp_path / "go"
    waiting = f"while not os.path.exists({str(go)!r}): time.sleep(0.02)"
    with ProcessGroup() as group:
        group.start(script("sys.exit(2)", name="recorder", required=False)).wait(DEADLINE_S)
        group.start(script(waiting, name="robot"))
        group.check()
        group.check()
        go.touch()
        assert group.wait() == 0
    said = capfd.readouterr().err
    assert said == "remote-inference: recorder ended with exit code 2, the rest runs on without it\n"


def test_the_end_of_a_log_is_shown_with_what_ended(tmp_path: Path) -> None:
    with ProcessGroup(tmp_path) as group:
        started = group.start(script("print('no disk'); sys.exit(2)"))
        started.wait(DEADLINE_S)
        with pytest.raises(ProcessError, match=r"(?s)script ended with exit code 2; .*script\.log:\nno disk"):
            group.check()


def test_the_exit_code_is_that_of_the_process_that_ended_first() -> None:
    scripts = [script(SLEEP, name="long"), script("sys.exit(4)", name="short")]
    assert run_in_foreground(scripts, quiet=True) == 4


def test_a_process_that_does_not_end_is_named_before_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process_group, "STOP_TIMEOUT_S", 0.2)
    told = tmp_path / "told"
    group = ProcessGroup()
    deaf = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen({str(told)!r}, 'w')\n{SLEEP}"
    group.start(script(deaf, name="deaf"))
    wait_until(told.exists, "the script runs")
    assert group.stop() == [-signal.SIGKILL]
    assert "deaf did not end within 0.2 s of SIGTERM: it is killed" in capsys.readouterr().err
