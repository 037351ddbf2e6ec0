# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The wire of fleet.py: rmw_zenoh's keys and attachments, routers, with and without TLS."""

from __future__ import annotations

import datetime
import itertools
import json
import secrets
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from subprocess import Popen
from typing import Any

import zenoh

sys.path.append(str(Path(__file__).parents[1] / "test"))

from remote_inference.base.exchange import in_namespace
from remote_inference.base.paths import share_path
from remote_inference.srv import CloseSession, GetStatus, OpenSession
from remote_inference.tools.keys import authority as ca, description, verbs
from remote_inference.tools.keys.description import write_folder
from support.free_ports import free_port
from support.transport.engine import ROUTER, SESSION, configuration, endpoints, process

SERVICES = {"get_status": GetStatus, "open_session": OpenSession, "close_session": CloseSession}
POLL_S = 0.1  # longest wait for a message before a process looks whether it shall end
ROUTERS = ("router_a", "router_b")
SERVER_WAIT = {"transport/link/tx/queue/congestion_control/drop/wait_before_drop": "20000"}  # us, bringup's


@lru_cache(maxsize=8192)
def key(name: str, kind: str, type_name: str) -> str:
    """Return the key of a topic or service in ROS domain 0. kind: msg or srv."""
    generated = json.loads(share_path(kind, f"{type_name}.json").read_text())
    hashes = {entry["type_name"]: entry["hash_string"] for entry in generated["type_hashes"]}
    type_hash = hashes[f"remote_inference/{kind}/{type_name}"]
    return f"0/{name.strip('/')}/remote_inference::{kind}::dds_::{type_name}_/{type_hash}"


def topic_key(namespace: str, topic: str, type_name: str) -> str:
    return key(in_namespace(namespace, topic), "msg", type_name)


class Attachments:
    """What rmw_zenoh attaches to each message: a number, the time of sending [ns] and the endpoint's id."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._endpoint = bytes([16]) + secrets.token_bytes(16)

    def next(self) -> bytes:
        return struct.pack("<qq", next(self._numbers), time.time_ns()) + self._endpoint


@dataclass(frozen=True)
class Link:
    """How members reach the routers: picklable, for the processes of robots and servers."""

    ports: tuple[int, ...]
    members: str = ""  # folder of the rendered members; empty: without TLS

    def open(self, name: str, first_router: int, **settings: str) -> zenoh.Session:
        """Open a member's session, as a client of one router; it goes to the other when that one dies."""
        ports = self.ports[first_router:] + self.ports[:first_router]
        if not self.members:
            settings |= {"mode": '"client"', "connect/endpoints": endpoints(*ports)}
            return zenoh.open(configuration(SESSION, settings))
        dialled = json.dumps([f"tls/localhost:{port}" for port in ports])
        file = Path(self.members, name, verbs.SESSION_FILE)
        return zenoh.open(configuration(file, {**settings, "connect/endpoints": dialled}))


def make_keys(folder: Path, servers: Sequence[str], listed: Sequence[Sequence[str]]) -> None:
    """Make a fleet's authority, certificates and access rules. listed: the servers of each robot.

    As `remote-inference fleet` does, but all members at once: one by one, each reads those before it.
    """
    verbs.init(folder)
    fleet = description.Fleet(
        directory=str(folder / "members"),
        routers={name: description.Router(endpoints=(f"tls/localhost:{free_port()}",)) for name in ROUTERS},
        servers=tuple(server.strip("/") for server in servers),
        robots={
            f"robot_{index}": description.Assigned(servers=tuple(name.strip("/") for name in names))
            for index, names in enumerate(listed)
        },
    )
    now = datetime.datetime.now(datetime.timezone.utc)
    authority = ca.load_authority(folder / "authority", lambda: b"", now)
    for _, name in fleet.members():
        hosts = fleet.routers[name].hosts if name in fleet.routers else ()
        key, certificate = authority.issue(name, now, datetime.timedelta(days=1), hosts)
        files = {
            verbs.CA_FILE: (authority.certificate_pem, 0o644),
            verbs.CERTIFICATE_FILE: (certificate, 0o644),
            verbs.KEY_FILE: (key, 0o600),
        }
        write_folder(folder / "members" / name, files)
    description.save_fleet(folder, fleet)
    verbs.render_all(folder)


@contextmanager
def routers(keys: Path | None) -> Iterator[tuple[Link, list[Popen[Any]]]]:
    """Run two meshed routers in processes of their own. keys: of `make_keys`; None: without TLS."""
    if keys is None:
        first, second = ports = (free_port(), free_port())
        places: tuple[tuple[Path, str, str], ...] = (
            (ROUTER, endpoints(first), "[]"),
            (ROUTER, endpoints(second), endpoints(first)),
        )
    else:
        fleet = description.load_fleet(keys)
        ports = tuple(fleet.routers[name].ports[0] for name in ROUTERS)
        listen = [json.dumps([f"tls/127.0.0.1:{port}"]) for port in ports]
        dial = ["[]", json.dumps([f"tls/localhost:{ports[0]}"])]
        files = [keys / "members" / name / verbs.ROUTER_FILE for name in ROUTERS]
        places = tuple(zip(files, listen, dial, strict=True))
    with ExitStack() as stack:
        started = [
            stack.enter_context(process(file, **{"listen/endpoints": heard, "connect/endpoints": dialled}))
            for file, heard, dialled in places
        ]
        yield Link(tuple(ports), str(keys / "members") if keys else ""), started
