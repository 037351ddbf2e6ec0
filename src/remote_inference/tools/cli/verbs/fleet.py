# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference fleet`."""

from __future__ import annotations

import argparse
from pathlib import Path

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.common import add_output_arguments, print_json

OLDEST_CRYPTOGRAPHY = 41  # the release in Ubuntu 24.04
EXAMPLES = {
    "fleet": (
        "init",
        "add router hub --endpoints tls/hub.lab:7447",
        "add server gpu_1",
        "add robot robot_1 --servers gpu_1",
        "renew robot_1",
    ),
}
ROLES = {
    "router": "a Zenoh router, which the others dial",
    "server": "a policy server",
    "trainer": "a program that sends weights to servers",
    "robot": "a robot",
    "operator": "a person at a shell",
}


def add_fleet(parser: argparse.ArgumentParser) -> None:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--folder", type=Path, default=Path("fleet"), help="the fleet's folder (default fleet)"
    )
    shape = (
        '[{"role", "name", "state": "valid", "renew", "expired" or "revoked", "expires"} '
        "for each certificate that the verb is about]"
    )
    add_output_arguments(common, json_shape=shape)
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="step")
    init = verbs.add_parser("init", parents=[common], help="make the folder and the certificate authority")
    init.add_argument(
        "--passphrase",
        action="store_true",
        help="encrypt the authority's key; asks unless REMOTE_INFERENCE_CA_PASSPHRASE is set",
    )
    roles = verbs.add_parser("add", help="add a member and issue its certificate").add_subparsers(
        required=True, metavar="ROLE", dest="role"
    )
    for role, text in ROLES.items():
        one = roles.add_parser(role, parents=[common], help=f"add {text}")
        one.add_argument("name", metavar="NAME", help="the name that it has in ROS, too")
        if role == "router":
            one.add_argument(
                "--endpoints", nargs="+", required=True, help="tls/<host>:<port>, as others dial it"
            )
        if role in {"robot", "trainer"}:
            one.add_argument("--servers", nargs="+", required=True, help="the servers it works with")
    for verb, text in (
        ("renew", "give a member a new key and certificate"),
        ("revoke", "take a member's rights away"),
    ):
        one = verbs.add_parser(verb, parents=[common], help=text)
        one.add_argument("name", metavar="NAME", help="the member's name, as it was added")
    verbs.add_parser("render", parents=[common], help="write every member's Zenoh configuration")


def run_fleet(arguments: argparse.Namespace) -> int:
    """Run one verb; return the exit code.

    Raises UserError for a bad description, and for a Python package that is missing or too old.
    """
    _require_packages()
    from remote_inference.tools.keys import verbs  # noqa: PLC0415  needs cryptography

    folder: Path = arguments.folder
    if arguments.step == "init":
        standings = verbs.init(folder, with_passphrase=arguments.passphrase)
    elif arguments.step == "add":
        details = {
            key: tuple(value) for key in ("endpoints", "servers") if (value := getattr(arguments, key, None))
        }
        standings = verbs.add(folder, f"{arguments.role}s", arguments.name, details)
    elif arguments.step == "renew":
        standings = verbs.renew(folder, arguments.name)
    elif arguments.step == "revoke":
        standings = verbs.revoke(folder, arguments.name)
    else:
        standings = verbs.render_all(folder)
    if arguments.json:
        print_json([standing.to_json() for standing in standings])
    elif not arguments.quiet:
        print(*(standing.text for standing in standings), sep="\n")
    return 0


def _require_packages() -> None:
    """Raise UserError unless the packages that only this verb needs are installed."""
    expected = (
        "expected the packages of requirements/fleet.txt, or apt's python3-cryptography and pip's json5"
    )
    try:
        import cryptography  # noqa: PLC0415
        import json5  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        raise UserError(f"found no Python package {error.name}, {expected}") from error
    if int(cryptography.__version__.partition(".")[0]) < OLDEST_CRYPTOGRAPHY:
        raise UserError(
            f"found cryptography {cryptography.__version__}, "
            f"expected {OLDEST_CRYPTOGRAPHY} or newer: {expected}"
        )
