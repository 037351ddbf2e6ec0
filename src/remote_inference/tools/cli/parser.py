# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The table of verbs, and the program, which imports a verb's module only when that verb is asked for.

It ends as a shell program should: with a line and a code, never with a traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from remote_inference import __version__
from remote_inference.base.errors import UserError
from remote_inference.tools.cli.common import (
    EXIT_BROKEN_PIPE,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    VerbParser,
    meanings,
    print_error,
    results_apart,
)

PROGRAM = "remote-inference"
MIDDLEWARE = "on the middleware that RMW_IMPLEMENTATION names"
EXAMPLES = "examples:"  # the heading of the last part of a verb's help
WIDTH = 80  # columns of a help


@dataclass(frozen=True)
class Verb:
    """One verb. place: its module in `cli/verbs`, or MODULE:NAME; without one each is the verb's own name."""

    name: str
    help: str
    place: str = ""
    has_nodes: bool = False  # talks to nodes or starts them, and so needs a middleware that is installed


NodeVerb = partial(Verb, has_nodes=True)
VERBS = (
    NodeVerb("demo", "watch the simulated arm pick cubes, driven by a policy server"),
    NodeVerb(
        "serve",
        f"serve the policy of a folder or file: write its manifest, try it, run a server, {MIDDLEWARE}",
        "nodes",
    ),
    NodeVerb("robot", f"run one robot's node, as robot.launch.py does, {MIDDLEWARE}", "nodes"),
    NodeVerb("server", f"run a policy server, as server.launch.py does, {MIDDLEWARE}", "nodes"),
    NodeVerb("status", "show what a robot does, and why", "robots"),
    NodeVerb("resume", "let a robot move", "robots:trigger"),
    NodeVerb("pause", "hold a robot where it is; its queue is kept", "robots:trigger"),
    NodeVerb("clear-stop", "release a robot's stop, once its input is good again", "robots:trigger"),
    NodeVerb("takeover", "let a person command a robot, by its contract's topic", "robots:trigger"),
    NodeVerb("release", "give a robot that a person took over back to the policy", "robots:trigger"),
    NodeVerb("reset", "drop a robot's queue and begin a new episode, with another task if given", "robots"),
    NodeVerb("run-task", "let a robot work on one task, and wait for the end", "robots"),
    NodeVerb("list", "list the robots and servers that the graph shows", "robots"),
    NodeVerb("top", "watch robots and servers in a live table", "robots"),
    Verb("doctor", "look for what keeps robots from moving", "checks"),
    Verb("check", "validate contracts and manifests, and whether they fit", "checks"),
    Verb("contract", "begin a contract from a robot, a data set or a HUD contract, or turn it into one"),
    Verb("backends", "list what can compute chunks, and what each lacks here", "checks"),
    Verb("explain", "draw what a robot did, from its bag"),
    Verb("verify", "check whether a bag is whole, in order and unchanged, or recover it", "bags"),
    Verb("export", "turn bags into a data set or a table", "bags"),
    Verb(
        "replay",
        "replay a bag (its decisions, a policy's answers, or the commands on the arm) or captured requests",
    ),
    Verb("export-onnx", "write a chunk policy as an ONNX file, for servers without torch", "policies"),
    Verb("hud", "serve a simulated robot to agents that speak HUD's openpi/0", "simulators"),
    NodeVerb("hud-agent", "play episodes of a HUD bridge with a server's policy", "simulators"),
    Verb("evaluate", "measure policies in simulators: success, intervals, what latency costs"),
    Verb("rollouts", "play a group of rollouts in isolated environments, for learning", "simulators"),
    NodeVerb("weights", "show, bring or take back the weights that a server serves", "policies"),
    Verb("fleet", "keys, certificates and Zenoh configurations of a fleet"),
)


def make_parser(*, complete: bool = False) -> argparse.ArgumentParser:
    """Return the program's parser.

    complete: declare the arguments of every verb at once, for documentation and completion. Otherwise a
    verb's module is imported when that verb is parsed.
    """
    parser = VerbParser(
        prog=PROGRAM,
        description="Run policies on a GPU server and drive robots with them.",
        epilog=f"'{PROGRAM} VERB --help' shows a verb's options, exit codes and examples.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb", parser_class=_LateParser)
    for verb in VERBS:
        added = verbs.add_parser(verb.name, help=verb.help, declared=verb)
        if complete:
            added.declare()
    return parser


class _LateParser(VerbParser):
    """Declares its arguments when it first parses."""

    def __init__(self, *, declared: Verb | None = None, **options: Any):
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)  # examples keep lines
        super().__init__(**options)
        self._verb = declared

    def declare(self) -> None:
        """Declare the arguments, once."""
        verb, self._verb = self._verb, None
        if verb is None:
            return
        own = verb.name.replace("-", "_")
        place, _, name = verb.place.partition(":")
        name = name or own
        module = import_module(f"remote_inference.tools.cli.verbs.{place or own}")
        self.description = f"{verb.help[0].upper()}{verb.help[1:]}."
        examples = [f"  {PROGRAM} {verb.name} {words}".rstrip() for words in module.EXAMPLES[name]]
        fold = textwrap.TextWrapper(WIDTH, subsequent_indent=" " * 7).wrap
        codes = (line for code, text in meanings(verb.name).items() for line in fold(f"  {code:<5}{text}"))
        self.epilog = "\n".join(["exit codes:", *codes, "", EXAMPLES, *examples])
        self.set_defaults(run=getattr(module, f"run_{name}", None), has_nodes=verb.has_nodes)
        getattr(module, f"add_{name}")(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.declare()
        return super().parse_known_args(args, namespace)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit code."""
    try:
        code = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # further output is discarded: Python flushes at its end, which would raise again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    return code


def _run(argv: Sequence[str] | None) -> int:
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    try:
        arguments = make_parser().parse_args(argv)
    except SystemExit:
        sys.stdout.flush()  # the help's reader may be gone
        raise
    try:
        if arguments.has_nodes:
            from remote_inference.tools.deployment.middleware import require_middleware  # noqa: PLC0415

            require_middleware()
        with results_apart():
            return int(arguments.run(arguments) or 0)
    except BrokenPipeError:
        raise
    except (UserError, OSError, ImportError) as error:
        print_error(arguments.verb, _describe(error))
        return EXIT_USAGE


def _complete() -> None:
    """Print the completions of the command line and exit, when the shell asks for them."""
    with suppress(ModuleNotFoundError):  # argcomplete is optional
        from argcomplete import autocomplete  # noqa: PLC0415  of no use to anybody else

        autocomplete(make_parser(complete=True))


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, ModuleNotFoundError):
        return f"found no Python package {error.name}: install it with pip or rosdep"
    return str(error)
