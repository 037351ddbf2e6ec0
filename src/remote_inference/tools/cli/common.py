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
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from remote_inference.base.errors import UserError
from remote_inference.base.limits import visible

if TYPE_CHECKING:
    from rich.progress import Progress

    from remote_inference.base.clients.operator_client import OperatorClient
    from remote_inference.base.contract.contract import Contract

# The exit codes, and what they mean: help and reference are made of these lists.
EXIT_OK = 0
EXIT_NO = 1  # the verb did its work, and its answer is no
EXIT_USAGE = 2  # as argparse's
EXIT_INTERRUPTED = 130  # 128 + SIGINT
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE

MEANINGS = {
    EXIT_OK: "all is well",
    EXIT_NO: "the verb did its work, and its answer is no: its help says what that means",
    EXIT_USAGE: "arguments or files are wrong, a package is missing, or nobody answered; a line says what "
    "was found and expected",
    EXIT_INTERRUPTED: "interrupted by Ctrl-C before the end",
    EXIT_BROKEN_PIPE: "the reader of the output is gone, as `head` when it has its lines",
}
_REFUSED = {EXIT_NO: "the robot refused; the line says why"}
_STOPPED = "ended by Ctrl-C or SIGTERM"
_NO_START = "a file or parameter is wrong"
_NO_MIDDLEWARE = "the middleware does not start, for example without a Zenoh router"
_SERVER = {
    EXIT_OK: _STOPPED,
    EXIT_NO: "the server met an internal error; its log says which",
    EXIT_USAGE: f"{_NO_START}, or another server has the name",
    3: _NO_MIDDLEWARE,
}
# What only some verbs have, or mean in a way of their own.
OF_VERB = {
    "demo": {EXIT_NO: "one of the demo's processes failed or did not answer; the end of its log is shown"},
    "serve": _SERVER,
    "robot": {
        EXIT_OK: _STOPPED,
        EXIT_NO: "the robot's node has given up (DEAD) or met an internal error; its log says which",
        EXIT_USAGE: _NO_START,
        3: f"{_NO_MIDDLEWARE}; or a freeze has cost the node a link, and a new one finds it again",
    },
    "server": _SERVER,
    **dict.fromkeys(("resume", "pause", "clear-stop", "takeover", "release", "reset"), _REFUSED),
    "run-task": {EXIT_OK: "the success topic said true", EXIT_NO: "the run ended otherwise, or was rejected"},
    "doctor": {EXIT_NO: "a finding is an error; warnings alone are none"},
    "check": {EXIT_NO: "a server would refuse a robot", EXIT_USAGE: "a file or a policy has a problem"},
    "verify": {
        EXIT_OK: "the bag is intact; with --repair, recovered or whole",
        EXIT_NO: "the bag has a problem: it is not whole, or not what was recorded",
        EXIT_USAGE: "there is no bag, nothing can be recovered, or the arguments are wrong",
    },
    "replay": {
        EXIT_NO: "something differs, a chunk could not be computed, or an error exceeds its bound",
        EXIT_USAGE: "it cannot be judged or, with --arm, the robot cannot be driven",
    },
    "hud": {EXIT_OK: _STOPPED},
    "evaluate": {EXIT_NO: "an episode was not played, or a requirement is not kept"},
    "rollouts": {EXIT_NO: "a rollout came out otherwise when it was repeated"},
    "weights": {EXIT_NO: "the server refused; the line says why"},
}
MOST_CHARACTERS = 32  # of what is done: a long path would leave no room for the bar
TIMEOUT_S = 5.0
POLICY_HELP = "a policy of one of its servers, by its name or a tag as key=value"
ROBOT_HELP = "the robot's namespace, with or without slashes"
PATHS = frozenset({"BAG", "CONTRACT", "EVALUATION", "FILE", "FOLDER", "MANIFEST", "OUT"})  # values of options
Number = TypeVar("Number", int, float)


def meanings(verb: str) -> dict[int, str]:
    """Return what each exit code of a verb means, in order."""
    own = OF_VERB.get(verb, {})
    common = {code: text for code, text in MEANINGS.items() if code != EXIT_NO}
    return dict(sorted({**common, **own}.items()))


def bounded(kind: type[Number], allows: Callable[[Number], bool], expected: str) -> Callable[[str], Number]:
    """Return what reads an argument that is a number of a kind; it raises ArgumentTypeError."""

    def read(text: str) -> Number:
        if not allows(value := kind(text)):
            raise argparse.ArgumentTypeError(f"found {text}, expected {expected}")
        return value

    read.__name__ = kind.__name__  # which argparse says of a text that is none
    return read


positive = bounded(float, lambda value: 0.0 < value <= 3600.0, "above 0 and at most 3600")  # a duration [s]


