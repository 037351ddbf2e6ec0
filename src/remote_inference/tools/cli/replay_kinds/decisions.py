# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay --decisions`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from remote_inference.tools.cli.output import print_json, show_bag_progress
from remote_inference.tools.cli.replay_kinds import BAG_ARGUMENTS

if TYPE_CHECKING:
    from remote_inference.bags.decisions.comparison import Change, Report

OPTION = ("--decisions", {"action": "store_true", "help": "let the robot's engine decide again, and compare"})
EXAMPLES = (
    "remote-inference replay --decisions run_1",
    "remote-inference replay --decisions run_1 --set max_action_age_s=1",
)
TAKES = {**BAG_ARGUMENTS, "--set": "changes"}
JSON_SHAPE = (
    '{"exit_code", "bag", "namespace", "runs", "entries", "versions", "compared", "unrecorded", '
    '"unreplayed", "watchdog_stops", "differences", "first": {"what", "time_s", "field", "recorded", '
    '"replayed"}, "states", "problems", "notes", "change": null or {"parameters", "first_tick", '
    '"first_time_s", "ticks", "largest", "borrowed_chunks"}}'
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="changes",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="with --decisions: another value for a robot's parameter; shows what it would have changed",
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 when everything is equal, 1 when something differs, 2 when it cannot be judged."""
    from remote_inference.bags.decisions.replay import parse_change, replay_decisions  # noqa: PLC0415

    changes = dict(map(parse_change, arguments.changes))
    with show_bag_progress("replaying", arguments.bag, arguments) as show:
        report = replay_decisions(arguments.bag, arguments.namespace, changes, show)
    if arguments.json:
        print_json(report.to_json())
    else:
        _print(report, is_quiet=arguments.quiet)
    return report.exit_code


def _print(report: Report, *, is_quiet: bool) -> None:
    robot = report.namespace or "/"
    if not is_quiet:
        runs = f"{report.runs} run{'s' * (report.runs != 1)}"
        print(f"{report.bag}, {robot}: {runs}, {report.entries} entries of the journal")
        for kind, compared in report.compared.items():
            aside = [
                f"{count} {why}"
                for count, why in (
                    (report.unrecorded[kind], "not in the bag"),
                    (report.unreplayed[kind], "not in the journal"),
                )
                if count
            ]
            print(f"{kind}: {compared} compared{''.join(f', {part}' for part in aside)}")
        if report.watchdog_stops:
            print(f"command watchdog: {report.watchdog_stops} stops of a node that was silent")
        for note in report.notes:
            print(f"note: {note}")
    for problem in report.problems:
        print(f"cannot be judged: {problem}")
    if report.first is not None:
        print(f"differs: {report.differences} differences, the first: {report.first}")
    elif report.change is not None and not is_quiet:
        _print_change(report, report.change)
    elif not report.problems and not is_quiet:
        print("equal: every recorded command, request and chunk, bit for bit")


def _print_change(report: Report, change: Change) -> None:
    parameters = ", ".join(f"{name}={value}" for name, value in change.parameters.items())
    if change.first_tick is None:
        print(f"with {parameters}: every tick commands the same")
    else:
        first = f"first tick {change.first_tick} at {change.first_time_s:.1f} s"
        print(f"with {parameters}: {change.ticks} ticks command something else, {first}")
        for name, largest in change.largest.items():
            print(f"  {name}: by {largest:.4g} at most")
    print(f"states: {' -> '.join(report.states) or 'none entered'}")
    if change.borrowed_chunks:
        print(
            f"{change.borrowed_chunks} chunks answered a request of another time: what a server would have "
            "said to that one is not known"
        )
