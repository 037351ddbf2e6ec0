# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference contract`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from remote_inference.base.contract.action_kinds import MOTIONS
from remote_inference.tools.cli.common import ROBOT_HELP, VerbParser, print_json, say
from remote_inference.tools.contracts import IMPORTERS

if TYPE_CHECKING:
    from remote_inference.base.contract.generated import GeneratedContract

EXAMPLES = {
    "contract": (
        "suggest --namespace /my_arm --out my_arm.contract.yaml",
        "suggest --urdf my_arm.urdf --kind position",
        "from-lerobot data/meta/info.json --out my_arm.contract.yaml",
        "to-lerobot my_arm.contract.yaml --out info.json",
        "from-rosetta so_101.yaml --out so_101.contract.yaml",
        "from-hud contract.json --out my_arm.contract.yaml",
        "to-hud my_arm.contract.yaml --out contract.json",
    ),
}
# What each importer that is built in reads.
SOURCES = {
    "lerobot": "a LeRobot data set's meta/info.json",
    "rosetta": "rosetta's contract file",
    "hud": "a HUD environment's contract.json",
}
# What makes another program's document of a contract, and what its verb does.
EXPORTERS = {
    "lerobot": (
        "remote_inference.base.lerobot_format:to_lerobot",
        "write what a contract decides of a LeRobot data set's meta/info.json",
    ),
    "hud": (
        "remote_inference.learn.hud.contract:to_hud",
        "write a HUD environment's contract.json from a contract",
    ),
}


def add_contract(parser: VerbParser) -> None:
    common = VerbParser(add_help=False)
    common.add("--out OUT", "the file to write, which must not exist (default: print)")
    shape = '{"document", "marks": [a line for each place that is left to fill in], "notes", "left_out"}'
    common.add_output(shape, quiet="do not list what is left to fill in")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    suggest = verbs.add_parser(
        "suggest", parents=[common], help="begin a contract from a running robot and its URDF"
    )
    suggest.add("--namespace ROBOT", f"{ROBOT_HELP} (default /)", default="/")
    suggest.add(
        "--urdf",
        "the robot's URDF (default: the topic robot_description, if there is one)",
        type=Path,
    )
    suggest.add(
        "--joint-limits FILE",
        "joint_limits of MoveIt or ros2_control, for velocities, accelerations and jerks below the URDF's",
    )
    suggest.add(
        "--kind",
        "what the actions command (default: what the controllers' parameters say)",
        choices=MOTIONS,
        default="",
    )
    suggest.add_timeout()
    suggest.set_defaults(run=_suggest, has_nodes=True)
    for name in IMPORTERS.every_name:
        read = SOURCES.get(name, f"a file of {name}")
        verb = verbs.add_parser(f"from-{name}", parents=[common], help=f"begin a contract from {read}")
        verb.add("file", read, type=Path)
        verb.set_defaults(run=_import, importer=name)
    for name, (place, text) in EXPORTERS.items():
        verb = verbs.add_parser(f"to-{name}", parents=[common], help=text)
        verb.add("file", "a contract", type=Path)
        verb.set_defaults(run=_export, exporter=place)


def _suggest(arguments: argparse.Namespace) -> None:
    from remote_inference.base.documents.document import DocumentError, read_yaml  # noqa: PLC0415
    from remote_inference.tools.cli.contract_probe import probe_robot  # noqa: PLC0415  imports rclpy
    from remote_inference.tools.contracts.running_robot import suggest  # noqa: PLC0415
    from remote_inference.tools.contracts.urdf import find_joint_limits, parse_urdf  # noqa: PLC0415

    path = arguments.joint_limits
    said = {str(path): find_joint_limits(read_yaml(path))} if path else {}
    if not all(said.values()):
        raise DocumentError(f"{path}: joint_limits: missing, expected limits by joint")
    urdf = parse_urdf(arguments.urdf.read_bytes(), str(arguments.urdf)) if arguments.urdf else None
    with probe_robot(arguments.namespace, arguments.timeout, urdf) as view:
        robot = replace(view, joint_limits={**said, **view.joint_limits})
        _write(arguments, suggest(robot, arguments.kind))


def _import(arguments: argparse.Namespace) -> None:
    importer = IMPORTERS.get(arguments.importer)
    _write(arguments, importer(arguments.file.read_bytes(), str(arguments.file)))


def _export(arguments: argparse.Namespace) -> None:
    import remote_inference.base.wire  # noqa: F401, PLC0415  names the image encodings
    from remote_inference.base.contract.contract import load_contract  # noqa: PLC0415
    from remote_inference.base.contract.generated import GeneratedContract  # noqa: PLC0415

    document = resolve_name(arguments.exporter)(load_contract(arguments.file))
    text = json.dumps(document, indent=4, ensure_ascii=False) + "\n"
    _write(arguments, GeneratedContract(document), text)


def _write(arguments: argparse.Namespace, generated: GeneratedContract, text: str = "") -> None:
    """Write the file if one is asked for; print the text otherwise, or JSON, and what is left to fill in.

    text: of the file; empty: the contract's YAML. Raises OSError for a file that exists.
    """
    text = text or generated.to_yaml()
    if arguments.out is not None:
        with arguments.out.open("x", encoding="utf-8") as file:
            file.write(text)
    elif not arguments.json:
        print(text, end="")
    marks = generated.marks
    if arguments.json:
        said = {"document": generated.content, "marks": marks, "notes": generated.notes}
        print_json({**said, "left_out": [vars(one) for one in generated.left_out]})
    elif marks and not arguments.quiet:
        say(*marks, file=sys.stderr)
