# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference contract`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote_inference.cli.output import add_output_arguments, print_json
from remote_inference.cli.robot_calls import ROBOT_HELP, add_timeout

if TYPE_CHECKING:
    from remote_inference.core.drafts.draft import Draft

EXAMPLES = (
    "remote-inference contract suggest --namespace /my_arm --out my_arm.contract.yaml",
    "remote-inference contract suggest --urdf my_arm.urdf --kind position",
    "remote-inference contract from-lerobot data/meta/info.json --out my_arm.contract.yaml",
    "remote-inference contract to-lerobot my_arm.contract.yaml --out info.json",
    "remote-inference contract from-rosetta so_101.yaml --out so_101.contract.yaml",
    "remote-inference contract from-hud contract.json --out my_arm.contract.yaml",
    "remote-inference contract to-hud my_arm.contract.yaml --out contract.json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs of `contract`."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--out", type=Path, help="the file to write, which must not exist (default: print)")
    shape = '{"document", "marks": [a line for each place that is left to fill in], "notes"}'
    add_output_arguments(common, json_shape=shape, quiet="do not list what is left to fill in")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    suggest = verbs.add_parser(
        "suggest", parents=[common], help="begin a contract from a running robot and its URDF"
    )
    suggest.add_argument("--namespace", default="/", metavar="ROBOT", help=f"{ROBOT_HELP} (default /)")
    suggest.add_argument(
        "--urdf", type=Path, help="the robot's URDF (default: the topic robot_description, if there is one)"
    )
    suggest.add_argument(
        "--kind",
        choices=("position", "velocity", "effort"),
        default="",
        help="what the actions command (default: what the controllers' parameters say)",
    )
    add_timeout(suggest)
    suggest.set_defaults(act=_suggest, has_nodes=True)
    for name, act, text in (
        ("from-lerobot", _from_lerobot, "begin a contract from a LeRobot data set's meta/info.json"),
        ("to-lerobot", _to_lerobot, "write what a contract decides of a LeRobot data set's meta/info.json"),
        ("from-rosetta", _from_rosetta, "begin a contract from rosetta's contract file"),
        ("from-hud", _from_hud, "begin a contract from a HUD environment's contract.json"),
        ("to-hud", _to_hud, "write a HUD environment's contract.json from a contract"),
    ):
        verb = verbs.add_parser(name, parents=[common], help=text)
        verb.add_argument(
            "file", type=Path, help=text.rpartition("from ")[2] if "from" in name else "a contract"
        )
        verb.set_defaults(act=act)


def run(arguments: argparse.Namespace) -> int:
    """Run one verb; return the exit code. Raises UserError, and OSError for a file that exists."""
    return int(arguments.act(arguments))


def _suggest(arguments: argparse.Namespace) -> int:
    from remote_inference.cli.contract_probe import look  # noqa: PLC0415  imports rclpy
    from remote_inference.core.drafts.running_robot import suggest  # noqa: PLC0415
    from remote_inference.core.drafts.urdf import parse_urdf  # noqa: PLC0415

    urdf = parse_urdf(arguments.urdf.read_bytes(), str(arguments.urdf)) if arguments.urdf else None
    with look(arguments.namespace, arguments.timeout, urdf) as view:
        _write_draft(arguments, suggest(view, arguments.kind))
    return 0


def _from_lerobot(arguments: argparse.Namespace) -> int:
    from remote_inference.core.drafts.lerobot import from_lerobot, read_info  # noqa: PLC0415

    _write_draft(arguments, from_lerobot(read_info(arguments.file.read_bytes(), str(arguments.file))))
    return 0


def _from_rosetta(arguments: argparse.Namespace) -> int:
    from remote_inference.core.drafts.rosetta import from_rosetta  # noqa: PLC0415
    from remote_inference.core.drafts.rosetta_document import read_rosetta  # noqa: PLC0415

    _write_draft(arguments, from_rosetta(read_rosetta(arguments.file.read_bytes(), str(arguments.file))))
    return 0


def _from_hud(arguments: argparse.Namespace) -> int:
    from remote_inference.core.drafts.hud import from_hud, read_hud  # noqa: PLC0415

    _write_draft(arguments, from_hud(read_hud(arguments.file.read_bytes(), str(arguments.file))))
    return 0


def _to_lerobot(arguments: argparse.Namespace) -> int:
    import remote_inference.wire  # noqa: F401, PLC0415  names the image encodings
    from remote_inference.core.contract.contract import load_contract  # noqa: PLC0415
    from remote_inference.core.documents.marks import find_marks  # noqa: PLC0415
    from remote_inference.core.drafts.lerobot import to_lerobot  # noqa: PLC0415

    document = to_lerobot(load_contract(arguments.file))
    _write_document(arguments, document, find_marks(document))
    return 0


def _to_hud(arguments: argparse.Namespace) -> int:
    import remote_inference.wire  # noqa: F401, PLC0415  names the image encodings
    from remote_inference.core.contract.contract import load_contract  # noqa: PLC0415
    from remote_inference.core.drafts.hud import to_hud  # noqa: PLC0415

    _write_document(arguments, to_hud(load_contract(arguments.file)), [])
    return 0


def _write_document(arguments: argparse.Namespace, document: dict[str, Any], marks: list[str]) -> None:
    """Write JSON for another program as a file, or print it, and what is left to fill in."""
    text = json.dumps(document, indent=4, ensure_ascii=False) + "\n"
    if arguments.out is not None:
        _write(arguments.out, text)
    elif not arguments.json:
        print(text, end="")
    if arguments.json:
        print_json({"document": document, "marks": marks, "notes": []})
    elif marks and not arguments.quiet:
        print(*marks, sep="\n", file=sys.stderr)


def _write(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.write(text)


def _write_draft(arguments: argparse.Namespace, draft: Draft) -> None:
    """Write the file if one is asked for; print the text otherwise, or JSON, and what is left to fill in."""
    if arguments.out is not None:
        _write(arguments.out, draft.to_yaml())
    if arguments.json:
        print_json({"document": draft.content, "marks": draft.marks, "notes": draft.notes})
        return
    if arguments.out is None:
        print(draft.to_yaml(), end="")
    if draft.marks and not arguments.quiet:
        print(*draft.marks, sep="\n", file=sys.stderr)
