# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference fleet`."""

from __future__ import annotations

from pathlib import Path

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.common import Arguments, VerbParser

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


def add_fleet(parser: VerbParser) -> None:
    common = VerbParser(add_help=False)
    common.add("--folder FOLDER", "the fleet's folder (default fleet)", default=Path("fleet"))
    shape = (
        '[{"role", "name", "state": "valid", "renew", "expired" or "revoked", "expires"} '
        "for each certificate that the verb is about]"
    )
    common.add_output(shape)
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="step")
    init = verbs.add_parser("init", parents=[common], help="make the folder and the certificate authority")
    init.add("--passphrase", "encrypt the authority's key; asks unless REMOTE_INFERENCE_CA_PASSPHRASE is set")
    member = verbs.add_parser("add", help="add a member and issue its certificate")
    roles = member.add_subparsers(required=True, metavar="ROLE", dest="role")
    for role, text in ROLES.items():
        one = roles.add_parser(role, parents=[common], help=f"add {text}")
        one.add("name NAME", "the name that it has in ROS, too")
        if role == "router":
            one.add("--endpoints", "tls/<host>:<port>, as others dial it", nargs="+", required=True)
        if role in {"robot", "trainer"}:
            one.add("--servers", "the servers it works with", nargs="+", required=True)
    renew = verbs.add_parser("renew", parents=[common], help="give a member a new key and certificate")
    revoke = verbs.add_parser("revoke", parents=[common], help="take a member's rights away")
    for one in (renew, revoke):
        one.add("name NAME", "the member's name, as it was added")
    verbs.add_parser("render", parents=[common], help="write every member's Zenoh configuration")


def run_fleet(arguments: Arguments) -> None:
    """Run one verb. Raises UserError for a bad description, and for a package that is missing or too old."""
    _require_packages()
    from remote_inference.tools.keys import verbs  # noqa: PLC0415  needs cryptography

    folder: Path = arguments.folder
    if arguments.step == "init":
        standings = verbs.init(folder, with_passphrase=arguments.passphrase)
    elif arguments.step == "add":
        given = {key: getattr(arguments, key, ()) for key in ("endpoints", "servers")}
        details = {key: tuple(value) for key, value in given.items() if value}
        standings = verbs.add(folder, f"{arguments.role}s", arguments.name, details)
    elif arguments.step == "renew":
        standings = verbs.renew(folder, arguments.name)
    elif arguments.step == "revoke":
        standings = verbs.revoke(folder, arguments.name)
    else:
        standings = verbs.render_all(folder)
    said = [standing.to_json() for standing in standings]
    arguments.print_result(said, *(standing.text for standing in standings))


def _require_packages() -> None:
    expected = (
        "expected the packages of requirements/fleet.txt, or apt's python3-cryptography and pip's json5"
    )
    try:
        import cryptography  # noqa: PLC0415
        import json5  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        raise UserError(f"found no Python package {error.name}, {expected}") from error
    if int(cryptography.__version__.partition(".")[0]) < OLDEST_CRYPTOGRAPHY:
        found = f"found cryptography {cryptography.__version__}"
        raise UserError(f"{found}, expected {OLDEST_CRYPTOGRAPHY} or newer: {expected}")