class VerbParser(argparse.ArgumentParser):
    """Declares the arguments of verbs, among them those that several have."""

    def add(
        self, usage: str, text: str, group: argparse._ActionsContainer | None = None, **settings: Any
    ) -> None:
        """Declare an argument: `--force` is a flag, `--out FILE` takes a path, `bag BAG` is one by its place.

        settings: more of those that `add_argument` takes; an option with any is no flag.
        """
        name, _, value = usage.partition(" ")
        if value:
            settings = {"metavar": value, **({"type": Path} if value in PATHS else {}), **settings}
        elif name.startswith("--") and not settings:
            settings = {"action": "store_true"}
        (group or self).add_argument(name, help=text, **settings)

    def add_choice(self, *, required: bool = True) -> Callable[..., None]:
        """Return what declares, as `add` does, arguments that exclude each other."""
        return partial(self.add, group=self.add_mutually_exclusive_group(required=required))

    def add_output(self, json_shape: str = "", *, quiet: str = "print nothing but errors") -> None:
        """Declare `--json`, whose one shape the help says, and `--quiet`, unless one's text is empty."""
        if json_shape:
            self.add("--json", f"print JSON: {json_shape}")
        if quiet:
            self.add("--quiet", quiet)

    def add_timeout(self, whom: str = "the robot") -> None:
        """Declare `--timeout`. whom: who is waited for."""
        text = f"longest wait for {whom}, and then for each answer (default {TIMEOUT_S:g} s)"
        self.add("--timeout S", text, type=positive, default=TIMEOUT_S)

    def add_namespace(self, without: str) -> None:
        """Declare `--namespace` of a verb that reads bags. without: what it means to leave it out."""
        self.add("--namespace ROBOT", f"{ROBOT_HELP} (default: {without})")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        return super().parse_known_args(args, namespace or Arguments())


class Arguments(argparse.Namespace):
    """A verb's arguments, and what follows from those that several have."""

    def load_contract(self) -> Contract | None:
        """Return the contract that `--contract` names, if any. Raises DocumentError."""
        if not self.contract:
            return None
        import remote_inference.base.wire  # noqa: F401, PLC0415  names the image encodings
        from remote_inference.base.contract.contract import load_contract  # noqa: PLC0415

        return load_contract(self.contract)

    def require_new(self, path: Path, option: str) -> None:
        """Raise UserError for a file that an option names, and that exists, unless it may be replaced."""
        if path.exists() and not self.force:
            raise UserError(f"{option}: {path} exists, expected a new file, or --force to replace it")

    def print_result(self, result: Any, *lines: str) -> None:
        """Print a result as JSON, or in lines for people, who may want none."""
        if self.json:
            print_json(result)
        elif lines and not self.quiet:
            say(*lines)

    def print_response(self, role: str, who: str, response: Any, *fields: str) -> int:
        """Print what a robot or server answered, a refusal as an error, or JSON; return the exit code."""
        answer = {role: who} | {field: getattr(response, field) for field in ("success", "message", *fields)}
        if not (response.success or self.json):
            print_error(self.verb, f"{who} refused: {response.message}")
        else:
            self.print_result(answer, f"{who}: {response.message}")
        return EXIT_OK if response.success else EXIT_NO

    @contextmanager
    def show_bars(self, *, of_bytes: bool = False) -> Iterator[Progress | None]:
        """Yield bars on stderr; None without a terminal, and for those who want JSON or quiet."""
        if self.quiet or self.json or not sys.stderr.isatty():
            yield None
            return
        from rich import progress  # noqa: PLC0415  takes a tenth of a second
        from rich.console import Console  # noqa: PLC0415

        count = progress.DownloadColumn() if of_bytes else progress.MofNCompleteColumn()
        columns = ("{task.description}", progress.BarColumn(), count, progress.TimeRemainingColumn())
        with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            yield bars

    @contextmanager
    def show_bytes(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show how much of a total is done; yield what takes each advance."""
        with self.show_bars(of_bytes=True) as bars:
            if bars is None:
                yield lambda _: None
                return
            shown = what if len(what) <= MOST_CHARACTERS else f"...{what[3 - MOST_CHARACTERS :]}"
            yield partial(bars.advance, bars.add_task(shown, total=total))

    @contextmanager
    def show_bag(self, what: str, bag: Path) -> Iterator[Callable[[float], None]]:
        """Show how much of a bag is read; yield what takes the fraction that is done."""
        size = sum(file.stat().st_size for file in bag.glob("*.mcap"))
        done = 0
        with self.show_bytes(what, size) as advance:

            def report(fraction: float) -> None:
                nonlocal done
                now = int(fraction * size)
                if now - done > size // 1000:  # not for each of a million messages
                    advance(now - done)
                    done = now

            yield report


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


def say(*lines: object, file: TextIO | None = None) -> None:
    """Print lines for people, who may see what others said: control characters are shown."""
    print(*(visible(str(line), in_lines=True) for line in lines), sep="\n", file=file, flush=True)


def print_error(verb: str, text: str) -> None:
    """Print an error of a verb: each of its lines says whose it is."""
    sys.stdout.flush()
    for line in text.splitlines() or [""]:
        say(f"remote-inference {verb}: {line}", file=sys.stderr)


def print_json(value: Any) -> None:
    """Print one JSON value on one line; numbers that are not finite become null, because JSON lacks them."""
    from remote_inference.base.documents.problems import finite  # noqa: PLC0415  imports pydantic

    print(json.dumps(finite(value), allow_nan=False), flush=True)


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
    copy = os.fdopen(os.dup(original), "w", encoding=stream.encoding, errors=stream.errors)
    try:
        with copy, redirect_stdout(copy):
            yield
    finally:
        os.dup2(original, 1)
        os.close(original)
