# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference`: the package's verbs for people without ros2cli."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from remote_inference import __version__
from remote_inference.core.document import DocumentError
from remote_inference.deployment import bringup
from remote_inference.keys import command as fleet

MIDDLEWARE = "on the middleware that RMW_IMPLEMENTATION names"


def main(argv: list[str] | None = None) -> int:
    """Run one verb; return the exit code."""
    parser = _make_parser()
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (DocumentError, bringup.DeploymentError) as error:
        print(f"remote-inference: {error}", file=sys.stderr)
        return 2


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="remote-inference", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    _add_demo(verbs)
    _add_robot(verbs)
    _add_server(verbs)
    _add_check(verbs)
    _add_explain(verbs)
    _add_replay(verbs)
    _add_fleet(verbs)
    return parser


def _add_demo(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from remote_inference.demo import command  # noqa: PLC0415  the other verbs need neither rich nor MuJoCo

    parser = verbs.add_parser("demo", help="watch the simulated arm pick cubes, driven by a policy server")
    command.add_arguments(parser)
    parser.set_defaults(run=command.run)


def _add_robot(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("robot", help=f"run one robot's node, as robot.launch.py does, {MIDDLEWARE}")
    parser.add_argument("--contract", type=Path, required=True, help="YAML that maps topics to features")
    parser.add_argument("--namespace", required=True, help="the robot's namespace, for example /robot_1")
    parser.add_argument(
        "--servers", nargs="+", default=[], help="in order of preference; wins over --params-file"
    )
    parser.add_argument("--params-file", type=Path, help="ROS parameter file for the node")
    parser.add_argument("--record", type=Path, help="folder of a bag to create")
    parser.set_defaults(run=_run_robot)


def _add_server(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("server", help=f"run a policy server, as server.launch.py does, {MIDDLEWARE}")
    parser.add_argument("--manifest", type=Path, required=True, help="YAML that says what to serve")
    parser.add_argument("--name", default="policy_server", help="node name (default policy_server)")
    parser.set_defaults(run=_run_server)


def _add_check(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("check", help="validate contracts and manifests, and whether they fit")
    parser.add_argument("files", type=Path, nargs="+", help="contracts and manifests")
    parser.set_defaults(run=_check)


def _add_explain(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("explain", help="draw what a robot did, from its bag")
    parser.add_argument("bag", type=Path)
    parser.add_argument("--namespace", required=True, help="the robot's namespace in the bag")
    parser.add_argument("--out", type=Path, default=Path("report.png"), help="picture to write")
    parser.set_defaults(run=_explain)


def _add_replay(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("replay-capture", help="serve captured requests again and compare the chunks")
    parser.add_argument("captures", type=Path, nargs="+", help="files of a manifest's capture_dir")
    parser.add_argument("--manifest", type=Path, required=True, help="YAML that says which policy answers")
    parser.set_defaults(run=_replay)


def _add_fleet(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("fleet", help="keys, certificates and Zenoh configurations of a fleet")
    fleet.add_arguments(parser)
    parser.set_defaults(run=fleet.run)


def _run_robot(arguments: argparse.Namespace) -> int:
    processes = bringup.robot_processes(
        arguments.contract,
        namespace=arguments.namespace,
        servers=arguments.servers,
        parameter_files=[arguments.params_file] if arguments.params_file else [],
        bag=arguments.record,
    )
    return _run(processes)


def _run_server(arguments: argparse.Namespace) -> int:
    return _run([bringup.server(arguments.manifest, name=arguments.name)])


def _check(arguments: argparse.Namespace) -> int:
    from remote_inference.core.policy import PolicyError  # noqa: PLC0415
    from remote_inference.deployment.check import check  # noqa: PLC0415  loads policies

    try:
        lines, fits = check(arguments.files)
    except PolicyError as error:
        print(f"remote-inference check: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0 if fits else 1


def _explain(arguments: argparse.Namespace) -> int:
    from remote_inference.recording import BagError, draw_report, load_timeline  # noqa: PLC0415  needs matplotlib

    try:
        timeline = load_timeline(arguments.bag, arguments.namespace)
    except BagError as error:
        print(f"remote-inference explain: {error}", file=sys.stderr)
        return 1
    draw_report(timeline, arguments.out, f"{arguments.bag.name}, {arguments.namespace}")
    print(arguments.out)
    return 0


def _replay(arguments: argparse.Namespace) -> int:
    from remote_inference.core.policy import PolicyError  # noqa: PLC0415  the rest loads policies
    from remote_inference.core.server.manifest import load_manifest  # noqa: PLC0415
    from remote_inference.recording.captures import CaptureError  # noqa: PLC0415
    from remote_inference.recording.replay import replay  # noqa: PLC0415

    try:
        replays = replay(arguments.captures, load_manifest(arguments.manifest, os.environ))
    except (PolicyError, CaptureError) as error:
        print(f"remote-inference replay-capture: {error}", file=sys.stderr)
        return 2
    for one in replays:
        print(one)
    return 0 if all(one.agrees for one in replays) else 1


def _run(processes: list[bringup.Process]) -> int:
    """Run processes until one ends or the user interrupts; return the exit code."""
    from remote_inference.deployment.process_group import run_until_interrupted  # noqa: PLC0415

    for warning in bringup.middleware_warnings(os.environ.get("RMW_IMPLEMENTATION", "")):
        print(f"remote-inference: {warning}", file=sys.stderr)
    return run_until_interrupted(processes)


if __name__ == "__main__":
    sys.exit(main())
