# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay`, of the kinds in `cli/replay_kinds`."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from remote_inference.base.errors import UserError
from remote_inference.tools.cli import replay_kinds
from remote_inference.tools.cli.output import add_output_arguments
from remote_inference.tools.cli.replay_kinds import BAG
from remote_inference.tools.cli.robot_calls import add_namespace

_KINDS = [import_module(f"{replay_kinds.__name__}.{name}") for name in replay_kinds.KINDS]
EXAMPLES = tuple(example for kind in _KINDS for example in kind.EXAMPLES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group(required=True)
    for kind in _KINDS:
        flag, options = kind.OPTION
        group.add_argument(flag, **options)
    parser.add_argument(
        "bag", type=Path, nargs="?", metavar=BAG, help="folder of the bag; none with --capture"
    )
    add_namespace(parser, "the only robot's in the bag")
    for kind in _KINDS:
        kind.add_arguments(parser)
    shapes = [f"{kind.OPTION[0]}: {kind.JSON_SHAPE}" for kind in _KINDS]
    add_output_arguments(
        parser, json_shape="; ".join(shapes), quiet="print nothing but differences and problems"
    )


def run(arguments: argparse.Namespace) -> int:
    chosen = next(kind for kind in _KINDS if getattr(arguments, kind.OPTION[0].strip("-").replace("-", "_")))
    _refuse_other_arguments(chosen, arguments)
    if BAG in chosen.TAKES and arguments.bag is None:
        raise UserError(f"{BAG}: missing, expected the folder of a bag with {chosen.OPTION[0]}")
    return int(chosen.run(arguments))


def _refuse_other_arguments(chosen: Any, arguments: argparse.Namespace) -> None:
    """Raise UserError for an argument of another kind, which would have no effect."""
    for kind in _KINDS:
        for name, place in kind.TAKES.items():
            if name not in chosen.TAKES and getattr(arguments, place):
                takers = " or ".join(kind.OPTION[0] for kind in _KINDS if name in kind.TAKES)
                raise UserError(f"{name}: found with {chosen.OPTION[0]}, expected with {takers}")
