# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay`, of the kinds in `cli/replay_kinds`."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from remote_inference.cli import replay_kinds
from remote_inference.cli.output import add_output_arguments
from remote_inference.cli.robot_calls import add_namespace
from remote_inference.errors import UserError

_KINDS = [import_module(f"{replay_kinds.__name__}.{name}") for name in replay_kinds.KINDS]
EXAMPLES = tuple(example for kind in _KINDS for example in kind.EXAMPLES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group(required=True)
    for kind in _KINDS:
        flag, options = kind.OPTION
        group.add_argument(flag, **options)
    parser.add_argument("bag", type=Path, metavar="BAG", help="folder of the bag")
    add_namespace(parser, "the only robot's in the bag")
    for kind in _KINDS:
        kind.add_arguments(parser)
    shapes = [f"{kind.OPTION[0]}: {kind.JSON_SHAPE}" for kind in _KINDS]
    add_output_arguments(
        parser, json_shape="; ".join(shapes), quiet="print nothing but differences and problems"
    )


def run(arguments: argparse.Namespace) -> int:
    chosen = next(kind for kind in _KINDS if getattr(arguments, kind.OPTION[0].strip("-").replace("-", "_")))
    _refuse_other_options(chosen, arguments)
    return int(chosen.run(arguments))


def _refuse_other_options(chosen: Any, arguments: argparse.Namespace) -> None:
    """Raise UserError for an option of another kind, which would have no effect."""
    for kind in _KINDS:
        for option, place in kind.TAKES.items():
            if option not in chosen.TAKES and getattr(arguments, place):
                takers = " or ".join(kind.OPTION[0] for kind in _KINDS if option in kind.TAKES)
                raise UserError(f"{option}: found with {chosen.OPTION[0]}, expected with {takers}")
