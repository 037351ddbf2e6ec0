# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What `remote-inference fleet` does: keep the description, issue certificates, write configurations."""

from __future__ import annotations

import copy
import datetime
import getpass
import json
import os
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import json5

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.errors import UserError
from remote_inference.base.paths import share_path
from remote_inference.tools.keys import authority as ca, description
from remote_inference.tools.keys.access import access_control
from remote_inference.tools.keys.description import Fleet

CA_FILE, CERTIFICATE_FILE, KEY_FILE = "ca.pem", "certificate.pem", "key.pem"
SESSION_FILE, ROUTER_FILE = "session.json5", "router.json5"
LOCAL_ENDPOINT = "tcp/localhost:7447"  # where ROS nodes look for their machine's router
PASSPHRASE_VARIABLE = "REMOTE_INFERENCE_CA_PASSPHRASE"
AUTHORITY_LIFETIME = datetime.timedelta(days=3650)
MEMBER_LIFETIME = datetime.timedelta(days=365)
RENEW_BEFORE = datetime.timedelta(days=30)


@dataclass(frozen=True)
class Standing:
    """How a member's certificate stands, or the authority's, after a verb."""

    role: str  # a key of the description, or "authority"
    name: str  # empty for the authority
    state: str  # valid, renew, expired or revoked
    expires: str  # date
    text: str  # for people

    def to_json(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if name != "text"}


def init(folder: Path, *, with_passphrase: bool = False) -> list[Standing]:
    """Make a fleet's folder, authority and empty description. Raises DocumentError if a fleet is there."""
    if (folder / description.FILE_NAME).exists():
        raise DocumentError(f"{folder / description.FILE_NAME}: exists, expected a folder without a fleet")
    passphrase = os.environ.get(PASSPHRASE_VARIABLE, "").encode()
    if with_passphrase and not passphrase:
        passphrase = _new_passphrase()
    authority = ca.create_authority("remote_inference fleet", _now(), AUTHORITY_LIFETIME)
    files = {ca.CERTIFICATE_FILE: (authority.certificate_pem, 0o644)}
    files[ca.KEY_FILE] = (ca.key_pem(authority.key, passphrase or None), 0o600)
    description.write_folder(folder / "authority", files)
    try:
        description.save_fleet(folder, Fleet())
    except BaseException:
        shutil.rmtree(folder / "authority")
        raise
    until = f"{ca.valid_until(authority.certificate):%Y-%m-%d}"
    return [Standing("authority", "", "valid", until, f"{folder}: authority valid until {until}")]


def add(folder: Path, role: str, name: str, details: dict[str, Any]) -> list[Standing]:
    """Add a member and issue its certificate. role: a key of the description; details: the member's keys.

    Raises DocumentError if the description would become invalid, UserError and OSError. Changes nothing
    if it raises.
    """
    fleet = description.load_fleet(folder)
    fleet = description.with_member(fleet, role, name, details, _source(folder))
    description.write_folder(_member(folder, name), _issue(folder, fleet, name))
    try:
        description.save_fleet(folder, fleet)
    except BaseException:
        shutil.rmtree(_member(folder, name))
        raise
    return [_standing(folder, role, name)]


def renew(folder: Path, name: str) -> list[Standing]:
    """Give a member a new key and certificate. Raises the same errors as `add`, and then changes nothing."""
    fleet = description.load_fleet(folder)
    role = description.role_of(fleet, name, _source(folder))
    files = _issue(folder, fleet, name)
    description.write_files({_member(folder, name) / file: content for file, content in files.items()})
    return [_standing(folder, role, name)]


def revoke(folder: Path, name: str) -> list[Standing]:
    """Remove a member and delete its local key. Raises DocumentError if it is unknown or still in use."""
    fleet = description.load_fleet(folder)
    role = description.role_of(fleet, name, _source(folder))
    certificate = ca.read_certificate(_member(folder, name) / CERTIFICATE_FILE)
    until = ca.valid_until(certificate).date()
    description.save_fleet(folder, description.without_member(fleet, name, until, _source(folder)))
    shutil.rmtree(_member(folder, name))
    text = f"{name}: revoked in {_source(folder)}; now run `fleet render` and restart every router"
    return [Standing(role, name, "revoked", str(until), text)]


