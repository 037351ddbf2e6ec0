# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay --arm`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from remote_inference.cli.output import print_json
from remote_inference.cli.robot_calls import open_client

LISTEN_S = 3.0  # for other nodes that command the robot

OPTION = (
    "--arm",
    {
        "action": "store_true",
        "help": "drive the robot with the recorded commands through its node: guarded, paused until `resume`",
    },
)
EXAMPLES = ("remote-inference replay --arm run_1 --params-file arm.params.yaml",)
TAKES = {"--contract": "contract", "--params-file": "params_file"}
JSON_SHAPE = 'before the start, {"bag", "namespace", "rows", "duration_s", "held", "left_out"}'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--params-file", type=Path, help="with --arm: ROS parameter file for the robot's node"
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 after Ctrl-C, 2 when the robot cannot be driven, else the code of the process that ended."""
    from remote_inference.cli.foreground import run_in_foreground  # noqa: PLC0415
    from remote_inference.cli.progress import show_bag_progress  # noqa: PLC0415
    from remote_inference.core.contract.contract import load_contract  # noqa: PLC0415
    from remote_inference.deployment import arm_replay  # noqa: PLC0415
    from remote_inference.deployment.middleware import require_middleware  # noqa: PLC0415
    from remote_inference.nodes.clients.rivals import find_rivals  # noqa: PLC0415
    from remote_inference.recording.bags.bag import open_bag  # noqa: PLC0415
    from remote_inference.recording.export.export import find_contract  # noqa: PLC0415
    from remote_inference.recording.timeline.commands import read_commands  # noqa: PLC0415
    from remote_inference.recording.timeline.timeline_reader import find_namespace  # noqa: PLC0415

    require_middleware()
    given = load_contract(arguments.contract) if arguments.contract else None
    is_quiet = arguments.quiet or arguments.json
    with open_bag(arguments.bag) as bag:
        namespace = find_namespace(bag, arguments.namespace)
        contract = find_contract([arguments.bag], given)
        with show_bag_progress("reading", arguments.bag, is_quiet=is_quiet) as tell:
            recorded = read_commands(bag, namespace, contract, tell)
    duration_s = len(recorded.rows) * contract.period_s
    with TemporaryDirectory(prefix="replay_") as folder:
        files = arm_replay.write_files(Path(folder), contract, recorded.rows, arguments.bag.name)
        parameter_files = [arguments.params_file] if arguments.params_file else []
        processes = arm_replay.processes(files, namespace=namespace, parameter_files=parameter_files)
        with open_client("replay_lookout") as client:
            rivals = find_rivals(client, namespace, contract, LISTEN_S)
        if rivals:
            raise arm_replay.ArmReplayError(
                f"found {'; '.join(rivals)}; expected that nobody else commands the robot: end it first"
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
