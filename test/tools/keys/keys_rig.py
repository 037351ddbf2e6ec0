# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A fleet on loopback: real keys, TLS routers and Zenoh sessions with rmw_zenoh's keys and tokens."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import zenoh

from remote_inference.tools.keys import authority as ca, description, verbs
from support.free_ports import free_port
from support.waiting import wait_until

DEADLINE_S = 20.0
HASH = "RIHS01_" + "0" * 64
QOS = "1:1:1,1:,:,:,,"


def topic(name: str, kind: str = "msg") -> str:
    """Return the Zenoh key of a topic or service of ROS domain 0."""
    return f"0/{name}/remote_inference::{kind}::dds_::Some_/{HASH}"


def token(kind: str, node: str, name: str | None = None) -> str:
    """Return the liveliness token of a node or of one of its endpoints."""
    namespace, _, node_name = node.rpartition("/")
    mangled = (namespace or "/").replace("/", "%")
    head = f"@ros2_lv/0/c0ffee/0/1/{kind}/%/{mangled}/{node_name}"
    return (
        head
        if name is None
        else f"{head}/{name.replace('/', '%')}/remote_inference::msg::dds_::Some_/{HASH}/{QOS}"
    )


class FleetRig:
    """One fleet's folder, and its running routers and sessions; close() ends them all."""

    def __init__(self, folder: Path, routers: tuple[str, ...] = ("hub",)) -> None:
        """Issue certificates: gpu_1 serves robot_1 and robot_2, gpu_2 serves robot_10."""
        self.folder = folder
        self.routers: list[zenoh.Session] = []
        self._open: list[zenoh.Session] = []
        verbs.init(folder)
        fleet = description.load_fleet(folder)
        members = fleet.model_copy(update={"directory": str(folder / "members")})
        description.save_fleet(folder, members)
        self.ports = {router: free_port() for router in routers}
        for router, port in self.ports.items():
            verbs.add(folder, "routers", router, {"endpoints": (f"tls/localhost:{port}",)})
        for server in ("gpu_1", "gpu_2"):
            verbs.add(folder, "servers", server, {})
        for robot, server in (("robot_1", "gpu_1"), ("robot_2", "gpu_1"), ("robot_10", "gpu_2")):
            verbs.add(folder, "robots", robot, {"servers": (server,)})
        verbs.add(folder, "trainers", "trainer_1", {"servers": ("gpu_1",)})
        verbs.add(folder, "operators", "alice", {})
        verbs.render_all(folder)

    def configuration(self, name: str, file: str = verbs.SESSION_FILE) -> dict[str, Any]:
        """Return a rendered configuration."""
        content: dict[str, Any] = json.loads((self.folder / "members" / name / file).read_text())
        return content

    def start_router(
        self, name: str = "hub", change: Callable[[dict[str, Any]], None] | None = None
    ) -> zenoh.Session:
        """Run a router of the fleet on loopback. change: alters the router's configuration."""
        configuration = self.configuration(name, verbs.ROUTER_FILE)
        configuration["listen"]["endpoints"] = [f"tls/127.0.0.1:{self.ports[name]}"]
        if change:
            change(configuration)
        return self.start(configuration)

    def connect(self, name: str, mode: str = "client", router: str = "hub") -> zenoh.Session:
        """Open a member's session to one router."""
        configuration = self.configuration(name)
        configuration["mode"] = mode
        configuration["connect"]["endpoints"] = [f"tls/localhost:{self.ports[router]}"]
        session = self.start(configuration)
        wait_until(lambda: list(session.info.routers_zid()), f"{name} connected")
        return session

    def start(self, configuration: dict[str, Any]) -> zenoh.Session:
        """Open a session. Raises ZError."""
        session = zenoh.open(zenoh.Config.from_json5(json.dumps(configuration)))
        self._open.append(session)
        return session

    def stop(self, session: zenoh.Session) -> None:
        """Close one session now."""
        self._open.remove(session)
        session.close()

    def close_sessions(self, keep: int = 0) -> None:
        """Close all sessions but the first ones."""
        Inbox.alive.clear()
        while len(self._open) > keep:
            self._open.pop().close()

    def reissue(self, name: str, authority: ca.Authority, now: datetime.datetime, seconds: float) -> None:
        """Exchange a member's key and certificate for one of another authority or lifetime."""
        lifetime = datetime.timedelta(seconds=seconds)
        key, certificate = authority.issue(name, now, lifetime)
        place = self.folder / "members" / name
        (place / verbs.KEY_FILE).write_bytes(key)
        (place / verbs.CERTIFICATE_FILE).write_bytes(certificate)

    def authority(self) -> ca.Authority:
        """Return the fleet's authority."""
        return ca.load_authority(self.folder / "authority", lambda: b"", now())


