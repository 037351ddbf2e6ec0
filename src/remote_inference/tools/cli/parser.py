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
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from remote_inference import __version__
from remote_inference.base.errors import UserError
from remote_inference.tools.cli.common import print_error, results_apart
from remote_inference.tools.cli.exit_codes import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, EXIT_USAGE, meanings

PROGRAM = "remote-inference"
MIDDLEWARE = "on the middleware that RMW_IMPLEMENTATION names"
EXAMPLES = "examples:"  # the heading of the last part of a verb's help
WIDTH = 80  # columns of a help


@dataclass(frozen=True)
class Verb:
    """One verb. place: module and the name that the verb has in it, as `cli/verbs/__init__.py` says."""

    name: str
    help: str
    place: str
    has_nodes: bool = False  # talks to nodes or starts them, and so needs a middleware that is installed


NodeVerb = partial(Verb, has_nodes=True)
VERBS = (
    NodeVerb("demo", "watch the simulated arm pick cubes, driven by a policy server", "demo:demo"),
    NodeVerb(
        "serve",
        f"serve the policy of a folder or file: write its manifest, try it, run a server, {MIDDLEWARE}",
        "nodes:serve",
    ),
    NodeVerb("robot", f"run one robot's node, as robot.launch.py does, {MIDDLEWARE}", "nodes:robot"),
    NodeVerb("server", f"run a policy server, as server.launch.py does, {MIDDLEWARE}", "nodes:server"),
    NodeVerb("status", "show what a robot does, and why", "robots:status"),
    NodeVerb("resume", "let a robot move", "robots:trigger"),
    NodeVerb("pause", "hold a robot where it is; its queue is kept", "robots:trigger"),
    NodeVerb("clear-stop", "release a robot's stop, once its input is good again", "robots:trigger"),
    NodeVerb("takeover", "let a person command a robot, by its contract's topic", "robots:trigger"),
    NodeVerb("release", "give a robot that a person took over back to the policy", "robots:trigger"),
    NodeVerb(
        "reset", "drop a robot's queue and begin a new episode, with another task if given", "robots:reset"
    ),
    NodeVerb("run-task", "let a robot work on one task, and wait for the end", "robots:run_task"),
    NodeVerb("list", "list the robots and servers that the graph shows", "robots:list"),
    NodeVerb("top", "watch robots and servers in a live table", "robots:top"),
    Verb("doctor", "look for what keeps robots from moving", "checks:doctor"),
    Verb("check", "validate contracts and manifests, and whether they fit", "checks:check"),
    Verb(
        "contract",
        "begin a contract from a robot, a data set or a HUD contract, or turn it into one",
        "contract:contract",
    ),
    Verb("backends", "list what can compute chunks, and what each lacks here", "checks:backends"),
    Verb("explain", "draw what a robot did, from its bag", "explain:explain"),
    Verb("verify", "check whether a bag is whole, in order and unchanged, or recover it", "bags:verify"),
    Verb("export", "turn bags into a data set or a table", "bags:export"),
    Verb(
        "replay",
        "replay a bag (its decisions, a policy's answers, or the commands on the arm) or captured requests",
        "replay:replay",
    ),
    Verb(
        "export-onnx",
        "write a chunk policy as an ONNX file, for servers without torch",
        "policies:export_onnx",
    ),
    Verb("hud", "serve a simulated robot to agents that speak HUD's openpi/0", "simulators:hud"),
    NodeVerb("hud-agent", "play episodes of a HUD bridge with a server's policy", "simulators:hud_agent"),
    Verb(
        "evaluate",
        "measure policies in simulators: success, intervals, what latency costs",
        "evaluate:evaluate",
    ),
    Verb(
        "rollouts", "play a group of rollouts in isolated environments, for learning", "simulators:rollouts"
    ),
    NodeVerb("weights", "show, bring or take back the weights that a server serves", "policies:weights"),
    Verb("fleet", "keys, certificates and Zenoh configurations of a fleet", "fleet:fleet"),
)


def make_parser(*, complete: bool = False) -> argparse.ArgumentParser:
    """Return the program's parser.

    complete: declare the arguments of every verb at once, for documentation and completion. Otherwise a
    verb's module is imported when that verb is parsed.
    """
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Run policies on a GPU server and drive robots with them.",
        epilog=f"'{PROGRAM} VERB --help' shows a verb's options, exit codes and examples.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb", parser_class=_VerbParser)
    for verb in VERBS:
        added = verbs.add_parser(verb.name, help=verb.help, declared=verb)
        if complete:
            added.declare()
    return parser


class _VerbParser(argparse.ArgumentParser):
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
        module_name, _, name = verb.place.partition(":")
        module = import_module(f"remote_inference.tools.cli.verbs.{module_name}")
        self.description = f"{verb.help[0].upper()}{verb.help[1:]}."
        examples = [f"  {PROGRAM} {verb.name} {words}".rstrip() for words in module.EXAMPLES[name]]
        self.epilog = "\n".join(["exit codes:", *_exit_codes(verb.name), "", EXAMPLES, *examples])
        self.set_defaults(run=getattr(module, f"run_{name}"), has_nodes=verb.has_nodes)
        getattr(module, f"add_{name}")(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.declare()
        return super().parse_known_args(args, namespace)


def _exit_codes(verb: str) -> Iterator[str]:
    """Yield the lines of a help that say what a verb's exit codes mean."""
    for code, text in meanings(verb).items():
        yield from textwrap.wrap(text, WIDTH, initial_indent=f"  {code:<5}", subsequent_indent=" " * 7)


# -- The program -----------------------------------------------------------------------------------------


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
            return int(arguments.run(arguments))
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
