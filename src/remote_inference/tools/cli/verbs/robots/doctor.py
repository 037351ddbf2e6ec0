# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference doctor`."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.output import add_output_arguments, print_json
from remote_inference.tools.cli.robot_calls import add_timeout

EXAMPLES = (
    "remote-inference doctor",
    "remote-inference doctor --contract arm.contract.yaml --namespace /robot_1",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Look for what keeps robots from moving: what was found, what was expected and what to do, one "
        "finding below the other. The exit code is 1 when there is an error and 0 when there is none."
    )
    parser.add_argument("--contract", type=Path, help="look at the topics of this contract, too")
    parser.add_argument("--namespace", default="/", help="the robot's namespace (default /)")
    add_timeout(parser)
    shape = '{"errors", "warnings", "findings": [{"level", "subject", "found", "expected", "advice"}]}'
    add_output_arguments(parser, json_shape=shape, quiet="print nothing but warnings and errors")


def run(arguments: argparse.Namespace) -> int:
    if arguments.namespace != "/" and arguments.contract is None:
        raise UserError("--namespace: found without --contract, expected the contract of the robot")
    from remote_inference.base.contract.contract import load_contract  # noqa: PLC0415
    from remote_inference.tools.deployment.bringup import absolute_namespace  # noqa: PLC0415
    from remote_inference.tools.deployment.doctor.doctor import Level  # noqa: PLC0415
    from remote_inference.tools.tables import is_terminal  # noqa: PLC0415

    namespace = absolute_namespace(arguments.namespace)
    contract = load_contract(arguments.contract) if arguments.contract else None
    drawn = is_terminal()  # in a pipe a finding is one line, which grep finds whole
    with ExitStack() as open_until:
        findings = []
        for finding in _examine(arguments.timeout, contract, namespace, open_until):
            findings.append(finding)
            if not arguments.json and not (arguments.quiet and finding.level is Level.OK):
                print(finding.fold(shutil.get_terminal_size().columns) if drawn else finding, flush=True)
        counts = {level: sum(finding.level is level for finding in findings) for level in Level}
        if arguments.json:
            totals = {"errors": counts[Level.ERROR], "warnings": counts[Level.WARNING]}
            print_json({**totals, "findings": [asdict(finding) for finding in findings]})
    return 1 if counts[Level.ERROR] else 0


def _examine(timeout_s: float, contract: Any, namespace: str, open_until: ExitStack) -> Iterator[Any]:
    from remote_inference.tools.deployment.doctor import doctor  # noqa: PLC0415
    from remote_inference.tools.deployment.middleware import find_installation  # noqa: PLC0415

    for finding in doctor.judge_middleware(os.environ, find_installation(os.environ)):
        yield finding
        if finding.level is doctor.Level.ERROR:
            return  # rclpy would end this process
    from remote_inference.tools.cli.doctor_probe import examine  # noqa: PLC0415  imports rclpy

    yield from examine(timeout_s, contract, namespace, open_until)
