# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference robot`."""

from __future__ import annotations

import argparse
from pathlib import Path

from remote_inference.tools.cli.output import add_quiet
from remote_inference.tools.cli.robot_calls import ROBOT_HELP

EXAMPLES = (
    "remote-inference robot --contract arm.contract.yaml --namespace /robot_1",
    "remote-inference robot --contract arm.contract.yaml --namespace /robot_1 --servers gpu_1 gpu_2",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--contract", type=Path, required=True, help="YAML that maps topics to features")
    parser.add_argument("--namespace", required=True, metavar="ROBOT", help=ROBOT_HELP)
    parser.add_argument(
        "--servers",
        nargs="+",
        default=[],
        metavar="SERVER",
        help="names of policy servers, in order of preference; wins over --params-file",
    )
    parser.add_argument(
        "--tags",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="for logs and metrics; wins over --params-file",
    )
    parser.add_argument("--params-file", type=Path, help="ROS parameter file for the node")
    parser.add_argument("--record", type=Path, help="folder of a bag to create")
    add_quiet(parser, "print nothing but errors and the log of the nodes")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.tools.deployment import bringup  # noqa: PLC0415
    from remote_inference.tools.deployment.process_group import run_in_foreground  # noqa: PLC0415

    processes = bringup.robot_processes(
        arguments.contract,
        namespace=arguments.namespace,
        servers=arguments.servers,
        tags=arguments.tags,
        parameter_files=[arguments.params_file] if arguments.params_file else [],
        bag=arguments.record,
    )
    return run_in_foreground(processes, quiet=arguments.quiet)