class Inbox:
    """What a session's subscribers, queryables and token watches received, in order."""

    alive: ClassVar[list[Inbox]] = []  # a dropped token or queryable is undeclared

    def __init__(self, session: zenoh.Session) -> None:
        self.alive.append(self)
        self.session = session
        self.got: list[str] = []
        self._kept: list[Any] = []

    def subscribe(self, *keys: str) -> Inbox:
        for key in keys:
            self._kept.append(self.session.declare_subscriber(key, self._on_sample))
        return self

    def watch_tokens(self, key: str = "@ros2_lv/0/**") -> Inbox:
        liveliness = self.session.liveliness()
        self._kept.append(liveliness.declare_subscriber(key, self._on_token, history=True))
        return self

    def serve(self, *keys: str, answer: str = "ok") -> Inbox:
        def reply(query: zenoh.Query) -> None:
            self.got.append(f"{query.key_expr} {query.payload.to_string() if query.payload else ''}".strip())
            query.reply(query.key_expr, answer)

        for key in keys:
            self._kept.append(self.session.declare_queryable(key, reply, complete=True))
        return self

    def show(self, *tokens: str) -> Inbox:
        for one in tokens:
            self._kept.append(self.session.liveliness().declare_token(one))
        return self

    def wait_for(self, item: str) -> list[str]:
        """Wait for an item; return all items received until then."""
        wait_until(lambda: item in self.got, f"{item}; got {self.got}")
        return self.got[: self.got.index(item) + 1]

    def _on_sample(self, sample: zenoh.Sample) -> None:
        self.got.append(f"{sample.key_expr} {sample.payload.to_string()}".strip())

    def _on_token(self, sample: zenoh.Sample) -> None:
        gone = "" if sample.kind == zenoh.SampleKind.PUT else "gone "
        self.got.append(f"{gone}{sample.key_expr}")


def put_until(session: zenoh.Session, key: str, text: str, inbox: Inbox) -> list[str]:
    """Publish until the text arrives, as a subscription takes time; return all items received until then."""
    item = f"{key} {text}"

    def arrived() -> bool:
        session.put(key, text)
        return item in inbox.got

    wait_until(arrived, f"{item}; got {inbox.got}")
    return inbox.wait_for(item)


def ask(
    session: zenoh.Session,
    key: str,
    payload: str = "",
    timeout_s: float = 2.0,
    target: zenoh.QueryTarget = zenoh.QueryTarget.ALL_COMPLETE,  # rmw_zenoh's
) -> list[str]:
    """Call a service; return all answers."""
    replies = session.get(key, payload=payload, timeout=timeout_s, target=target)
    return [reply.ok.payload.to_string() for reply in replies if reply.ok]


def ask_until(session: zenoh.Session, key: str, payload: str = "") -> list[str]:
    """Call a service until something answers; return all answers."""
    answers: list[str] = []

    def answered() -> bool:
        answers[:] = ask(session, key, payload)
        return bool(answers)

    wait_until(answered, f"an answer to {key}")
    return answers


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