def render_all(folder: Path) -> list[Standing]:
    """Write every member's Zenoh configurations. Raises DocumentError, UserError and OSError."""
    fleet = description.load_fleet(folder)
    bases = share_path("config", "zenoh")
    router_base, session_base = (load_base(bases / file) for file in (ROUTER_FILE, SESSION_FILE))
    for _, name in fleet.members():
        ca.read_certificate(_member(folder, name) / CERTIFICATE_FILE)
    configurations: dict[Path, dict[str, Any]] = {}
    for role, name in fleet.members():
        place = _member(folder, name)
        make_router = fleet_router if role == "routers" else machine_router
        configurations[place / ROUTER_FILE] = make_router(router_base, fleet, name)
        if role != "routers":
            configurations[place / SESSION_FILE] = session(session_base, fleet, name)
    texts = {path: json.dumps(one, indent=2) for path, one in configurations.items()}
    description.write_files({path: (text.encode(), 0o644) for path, text in texts.items()})
    return [_standing(folder, role, name) for role, name in (("authority", ""), *fleet.members())]


def _issue(folder: Path, fleet: Fleet, name: str) -> dict[str, tuple[bytes, int]]:
    """Return the files of a member's new identity with their modes."""
    authority = ca.load_authority(folder / "authority", _ask_passphrase, _now())
    hosts = fleet.routers[name].hosts if name in fleet.routers else ()
    key, certificate = authority.issue(name, _now(), MEMBER_LIFETIME, hosts)
    return {
        CA_FILE: (authority.certificate_pem, 0o644),
        CERTIFICATE_FILE: (certificate, 0o644),
        KEY_FILE: (key, 0o600),
    }


def _standing(folder: Path, role: str, name: str) -> Standing:
    """Return how a member's certificate stands, without a name the authority's."""
    path = _member(folder, name) / CERTIFICATE_FILE if name else folder / "authority" / ca.CERTIFICATE_FILE
    until = ca.valid_until(ca.read_certificate(path))
    left = until - _now()
    state, remark = "valid", ""
    if left.total_seconds() <= 0:
        state, remark = "expired", " (EXPIRED)"
    elif left < RENEW_BEFORE:
        state, remark = "renew", ", renew it"
    text, expires = f"{role}.{name}" if name else role, f"{until:%Y-%m-%d}"
    return Standing(role, name, state, expires, f"{text}: expires {expires}{remark}")


def _ask_passphrase() -> bytes:
    if passphrase := os.environ.get(PASSPHRASE_VARIABLE):
        return passphrase.encode()
    return _ask("Passphrase of the authority's key: ").encode()


def _new_passphrase() -> bytes:
    passphrase = _ask("New passphrase for the authority's key: ")
    if not passphrase or _ask("The same again: ") != passphrase:
        raise UserError("found an empty passphrase or two different ones, expected the same passphrase twice")
    return passphrase.encode()


def _ask(prompt: str) -> str:
    if not sys.stdin.isatty():
        raise UserError(
            f"found no terminal to ask for the authority's passphrase, expected it in {PASSPHRASE_VARIABLE}"
        )
    try:
        return getpass.getpass(prompt)
    except EOFError as error:
        raise UserError("found end of input, expected the authority's passphrase") from error


def _source(folder: Path) -> str:
    return str(folder / description.FILE_NAME)


def _member(folder: Path, name: str) -> Path:
    return folder / "members" / name


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


# -- Zenoh configurations: the package's defaults with keys, endpoints and access control list -----------


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
    dials = [endpoint for router in earlier for endpoint in fleet.routers[router].endpoints]
    listens = [f"tls/[::]:{port}" for port in fleet.routers[name].ports]
    config = _secured(base, fleet, name, mode="router", dials=dials, listens=listens)
    config["transport"]["link"]["tls"] |= {
        "listen_private_key": _path(fleet, name, KEY_FILE),
        "listen_certificate": _path(fleet, name, CERTIFICATE_FILE),
    }
    config["access_control"] = access_control(fleet)
    _silence(config)
    return config


def machine_router(base: dict[str, Any], fleet: Fleet, name: str) -> dict[str, Any]:
    """Return the configuration of the router of a member's machine: local nodes need no keys to reach it."""
    config = _secured(base, fleet, name, mode="router", dials=_endpoints(fleet), listens=[LOCAL_ENDPOINT])
    config["transport"]["link"]["protocols"] = ["tcp", "tls"]
    return config


def session(base: dict[str, Any], fleet: Fleet, name: str) -> dict[str, Any]:
    """Return the configuration of a member's only ROS process, which dials the fleet's routers itself."""
    # A client: no peer may talk past the routers.
    config = _secured(base, fleet, name, mode="client", dials=_endpoints(fleet), listens=[])
    _silence(config)
    return config


def _secured(
    base: dict[str, Any], fleet: Fleet, name: str, *, mode: str, dials: list[str], listens: list[str]
) -> dict[str, Any]:
    config = copy.deepcopy(base) | {"mode": mode}
    for section, endpoints in (("connect", dials), ("listen", listens)):
        config.setdefault(section, {})["endpoints"] = endpoints
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
