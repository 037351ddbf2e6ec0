# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay`: a bag's decisions, a policy's answers, its commands on the arm, or captures."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.common import (
    EXIT_NO,
    EXIT_OK,
    Arguments,
    VerbParser,
    open_client,
    positive,
    print_json,
    say,
)

if TYPE_CHECKING:
    from remote_inference.bags.decisions.comparison import Change, Report

EXAMPLES = {
    "replay": (
        "--decisions run_1",
        "--decisions run_1 --set max_action_age_s=1",
        "--policy arm.manifest.yaml run_1 --out report.png",
        "--policy old.manifest.yaml --policy new.manifest.yaml run_1",
        "--policy arm.manifest.yaml run_1 --max-error all=0.05 --max-error gripper=0.002",
        "--server /policy_server run_1",
        "--arm run_1 --params-file arm.params.yaml",
        "--capture captures/*.capture --manifest arm.manifest.yaml",
    )
}
BAG = "BAG"
OF_BAGS = (BAG, "--namespace")
OF_ANSWERS = (*OF_BAGS, "--contract", "--out", "--force", "--max-error", "--against")
# The other arguments that each kind takes, which are false where they are not given.
TAKES = {
    "--decisions": (*OF_BAGS, "--set"),
    "--policy": OF_ANSWERS,
    "--server": (*OF_ANSWERS, "--timeout"),
    "--arm": (*OF_BAGS, "--contract", "--params-file"),
    "--capture": ("--manifest",),
}
JSON_SHAPES = {
    "--decisions": '{"exit_code", "bag", "namespace", "runs", "entries", "versions", "compared", '
    '"unrecorded", "unreplayed", "watchdog_stops", "differences", "first": {"what", "time_s", "field", '
    '"recorded", "replayed"}, "states", "problems", "notes", "change": null or {"parameters", "first_tick", '
    '"first_time_s", "ticks", "largest", "borrowed_chunks"}}',
    "--policy": '{"exit_code", "bag", "namespace", "policies": [{"source", "name", "revision", '
    '"fingerprint", "requests", "failed", "compared_chunks", "identical_chunks", "same_policy_chunks", '
    '"executed" and "recorded": '
    '{"rows", "joints": [{"name", "unit", "mean_abs", "rms", "p95", "max", "mean_abs_by_row"}]}}], '
    '"exceeded", "problems", "notes"}',
    "--server": "as --policy",
    "--arm": 'before the start, {"bag", "namespace", "rows", "duration_s", "held", "left_out"}',
    "--capture": 'one line per capture, {"path", "seq_id", "agrees", "batch_size", "is_same_policy", '
    '"error", "is_equal", "is_close", "largest_difference"}',
}
SERVER_TIMEOUT_S = 30.0
WATCH_S = 3.0  # of the graph, for other nodes that command the robot


def add_replay(parser: VerbParser) -> None:
    add = parser.add
    add_kind = parser.add_choice()
    add_kind("--decisions", "let the robot's engine decide again, and compare")
    text = "ask a manifest's policy what the robot asked, and compare; once for each policy"
    add_kind("--policy MANIFEST", text, action="append")
    text = "ask a running server, through a session, what the robot asked, and compare; once for each"
    add_kind("--server NAME", text, action="append")
    text = "drive the robot with the recorded commands through its node: guarded, paused until `resume`"
    add_kind("--arm", text)
    text = "serve the requests in files of a manifest's capture_dir again, and compare the chunks"
    add_kind("--capture FILE", text, nargs="+")
    add("bag", "folder of the bag; none with --capture", type=Path, nargs="?", metavar=BAG)
    parser.add_namespace("the only robot's in the bag")
    text = "with --decisions: another value for a robot's parameter; shows what it would have changed"
    add("--set NAME=VALUE", text, action="append", default=[])
    add("--contract CONTRACT", "the robot's contract (default: the one in the bag)")
    compared = "with --policy or --server: "
    add("--out OUT", f"{compared}picture to draw")
    add("--force", "replace the picture if it exists")
    text = f"{compared}exit with 1 when a joint's mean absolute error is larger; all: any joint's"
    add("--max-error JOINT=VALUE", text, action="append")
    text = "what --max-error is for: the executed actions (default) or the recorded chunks"
    add("--against", text, choices=("executed", "recorded"))
    text = f"with --server: longest wait for each answer (default {SERVER_TIMEOUT_S:g} s)"
    add("--timeout S", text, type=positive)
    add("--params-file", "with --arm: ROS parameter file for the robot's node", type=Path)
    add("--manifest MANIFEST", "with --capture: YAML that says which policy answers; always given")
    shapes = "; ".join(f"{kind}: {shape}" for kind, shape in JSON_SHAPES.items())
    parser.add_output(shapes, quiet="print nothing but differences and problems")


def run_replay(arguments: Arguments) -> int:
    chosen = next(kind for kind in TAKES if _is_given(kind, arguments))
    for name in dict.fromkeys(chain(*TAKES.values())):
        if name not in TAKES[chosen] and _is_given(name, arguments):  # it would have no effect
            takers = " or ".join(kind for kind, names in TAKES.items() if name in names)
            raise UserError(f"{name}: found with {chosen}, expected with {takers}")
    if BAG in TAKES[chosen] and arguments.bag is None:
        raise UserError(f"{BAG}: missing, expected the folder of a bag with {chosen}")
    return _RUNS[chosen](arguments)


def _is_given(name: str, arguments: Arguments) -> bool:
    return bool(getattr(arguments, name.lower().removeprefix("--").replace("-", "_")))


