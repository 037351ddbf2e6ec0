# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Verbs that run nodes in the foreground: `robot`, `server`, and `serve`, which writes the manifest, too."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.common import ROBOT_HELP, Arguments, VerbParser

EXAMPLES = {
    "robot": (
        "--contract arm.contract.yaml --namespace /robot_1",
        "--contract arm.contract.yaml --namespace /robot_1 --servers gpu_1 gpu_2",
    ),
    "server": ("--manifest arm.manifest.yaml --name gpu_1",),
    "serve": (
        "my_act --dataset data/meta/info.json",
        "my_smolvla --dataset data/meta/info.json --language-model my_smolvla/tokenizer",
        "my_models/belt_arm/model.onnx --device cpu",
        "my_act.manifest.yaml",
    ),
}
LOG_ALONE = "print nothing but errors and the log of the nodes"


def add_robot(parser: VerbParser) -> None:
    add = parser.add
    add("--contract CONTRACT", "YAML that maps topics to features", required=True)
    add("--namespace ROBOT", ROBOT_HELP, required=True)
    text = "names of policy servers, in order of preference; wins over --params-file"
    add("--servers SERVER", text, nargs="+", default=[])
    add("--tags KEY=VALUE", "for logs and metrics; wins over --params-file", nargs="+", default=[])
    add("--params-file", "ROS parameter file for the node", type=Path)
    add("--record", "folder of a bag to create", type=Path)
    parser.add_output(quiet=LOG_ALONE)


def run_robot(arguments: Arguments) -> int:
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


def add_server(parser: VerbParser) -> None:
    parser.add("--manifest MANIFEST", "YAML that says what to serve", required=True)
    parser.add("--name", "node name (default policy_server)", default="policy_server")
    parser.add_output(quiet=LOG_ALONE)


def run_server(arguments: Arguments) -> int:
    from remote_inference.tools.deployment import bringup  # noqa: PLC0415
    from remote_inference.tools.deployment.process_group import run_in_foreground  # noqa: PLC0415

    process = bringup.server(arguments.manifest, name=arguments.name)
    return run_in_foreground([process], quiet=arguments.quiet)


def add_serve(parser: VerbParser) -> None:
    add = parser.add
    add(
        "path",
        "folder of a LeRobot checkpoint or of a policy of this package, ONNX file, or a manifest, which "
        "is served as it is",
        type=Path,
    )
    text = "meta/info.json of a LeRobot checkpoint's training data: names of its numbers, and their rate"
    add("--dataset", text, type=Path)
    add(
        "--language-model",
        "folder of the tokenizer with which a LeRobot checkpoint reads its task, for smolvla of the "
        "whole language model's configuration (default what the checkpoint names)",
        type=Path,
    )
    add("--device", "cpu, cuda or cuda:N (default cuda, else cpu)", default="")
    text = "precision of the weights (default what the checkpoint says, else float32)"
    add("--dtype", text, choices=("float32", "bfloat16", "float16"), default="")
    add("--task", "task of robots that send none", default="")
    add("--manifest MANIFEST", "file to write (default beside the policy, NAME.manifest.yaml)")
    add("--name", "node name (default policy_server)", default="policy_server")
    parser.add_output(quiet=LOG_ALONE)


def run_serve(arguments: Arguments) -> int:
    from remote_inference.robot.config import RobotConfig  # noqa: PLC0415
    from remote_inference.tools.deployment import bringup  # noqa: PLC0415
    from remote_inference.tools.deployment.process_group import run_in_foreground  # noqa: PLC0415
    from remote_inference.tools.deployment.serving.serve import ServeOptions, make_plan, write_manifest  # noqa: PLC0415

    options = ServeOptions(**{name: getattr(arguments, name) for name in vars(ServeOptions())})
    plan = make_plan(arguments.path, options, arguments.manifest)
    process = bringup.server(plan.manifest, name=arguments.name)
    is_new = write_manifest(plan)
    say: Callable[[str], None] = (lambda _: None) if arguments.quiet else partial(print, flush=True)
    say(f"{arguments.path}: {plan.what}")
    say(f"{plan.manifest}: {'written' if is_new else 'as it was'}; trying the policy")
    try:
        file = _check(plan.manifest)
    except BaseException:
        if is_new:  # the next attempt may make another
            plan.manifest.unlink(missing_ok=True)
            say(f"{plan.manifest}: removed again")
        raise
    trial = file["trial"]
    say(f"it answers in {trial['request_ms']:.1f} ms, fast enough for {trial['robots']} robots")
    for warning in file["warnings"]:
        say(f"  warning: {warning}")
    say(f"on a robot with default parameters, {RobotConfig().merging}")
    say(f"on the robot: remote-inference robot --contract FILE --namespace ROBOT --servers /{process.name}")
    return run_in_foreground([process], quiet=arguments.quiet)


def _check(manifest: Path) -> dict[str, Any]:
    """Try the policy as `remote-inference check --run` does; return what it says of the manifest.

    In a process of its own: the memory of the device goes with it, before the server needs it. Raises
    UserError for a policy that cannot be served.
    """
    command = [sys.executable, "-m", "remote_inference.tools.cli", "check", "--run", "--json", str(manifest)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        (file,) = json.loads(ended.stdout)["files"]
    except ValueError as error:  # it was killed, for example for its memory
        raise UserError(f"{manifest}: its check ended with exit code {ended.returncode}") from error
    if file["problem"]:
        raise UserError(file["problem"])
    return dict(file)
