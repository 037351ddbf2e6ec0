# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which signals ask a process of this package to end in order.

A node that a signal ends by default leaves its robot's controllers with their last command. So it handles all
of them: not only those of Ctrl-C and of a service manager, but also those of a terminal that is closed
(SIGHUP), of its other keys (SIGQUIT), of timers and of limits. SIGKILL cannot be handled, and what a fault of
the program raises (SIGSEGV, SIGABRT and the like) must not be: then the other one of robot node and command
watchdog stops the controllers.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

# What people, terminals and service managers send.
COMMON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
SUSPENDING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # of terminals: Ctrl-Z, and for background jobs
_FAULTS = {
    *(signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL),
    *(signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP),
}
# Those that cannot be handled, and those that end no process by default (signal(7)).
_OTHERS = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
_ALWAYS = {signal.SIGINT, signal.SIGTERM}  # a shell lets its background jobs ignore SIGINT

Handler = Callable[[int, FrameType | None], object]


class StopFlag:
    """Whether a signal has asked the process to end; `set` is the handler.

    Not an Event: setting one takes its lock, and a second signal that comes meanwhile, on the same thread,
    would wait for that lock for ever.
    """

    def __init__(self) -> None:
        self._is_set = False

    def set(self, *_: object) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set


def ending_signals() -> list[int]:
    """Return all signals that would end this process and can be handled, as far as it does not ignore them.

    What was ignored at the start stays ignored, as `nohup` wants it for SIGHUP; but not SIGINT and SIGTERM.
    """
    candidates = signal.valid_signals() - _FAULTS - _OTHERS - {*SUSPENDING}
    return sorted(int(number) for number in candidates if not _is_ignored(number))


def common_signals() -> list[int]:
    """Return those of COMMON that would end this process, as `ending_signals` does all."""
    return [int(number) for number in COMMON if not _is_ignored(number)]


def handle(numbers: Iterable[int], handler: Handler | signal.Handlers) -> None:
    """Set the handler of several signals."""
    for number in numbers:
        signal.signal(number, handler)


@contextmanager
def interrupting() -> Iterator[None]:
    """Let signals of people, terminals and service managers raise KeyboardInterrupt, as Ctrl-C does.

    But none that is handled or ignored already.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    left = [number for number in common_signals() if signal.getsignal(number) is signal.SIG_DFL]
    handle(left, interrupt)
    try:
        yield
    finally:
        handle(left, signal.SIG_DFL)


def ignore_suspension() -> None:
    """Let no terminal suspend this process.

    Ctrl-Z reaches all processes of a launch, and one of them must stay awake.
    """
    handle(SUSPENDING, signal.SIG_IGN)


def _is_ignored(number: int) -> bool:
    return number not in _ALWAYS and signal.getsignal(number) is signal.SIG_IGN
