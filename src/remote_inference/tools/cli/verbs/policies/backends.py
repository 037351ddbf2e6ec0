# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference backends`."""

from __future__ import annotations

import argparse

from remote_inference.tools.cli.output import add_output_arguments, print_json

EXAMPLES = ("remote-inference backends", "remote-inference backends --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shape = (
        '{"backends": [{"name", "distribution", "version", "missing": [packages], "problem", "failure", '
        '"prints", "state"}]}'
    )
    add_output_arguments(parser, json_shape=shape, quiet="")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.tools.deployment.serving.back_ends import (  # noqa: PLC0415  imports pydantic
        list_back_ends,
        try_back_ends,
    )
    from remote_inference.tools.tables import Table, print_table  # noqa: PLC0415

    found = try_back_ends(list_back_ends())
    if arguments.json:
        print_json({"backends": [back_end.to_json() for back_end in found]})
        return 0
    rows = [(one.name, one.distribution, one.version, one.state) for one in found]
    print_table(Table("", ("back end", "distribution", "version", "state"), rows))
    return 0
