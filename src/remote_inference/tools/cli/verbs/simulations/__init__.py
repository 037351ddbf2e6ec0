# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Verbs that play in simulators, and how they name an environment and its options."""

from __future__ import annotations

import argparse
import json

from remote_inference.base.errors import UserError

NAMES = "built-in name, gymnasium:<id>, package.module:attribute, or the name of an entry point"


def add_option_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--option`, whose texts `read_options` reads."""
    parser.add_argument(
        "--option",
        dest="options",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option of the environment, its value as JSON or text; may be given several times",
    )


def read_options(texts: list[str]) -> dict[str, object]:
    """Return options by name. Raises UserError for one without a name or a value."""
    options: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UserError(f"--option: found {text!r}, expected KEY=VALUE")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options
