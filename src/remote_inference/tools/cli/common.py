# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What verbs share: arguments, the client of the ROS graph, and what they print.

They print text for people, JSON for programs, only errors with `--quiet`, and bars on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.exit_codes import EXIT_NO, EXIT_OK

if TYPE_CHECKING:
    from remote_inference.base.clients.operator_client import OperatorClient

MOST_CHARACTERS = 32  # of what is done: a long path would leave no room for the bar
TIMEOUT_S = 5.0
ROBOT_HELP = "the robot's namespace, with or without slashes"
Number = TypeVar("Number", int, float)


def bounded(kind: type[Number], allows: Callable[[Number], bool], expected: str) -> Callable[[str], Number]:
    """Return what reads an argument that is a number of a kind; it raises ArgumentTypeError."""

    def read(text: str) -> Number:
        if not allows(value := kind(text)):
            raise argparse.ArgumentTypeError(f"found {text}, expected {expected}")
        return value

    read.__name__ = kind.__name__  # which argparse says of a text that is none
    return read


positive = bounded(float, lambda value: 0.0 < value <= 3600.0, "above 0 and at most 3600")  # a duration [s]


def add_output_arguments(
    parser: argparse.ArgumentParser, *, json_shape: str = "", quiet: str = "print nothing but errors"
) -> None:
    """Declare `--json`, whose one shape the help says, and `--quiet`, unless one's text is empty."""
    if json_shape:
        shape = json_shape.replace("%", "%%")
        parser.add_argument("--json", action="store_true", help=f"print JSON: {shape}")
    if quiet:
        parser.add_argument("--quiet", action="store_true", help=quiet)


def require_new(path: Path, option: str, *, force: bool) -> None:
    """Raise UserError for a file that an option names, and that exists, unless it may be replaced."""
    if path.exists() and not force:
        raise UserError(f"{option}: {path} exists, expected a new file, or --force to replace it")


def add_timeout(parser: argparse.ArgumentParser, whom: str = "the robot") -> None:
    """Declare `--timeout`. whom: who is waited for."""
    parser.add_argument(
        "--timeout",
        type=positive,
        default=TIMEOUT_S,
        metavar="S",
        help=f"longest wait for {whom}, and then for each answer (default {TIMEOUT_S:g} s)",
    )


def add_namespace(parser: argparse.ArgumentParser, without: str) -> None:
    """Declare `--namespace` of a verb that reads bags. without: what it means to leave it out."""
    parser.add_argument("--namespace", metavar="ROBOT", help=f"{ROBOT_HELP} (default: {without})")


def open_client(name: str, namespace: str = "/") -> OperatorClient:
    """Return a client with the Zenoh settings that the package's nodes have. Raises OperatorError.

    Print what it has learnt before it is closed: rmw_zenoh may hang there, and the answer must not be lost.
    """
    from remote_inference.base.clients.operator_client import OperatorClient  # noqa: PLC0415  imports rclpy

    set_zenoh_environment()
    return OperatorClient(name, namespace)


def set_zenoh_environment() -> None:
    """Give the nodes of this process the Zenoh settings that the package's nodes have."""
    from remote_inference.base.paths import share_path  # noqa: PLC0415
    from remote_inference.tools.deployment import zenoh_config  # noqa: PLC0415

    os.environ.update(zenoh_config.environment(share_path("config", "zenoh"), "", os.environ))


def print_error(verb: str, text: str) -> None:
    """Print an error of a verb: each of its lines says whose it is."""
    sys.stdout.flush()
    for line in text.splitlines() or [""]:
        print(f"remote-inference {verb}: {line}", file=sys.stderr)


def print_json(value: Any) -> None:
    """Print one JSON value on one line; numbers that are not finite become null, because JSON lacks them."""
    from remote_inference.base.documents.problems import finite  # noqa: PLC0415  imports pydantic

    print(json.dumps(finite(value), allow_nan=False), flush=True)


def print_response(arguments: argparse.Namespace, role: str, who: str, response: Any, *fields: str) -> int:
    """Print what a robot or server answered, a refusal as an error, or JSON; return the exit code."""
    if arguments.json:
        answer = {role: who, "success": response.success, "message": response.message}
        print_json({**answer, **{field: getattr(response, field) for field in fields}})
    elif not response.success:
        print_error(arguments.verb, f"{who} refused: {response.message}")
    elif not arguments.quiet:
        print(f"{who}: {response.message}", flush=True)
    return EXIT_OK if response.success else EXIT_NO


@contextmanager
def results_apart() -> Iterator[None]:
    """Let only results reach the standard output: within the block, file descriptor 1 is standard error.

    rmw_zenoh logs to file descriptor 1, where its lines would stand between those of `--json`. What Python
    prints goes to a copy of what that descriptor was before.
    """
    stream = sys.stdout
    try:
        is_descriptor_1 = stream.fileno() == 1
    except (AttributeError, OSError, ValueError):  # None, a stream without one, or closed
        is_descriptor_1 = False
    if not is_descriptor_1:  # such as a test's
        yield
        return
    stream.flush()
    original = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(original), "w", encoding=stream.encoding, errors=stream.errors) as results:
            sys.stdout = results
            yield
    finally:
        sys.stdout = stream
        os.dup2(original, 1)
        os.close(original)


# -- A progress bar on stderr, for verbs that read gigabytes ---------------------------------------------


@contextmanager
def show_progress(what: str, total: int, arguments: argparse.Namespace) -> Iterator[Callable[[int], None]]:
    """Show how much of a total is done; yield what takes each advance. Only on a terminal.

    arguments: with `--quiet` or `--json` nothing is shown.
    """
    if arguments.quiet or arguments.json or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  takes a tenth of a second
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        shown = what if len(what) <= MOST_CHARACTERS else f"...{what[3 - MOST_CHARACTERS :]}"
        task = progress.add_task(shown, total=total)
        yield lambda advance: progress.advance(task, advance)


@contextmanager
def show_bag_progress(
    what: str, bag: Path, arguments: argparse.Namespace
) -> Iterator[Callable[[float], None]]:
    """Show how much of a bag is read; yield what takes the fraction that is done."""
    size = sum(file.stat().st_size for file in bag.glob("*.mcap"))
    done = 0
    with show_progress(what, size, arguments) as advance:

        def report(fraction: float) -> None:
            nonlocal done
            now = int(fraction * size)
            if now - done > size // 1000:  # not for each of a million messages
                advance(now - done)
                done = now

        yield report