def _decide_again(arguments: Arguments) -> int:
    """Return 0 when everything is equal, 1 when something differs, 2 when it cannot be judged."""
    from remote_inference.bags.decisions.replay import parse_change, replay_decisions  # noqa: PLC0415

    changes = dict(map(parse_change, arguments.set))
    with arguments.show_bag("replaying", arguments.bag) as show:
        report = replay_decisions(arguments.bag, arguments.namespace, changes, show)
    if arguments.json:
        print_json(report.to_json())
    else:
        _print_decisions(report, is_quiet=arguments.quiet)
    return report.exit_code


def _print_decisions(report: Report, *, is_quiet: bool) -> None:
    robot = report.namespace or "/"
    if not is_quiet:
        runs = f"{report.runs} run{'s' * (report.runs != 1)}"
        say(f"{report.bag}, {robot}: {runs}, {report.entries} entries of the journal")
        for kind, compared in report.compared.items():
            missing = {"bag": report.unrecorded[kind], "journal": report.unreplayed[kind]}
            aside = "".join(f", {count} not in the {place}" for place, count in missing.items() if count)
            say(f"{kind}: {compared} compared{aside}")
        if report.watchdog_stops:
            say(f"command watchdog: {report.watchdog_stops} stops of a node that was silent")
    for note in report.notes if report.first is not None or not is_quiet else ():
        say(f"note: {note}")
    for problem in report.problems:
        say(f"cannot be judged: {problem}")
    if report.first is not None:
        say(f"differs: {report.differences} differences, the first: {report.first}")
    elif report.change is not None and not is_quiet:
        _print_change(report, report.change)
    elif not report.problems and not is_quiet:
        say("equal: every recorded command, request and chunk, bit for bit")


def _print_change(report: Report, change: Change) -> None:
    parameters = ", ".join(f"{name}={value}" for name, value in change.parameters.items())
    if change.first_tick is None:
        say(f"with {parameters}: every tick commands the same")
    else:
        first = f"first tick {change.first_tick} at {change.first_time_s:.1f} s"
        say(f"with {parameters}: {change.ticks} ticks command something else, {first}")
        for name, largest in change.largest.items():
            say(f"  {name}: by {largest:.4g} at most")
    say(f"states: {' -> '.join(report.states) or 'none entered'}")
    if change.borrowed_chunks:
        say(
            f"{change.borrowed_chunks} chunks answered a request of another time: what a server would have "
            "said to that one is not known"
        )


def _compare_answers(arguments: Arguments) -> int:
    """Return 0 within the bounds, 1 when one is exceeded, 2 when it cannot be judged."""
    if arguments.server:
        from remote_inference.tools.deployment.middleware import require_middleware  # noqa: PLC0415

        require_middleware()  # before rclpy is imported
    from remote_inference.tools.cli.open_loop import compare_answers  # noqa: PLC0415

    return compare_answers(arguments, arguments.timeout or SERVER_TIMEOUT_S)


def _drive_arm(arguments: Arguments) -> int:
    """Return 0 after Ctrl-C, 2 when the robot cannot be driven, else the code of the process that ended."""
    from remote_inference.bags.timeline.robot_bag import open_robot  # noqa: PLC0415
    from remote_inference.bags.timeline.timeline_reader import read_commands  # noqa: PLC0415
    from remote_inference.tools.deployment import arm_replay  # noqa: PLC0415
    from remote_inference.tools.deployment.middleware import require_middleware  # noqa: PLC0415
    from remote_inference.tools.deployment.process_group import run_in_foreground  # noqa: PLC0415

    require_middleware()
    with open_robot(arguments.bag, arguments.namespace, arguments.load_contract()) as robot:
        namespace, contract = robot.namespace, robot.require_contract()
        with arguments.show_bag("reading", arguments.bag) as report:
            recorded = read_commands(robot, report)
    duration_s = len(recorded.rows) * contract.period_s
    with TemporaryDirectory(prefix="replay_") as home:
        folder = Path(home)
        arm_replay.write_files(folder, contract, recorded.rows, arguments.bag.name)
        parameter_files = [arguments.params_file] if arguments.params_file else []
        processes = arm_replay.processes(folder, namespace=namespace, parameter_files=parameter_files)
        with open_client("replay_lookout") as client:
            others = arm_replay.find_other_commanders(client, namespace, contract, WATCH_S)
        if others:
            raise UserError(
                f"found {'; '.join(others)}; expected that nobody else commands the robot: end it first"
            )
        said = {"bag": str(arguments.bag), "namespace": namespace, "rows": len(recorded.rows)}
        said |= {"duration_s": duration_s, "held": recorded.held, "left_out": recorded.left_out}
        arguments.print_result(
            said,
            f"{arguments.bag}: {len(recorded.rows)} commands, {duration_s:.1f} s, {recorded.held} held",
            f"to begin: remote-inference resume {namespace or '/'}; Ctrl-C ends it",
        )
        return run_in_foreground(processes, quiet=arguments.quiet)


def _serve_captures(arguments: Arguments) -> int:
    """Return 0 when every capture agrees, 1 when a chunk differs or could not be computed."""
    if not arguments.manifest:
        raise UserError("--manifest: missing, expected it with --capture: the policy that answers")
    from remote_inference.server.captures.captures import replay  # noqa: PLC0415  loads policies
    from remote_inference.server.manifest.manifest import load_manifest  # noqa: PLC0415

    with redirect_stdout(sys.stderr):  # a policy may print
        replays = replay(arguments.capture, load_manifest(arguments.manifest, os.environ))
    for one in replays:
        if arguments.json:
            print_json(one.to_json())
        elif not (arguments.quiet and one.agrees):
            say(one)
    return EXIT_OK if all(one.agrees for one in replays) else EXIT_NO


_RUNS = {
    "--decisions": _decide_again,
    "--policy": _compare_answers,
    "--server": _compare_answers,
    "--arm": _drive_arm,
    "--capture": _serve_captures,
}
