# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay --arm`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from remote_inference.tools.cli.output import print_json, show_bag_progress
from remote_inference.tools.cli.replay_kinds import BAG_ARGUMENTS
from remote_inference.tools.cli.robot_calls import open_client

WATCH_S = 3.0  # of the graph, for other nodes that command the robot

OPTION = (
    "--arm",
    {
        "action": "store_true",
        "help": "drive the robot with the recorded commands through its node: guarded, paused until `resume`",
    },
)
EXAMPLES = ("remote-inference replay --arm run_1 --params-file arm.params.yaml",)
TAKES = {**BAG_ARGUMENTS, "--contract": "contract", "--params-file": "params_file"}
JSON_SHAPE = 'before the start, {"bag", "namespace", "rows", "duration_s", "held", "left_out"}'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--params-file", type=Path, help="with --arm: ROS parameter file for the robot's node"
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 after Ctrl-C, 2 when the robot cannot be driven, else the code of the process that ended."""
    from remote_inference.bags.timeline.robot_bag import open_robot  # noqa: PLC0415
    from remote_inference.bags.timeline.timeline_reader import read_commands  # noqa: PLC0415
    from remote_inference.base.contract.contract import load_contract  # noqa: PLC0415
    from remote_inference.tools.deployment import arm_replay  # noqa: PLC0415
    from remote_inference.tools.deployment.middleware import require_middleware  # noqa: PLC0415
    from remote_inference.tools.deployment.process_group import run_in_foreground  # noqa: PLC0415

    require_middleware()
    given = load_contract(arguments.contract) if arguments.contract else None
    with open_robot(arguments.bag, arguments.namespace, given) as robot:
        namespace, contract = robot.namespace, robot.require_contract()
        with show_bag_progress("reading", arguments.bag, arguments) as report:
            recorded = read_commands(robot, report)
    duration_s = len(recorded.rows) * contract.period_s
    with TemporaryDirectory(prefix="replay_") as folder:
        files = arm_replay.write_files(Path(folder), contract, recorded.rows, arguments.bag.name)
        parameter_files = [arguments.params_file] if arguments.params_file else []
        processes = arm_replay.processes(files, namespace=namespace, parameter_files=parameter_files)
        with open_client("replay_lookout") as client:
            others = arm_replay.find_other_commanders(client, namespace, contract, WATCH_S)
        if others:
            raise arm_replay.ArmReplayError(
                f"found {'; '.join(others)}; expected that nobody else commands the robot: end it first"
            )
        if arguments.json:
            print_json(
                {
                    "bag": str(arguments.bag),
                    "namespace": namespace,
                    "rows": len(recorded.rows),
                    "duration_s": duration_s,
                    "held": recorded.held,
                    "left_out": recorded.left_out,
                }
            )
        elif not arguments.quiet:
            print(f"{arguments.bag}: {len(recorded.rows)} commands, {duration_s:.1f} s, {recorded.held} held")
            print(f"to begin: remote-inference resume {namespace or '/'}; Ctrl-C ends it", flush=True)
        sys.stdout.flush()
        return run_in_foreground(processes, quiet=arguments.quiet)
