# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A signal ends every executable, whenever it comes: quickly, and without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from remote_inference.base.nodes.start import MODULES
from remote_inference.base.stop_signals import SUSPENDING, ending_signals
from support.nodes.executables import start
from support.nodes.faulty_server import PolicyFault
from support.nodes.health_port import answers
from support.nodes.rig import Rig, write_manifest
from support.waiting import wait_until

DEADLINE_S = 30.0
MOMENTS_S = (0.3, 0.6, 1.0, 1.5, 2.0, 3.0)  # after the start: imports, construction, work

# Runs an executable until it spins, then says which threads of the middleware are left.
THREADS_LEFT = f"""
import os, signal, sys, time
from importlib import import_module
from remote_inference.base.nodes import runtime, start

sys.path.append({str(Path(__file__).parents[1])!r})
from support.native_threads import native_threads

spin = runtime.spin
def spin_and_stop(*arguments):
    os.kill(os.getpid(), signal.SIGINT)
    spin(*arguments)
runtime.spin = spin_and_stop
import_module(start.MODULES[sys.argv[1]]).main()

end_s = time.monotonic() + 5.0  # a thread that was joined may still be listed for a moment
while native_threads() and time.monotonic() < end_s:
    time.sleep(0.05)
print("threads left:", native_threads())
"""


def catches_signals(process: subprocess.Popen[str], *numbers: int) -> bool:
    """Return whether it has a handler of each signal, SIGTERM at least: Python itself has SIGINT's."""
    return all(is_set(process, "SigCgt", number) for number in numbers or (signal.SIGTERM,))


def is_set(process: subprocess.Popen[str], mask: str, number: int) -> bool:
    """Return whether a signal is in a mask of the process: SigCgt of the caught, SigIgn of the ignored."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    bits = int(next(line for line in status.splitlines() if line.startswith(mask)).split()[1], 16)
    return bool(bits >> (number - 1) & 1)


def test_nothing_heavy_is_imported_before_signals_are_caught() -> None:
    """A Ctrl-C in the second that rclpy and numpy take would come out of them as a traceback."""
    program = (
        "import sys, remote_inference.base.nodes.start; "
        "print(*{'rclpy', 'numpy', 'pydantic'} & {*sys.modules})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert (ended.returncode, ended.stdout) == (0, "\n")


def test_a_server_that_is_loading_its_policy_can_be_ended(rig: Rig, tmp_path: Path, port: int) -> None:
    fault = PolicyFault(tmp_path)
    fault.begin("hang")  # in the first inference of the warm-up
    rig.server = rig.group.start(fault.server(write_manifest(tmp_path, health_port=port)))
    rig.wait_for(answers(port, "/readyz", 503, "the policy is being loaded"), "loading")
    rig.server.send_signal(signal.SIGINT)
    assert rig.server.wait(DEADLINE_S) == 0
    assert "Traceback" not in (tmp_path / "logs" / "policy_server.log").read_text()


@pytest.mark.parametrize("executable", MODULES)
@pytest.mark.parametrize("moment_s", MOMENTS_S)
def test_two_signals_at_any_moment_end_it_without_a_traceback(
    executable: str, moment_s: float, tmp_path: Path
) -> None:
    process = start(executable, tmp_path)
    wait_until(lambda: catches_signals(process), "Python has reached this package", DEADLINE_S)
    time.sleep(moment_s - MOMENTS_S[0])
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert "Traceback" not in output
    assert "KeyboardInterrupt" not in output
    assert process.returncode == 0, output


# Sends itself a second signal at each line that the handler of the first one runs, in any module.
SIGNALS_IN_THE_HANDLER = """
import signal, sys
from remote_inference.base.nodes import runtime

def trace(frame, event, _):
    if event == "line":
        signal.raise_signal(signal.SIGHUP)
    return trace

def first(*arguments):
    sys.settrace(trace)
    handler(*arguments)
    sys.settrace(None)

runtime._catch_signals()
handler = signal.getsignal(signal.SIGTERM)
signal.signal(signal.SIGTERM, first)
signal.raise_signal(signal.SIGTERM)
print("stops:", runtime.is_stopping())
"""


def test_a_signal_that_comes_while_another_is_handled_does_not_hang_the_process() -> None:
    """A terminal that closes and a service manager send two at once; the watchdog must not hang then."""
    ended = subprocess.run(
        [sys.executable, "-c", SIGNALS_IN_THE_HANDLER], capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert (ended.stdout, ended.stderr) == ("stops: True\n", "")


@pytest.mark.parametrize("executable", MODULES)
def test_the_middleware_has_ended_before_python_does(executable: str, tmp_path: Path) -> None:
    """What is destroyed while Python ends can hang or crash, and Kilted leaves its shared memory behind."""
    process = start(executable, tmp_path, ("-c", THREADS_LEFT))
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert "threads left: []" in output, output


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM])
@pytest.mark.parametrize("executable", ["remote_inference", "command_watchdog"])
def test_a_signal_that_ends_processes_ends_it_in_order(
    executable: str, number: signal.Signals, tmp_path: Path
) -> None:
    process = start(executable, tmp_path)
    wait_until(lambda: catches_signals(process, number), "the signal is caught", DEADLINE_S)
    process.send_signal(number)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, "Traceback" in output) == (0, False), output


def test_only_what_cannot_be_handled_or_is_a_fault_is_left_to_its_default(tmp_path: Path) -> None:
    process = start("command_watchdog", tmp_path)
    wait_until(lambda: catches_signals(process, *ending_signals()), "all are caught", DEADLINE_S)
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
    assert {signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL}.isdisjoint(ending_signals())


def test_what_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = start("command_watchdog", tmp_path)
    finally:
        signal.signal(signal.SIGHUP, ignored)
    wait_until(lambda: catches_signals(process), "signals are caught", DEADLINE_S)
    assert is_set(process, "SigIgn", signal.SIGHUP)
    process.terminate()
    assert process.wait(DEADLINE_S) == 0


def test_no_terminal_suspends_the_watchdog(tmp_path: Path) -> None:
    """Ctrl-Z suspends all processes of a launch: who stops the arm then must be awake."""
    process = start("command_watchdog", tmp_path)
    wait_until(lambda: all(is_set(process, "SigIgn", number) for number in SUSPENDING), "all are ignored")
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
