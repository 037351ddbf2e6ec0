# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A deployment's Zenoh settings as the environment variables that rmw_zenoh reads. It needs no Zenoh."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from remote_inference.base.errors import UserError

RMW = "rmw_zenoh_cpp"
SESSION_VARIABLE = "ZENOH_SESSION_CONFIG_URI"
ROUTER_VARIABLE = "ZENOH_ROUTER_CONFIG_URI"
OVERRIDE_VARIABLE = "ZENOH_CONFIG_OVERRIDE"
# Of a server's session, JSON5 by key. It answers many robots at once over one link, and on a busy machine
# Zenoh's sending thread runs some milliseconds late: chunks that the queue cannot take wait for it.
SERVER_SETTINGS = {"transport/link/tx/queue/congestion_control/drop/wait_before_drop": "20000"}  # us
SCOUTING_GROUP = "224.0.0.224"  # where peers of one host ask for each other, one port below their router's
PROTOCOLS = ("tcp", "tls", "quic", "udp", "ws")
EXPECTED = f"PROTOCOL/HOST:PORT with a protocol of {', '.join(PROTOCOLS)}, for example tls/host:7447"


class EndpointError(UserError):
    """A router's endpoint cannot be used; the message says where, what was found and what was expected."""


@dataclass(frozen=True)
class Endpoint:
    """Where a router listens. options: of the link, as Zenoh writes them (`so_sndbuf=65536`), or empty."""

    protocol: str
    host: str
    port: int
    options: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.protocol}/{host}:{self.port}" + (f"#{self.options}" if self.options else "")


def parse_endpoint(text: str, source: str) -> Endpoint:
    """Return the endpoint `protocol/host:port[#options]`. Raises EndpointError, which names `source`."""
    locator, _, options = text.partition("#")
    protocol, slash, address = locator.partition("/")
    if not slash:
        raise EndpointError(f"{source}: found no protocol in '{text}', expected {EXPECTED}")
    if protocol not in PROTOCOLS:
        raise EndpointError(f"{source}: found the protocol '{protocol}' in '{text}', expected {EXPECTED}")
    host, colon, port = address.rpartition(":")
    if not colon or not host.strip("[]") or "/" in host:
        raise EndpointError(f"{source}: found no host and port in '{text}', expected {EXPECTED}")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise EndpointError(f"{source}: found '{host}' in '{text}', expected an IPv6 address in brackets")
    if any(character in text for character in " \";'\\?"):
        raise EndpointError(f"{source}: found a blank, quote, '\\', ';' or '?' in '{text}', expected none")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise EndpointError(f"{source}: found the port '{port}' in '{text}', expected one from 1 to 65535")
    return Endpoint(protocol, host.strip("[]"), int(port), options)


def environment(
    config_folder: Path, router: str, present: Mapping[str, str], settings: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the variables to add to those that are `present`, which win over our files.

    config_folder: where session.json5 and router.json5 lie. router: endpoint of the router to connect to; it
    wins over the same keys of a ZENOH_CONFIG_OVERRIDE that is present, and empty leaves all to the files.
    settings: JSON5 by key, over which a ZENOH_CONFIG_OVERRIDE that is present wins. Raises EndpointError.
    """
    files = {SESSION_VARIABLE: "session.json5", ROUTER_VARIABLE: "router.json5"}
    variables = {name: str(config_folder / file) for name, file in files.items() if not present.get(name)}
    overrides = {**(settings or {}), **parse_overrides(present.get(OVERRIDE_VARIABLE, ""))}
    if router:
        overrides |= router_settings(parse_endpoint(router, "router:="))
    if settings or router:
        variables[OVERRIDE_VARIABLE] = ";".join(f"{key}={value}" for key, value in overrides.items())
    return variables


def router_settings(router: Endpoint) -> dict[str, str]:
    """Return the settings, JSON5 by key, that connect a node to one router.

    Across hosts a node is the router's client: peers talk to each other directly, and listen on the loopback
    interface only, where no other host reaches them.
    """
    try:
        is_on_this_host = ipaddress.ip_address(router.host).is_loopback
    except ValueError:
        is_on_this_host = router.host == "localhost"
    mode = "peer" if is_on_this_host else "client"
    settings = {"mode": json.dumps(mode), "connect/endpoints": json.dumps([str(router)])}
    if is_on_this_host:  # the nodes of each router keep to themselves
        settings["scouting/multicast/address"] = json.dumps(f"{SCOUTING_GROUP}:{router.port - 1}")
    return settings


def parse_overrides(text: str) -> dict[str, str]:
    """Return the settings of a ZENOH_CONFIG_OVERRIDE, JSON5 by key."""
    pairs = (entry.partition("=") for entry in text.split(";") if entry.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}
