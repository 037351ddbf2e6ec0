# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Verbs that say what is wrong, and change nothing: `doctor`, `check` and `backends`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.common import Arguments, VerbParser, print_error, print_json, say

EXAMPLES = {
    "doctor": ("", "--contract arm.contract.yaml --namespace /robot_1"),
    "check": (
        "arm.contract.yaml",
        "arm.contract.yaml arm.manifest.yaml",
        "arm.contract.yaml arm.params.yaml arm.manifest.yaml",
        "--run arm.manifest.yaml arm.contract.yaml",
    ),
    "backends": ("", "--json"),
}


def add_doctor(parser: VerbParser) -> None:
    parser.description = (
        "Look for what keeps robots from moving: what was found, what was expected and what to do, one "
        "finding below the other. The exit code is 1 when there is an error and 0 when there is none."
    )
    parser.add("--contract CONTRACT", "look at the topics of this contract, too")
    parser.add("--namespace", "the robot's namespace (default /)", default="/")
    parser.add_timeout()
    shape = '{"errors", "warnings", "findings": [{"level", "subject", "found", "expected", "advice"}]}'
    parser.add_output(shape, quiet="print nothing but warnings and errors")


def run_doctor(arguments: Arguments) -> int:
    if arguments.namespace != "/" and arguments.contract is None:
        raise UserError("--namespace: found without --contract, expected the contract of the robot")
    from remote_inference.tools.deployment.bringup import absolute_namespace  # noqa: PLC0415
    from remote_inference.tools.deployment.doctor.doctor import Level  # noqa: PLC0415

    namespace = absolute_namespace(arguments.namespace)
    contract = arguments.load_contract()
    drawn = sys.stdout.isatty()  # in a pipe a finding is one line, which grep finds whole
    with ExitStack() as open_until:
        findings = []
        for finding in _examine(arguments.timeout, contract, namespace, open_until):
            findings.append(finding)
            if not arguments.json and not (arguments.quiet and finding.level is Level.OK):
                say(finding.fold(shutil.get_terminal_size().columns) if drawn else finding)
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


def add_check(parser: VerbParser) -> None:
    parser.add("files", "contracts, manifests and ROS parameter files of robots", type=Path, nargs="+")
    text = "try each policy as its server would: warm it up, time it, show a sample chunk"
    parser.add("--run", text, dest="try_policies", action="store_true")
    shape = (
        '{"exit_code", "files": [{"path", "kind", "problem", "warnings", "trial"}], '
        '"fits": [{"contract", "manifest", "accepted", "rejection", "reason", "warnings", "merging"}], '
        '"unjudged"}; '
        '"trial" is null without --run, else {"request_ms", "request_rate_hz", "robots", "serving_mode", '
        '"action_names", "chunk": [[one number per action] per row]}'
    )
    parser.add_output(shape, quiet="print nothing but problems and refusals")


def run_check(arguments: Arguments) -> int:
    from remote_inference.tools.deployment.serving.check import check  # noqa: PLC0415  loads policies

    with redirect_stdout(sys.stderr):  # a policy may print
        report = check(arguments.files, run=arguments.try_policies)
    if arguments.json:
        print_json(report.to_json())
        return report.exit_code
    descriptions = [] if arguments.quiet else [file.lines for file in report.files]
    fits = (fit.lines() for fit in report.fits if not (arguments.quiet and fit.accepted))
    for line in chain(*descriptions, *fits):
        say(line)
    for problem in (file.problem for file in report.files if file.problem):
        print_error("check", problem)
    for pair in report.unjudged:
        print_error("check", f"not judged: {pair}")
    return report.exit_code


def add_backends(parser: VerbParser) -> None:
    shape = (
        '{"backends": [{"name", "distribution", "version", "missing": [packages], "problem", "failure", '
        '"prints", "state"}]}'
    )
    parser.add_output(shape, quiet="")


def run_backends(arguments: Arguments) -> None:
    from remote_inference.tools.deployment.serving import back_ends  # noqa: PLC0415  imports pydantic
    from remote_inference.tools.tables import Table, print_table  # noqa: PLC0415

    found = back_ends.try_back_ends(back_ends.list_back_ends())
    if arguments.json:
        print_json({"backends": [back_end.to_json() for back_end in found]})
    else:
        rows = [(one.name, one.distribution, one.version, one.state) for one in found]
        print_table(Table("", ("back end", "distribution", "version", "state"), rows))
