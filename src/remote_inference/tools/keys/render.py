# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Zenoh configurations of a fleet: the package's defaults with keys, endpoints and access control list."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import json5

from remote_inference.base.documents.document import DocumentError
from remote_inference.tools.keys.access import access_control
from remote_inference.tools.keys.description import Fleet

CA_FILE, CERTIFICATE_FILE, KEY_FILE = "ca.pem", "certificate.pem", "key.pem"
SESSION_FILE, ROUTER_FILE = "session.json5", "router.json5"
LOCAL_ENDPOINT = "tcp/localhost:7447"  # where ROS nodes look for their machine's router


def load_base(path: Path) -> dict[str, Any]:
    """Return the Zenoh configuration in a JSON5 file. Raises DocumentError."""
    try:
        content = json5.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DocumentError(f"{path}: is not valid JSON5: {error}") from error
    if not isinstance(content, dict):
        raise DocumentError(f"{path}: found no Zenoh configuration, expected a mapping of keys")
    return content


def fleet_router(base: dict[str, Any], fleet: Fleet, name: str) -> dict[str, Any]:
    """Return the configuration of a fleet router, which dials the routers listed before it."""
    earlier = list(fleet.routers)[: list(fleet.routers).index(name)]
    config = _secured(base, fleet, name, [e for router in earlier for e in fleet.routers[router].endpoints])
    config["mode"] = "router"
    config["listen"]["endpoints"] = [f"tls/[::]:{port}" for port in fleet.routers[name].ports]
    config["transport"]["link"]["tls"] |= {
        "listen_private_key": _path(fleet, name, KEY_FILE),
        "listen_certificate": _path(fleet, name, CERTIFICATE_FILE),
    }
    config["access_control"] = access_control(fleet)
    _silence(config)
    return config


def machine_router(base: dict[str, Any], fleet: Fleet, name: str) -> dict[str, Any]:
    """Return the configuration of the router of a member's machine: local nodes need no keys to reach it."""
    config = _secured(base, fleet, name, _endpoints(fleet))
    config["mode"] = "router"
    config["listen"]["endpoints"] = [LOCAL_ENDPOINT]
    config["transport"]["link"]["protocols"] = ["tcp", "tls"]
    return config


def session(base: dict[str, Any], fleet: Fleet, name: str) -> dict[str, Any]:
    """Return the configuration of a member's only ROS process, which dials the fleet's routers itself."""
    config = _secured(base, fleet, name, _endpoints(fleet))
    config["mode"] = "client"  # no peer may talk past the routers
    config["listen"]["endpoints"] = []
    _silence(config)
    return config


def _secured(base: dict[str, Any], fleet: Fleet, name: str, endpoints: list[str]) -> dict[str, Any]:
    config = copy.deepcopy(base)
    for section in ("connect", "listen"):
        config.setdefault(section, {})
    config["connect"]["endpoints"] = endpoints
    link = config.setdefault("transport", {}).setdefault("link", {})
    link["protocols"] = ["tls"]
    link["tls"] = {
        **(link.get("tls") or {}),
        "root_ca_certificate": _path(fleet, name, CA_FILE),
        "enable_mtls": True,
        "connect_private_key": _path(fleet, name, KEY_FILE),
        "connect_certificate": _path(fleet, name, CERTIFICATE_FILE),
        "verify_name_on_connect": True,
        "close_link_on_expiration": True,
    }
    return config


def _silence(config: dict[str, Any]) -> None:
    """Turn discovery off, so that no member learns another member's address."""
    scouting = config.setdefault("scouting", {})
    for way in ("multicast", "gossip"):
        scouting.setdefault(way, {})["enabled"] = False


def _endpoints(fleet: Fleet) -> list[str]:
    return [endpoint for router in fleet.routers.values() for endpoint in router.endpoints]


def _path(fleet: Fleet, name: str, file: str) -> str:
    return str(Path(fleet.directory, name, file))
