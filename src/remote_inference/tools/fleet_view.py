# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots and servers as an operator sees them: tables and plain data, made of their latched messages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from rclpy.subscription import Subscription

from remote_inference.base.clients.operator_client import OperatorClient
from remote_inference.base.wire.qos import LATCHED_QOS, STATE_TOPIC
from remote_inference.msg import ClientState, ServerStatus
from remote_inference.tools.tables import Table, print_table

ROBOT_COLUMNS = ("robot", "state", "server", "p50 ms", "p95 ms", "left s", "guard")
SERVER_COLUMNS = ("server", "state", "policy", "sessions", "load", "ms", "requests", "errors")
NO_ANSWER = "no state"  # in the graph, without a message yet
# The fields of each message that JSON does not have, or has in another form.
ROBOT_REST = (
    *("header", "state", "guard_names", "guard_counts"),
    *("shadow_names", "shadow_error_mean", "shadow_error_max"),
)
SERVER_REST = (
    *("header", "server", "schema_version_min", "schema_version_max", "manifest_digest", "weights_version"),
    *("action_names", "state_names", "image_features"),
)


def robot_as_json(namespace: str, state: Any | None) -> dict[str, Any]:
    """Return a robot's ClientState as plain data; without a message only `robot`."""
    if state is None:
        return {"robot": namespace}
    guard = dict(zip(state.guard_names, map(int, state.guard_counts), strict=False))
    return {
        "robot": namespace,
        **_plain(state, ROBOT_REST),
        "guard": guard,
        "shadow_error": {name: {"mean": mean, "max": most} for name, mean, most in _shadow_errors(state)},
    }


def server_as_json(name: str, status: Any | None) -> dict[str, Any]:
    """Return a server's ServerStatus as plain data; without a message only `server`."""
    return {"server": name} if status is None else {"server": name, **_plain(status, SERVER_REST)}


def describe_robot(namespace: str, state: Any) -> Table:
    """Return one robot's state, a line for each thing that an operator asks for."""
    guard = [
        f"{name} {count}" for name, count in zip(state.guard_names, state.guard_counts, strict=False) if count
    ]
    opened = "once" if state.session_epoch == 1 else f"{state.session_epoch} times"
    errors = (f"{name} {mean:.4f} (max {largest:.4f})" for name, mean, largest in _shadow_errors(state))
    distances = f"{state.shadow_ticks} ticks, mean distance from the arm: {', '.join(errors)}"
    rows = {
        "robot": namespace,
        "state": state_of(state),
        # Not beside the modes: a chunk that was merged has paused nobody.
        "last change": f"{state.state_name}: {state.cause}" if state.cause else "",
        "server": state.server or "none",
        "session": f"{state.session_id}, opened {opened}" if state.session_id else "none",
        "policy": state.policy_version or "none",
        "episode": f"{state.episode_id}, task {state.task!r}",
        "queue": f"{state.queue_length} actions, {state.playback_left_s:.2f} s",
        "latency": f"p50 {show_number(state.latency_p50_ms)} ms, p95 {show_number(state.latency_p95_ms)} ms",
        "requests": f"{state.requests}, {state.chunks_merged} chunks merged, {state.chunks_dropped} dropped, "
        f"{state.chunks_rejected} rejected, {state.request_timeouts} timeouts",
        "reconnects": str(state.reconnects),
        "sensors": f"waiting for {', '.join(state.stale_sources)}" if state.stale_sources else "fresh",
        "gone": ", ".join(state.lost_publishers),
        "guard": ", ".join(guard) or "no intervention",
        "control": f"{state.control_ticks} ticks, {state.late_ticks} late",
        **troubles_of(state),
        "shadow": distances if state.shadow else "",
    }
    return Table("", ("", " "), [row for row in rows.items() if row[1]])


def troubles_of(state: Any) -> dict[str, str]:
    """Return what keeps a robot from its work, by a label; empty: nothing of the kind does."""
    return {
        "no set fits": state.apart,
        "not believed": state.implausible,
        "stopped by": state.stop,
        "paused": "" if state.stop or not state.paused else state.pause_cause or "yes",
        "fault injected": state.injected_fault,
    }


def state_of(state: Any) -> str:
    """Return the state's name, with its modes: stopped, paused, taken over, shadow, fault injected."""
    marks = {
        "fault injected": state.injected_fault,
        "shadow": state.shadow,
        "taken over": state.taken_over,
        "stopped": state.stop,
        "paused": state.paused and not state.stop,
    }
    return ", ".join([str(state.state_name), *(mark for mark, is_set in marks.items() if is_set)])


def _shadow_errors(state: Any) -> Iterator[tuple[str, float, float]]:
    """Yield joint, mean and largest distance of its would-be commands."""
    return zip(state.shadow_names, state.shadow_error_mean, state.shadow_error_max, strict=False)


def _table(
    columns: tuple[str, ...], members: Mapping[str, Any], show: Callable[[Any], tuple[str, ...]]
) -> Table:
    """Return one row per member, by name. show: returns the cells beside the name."""
    silent = (NO_ANSWER, *[""] * (len(columns) - 2))
    rows = [(name, *(silent if one is None else show(one))) for name, one in sorted(members.items())]
    return Table("", columns, rows, columns[3:])


def _show_robot(state: Any) -> tuple[str, ...]:
    latencies = map(show_number, (state.latency_p50_ms, state.latency_p95_ms))
    interventions = str(sum(map(int, state.guard_counts)))
    return (state_of(state), state.server, *latencies, f"{state.playback_left_s:.2f}", interventions)


def _show_server(status: Any) -> tuple[str, ...]:
    accepts = status.lifecycle_state if status.accepting else f"{status.lifecycle_state}, refuses"
    sessions = f"{len(status.sessions)}/{status.max_sessions}"
    inference, counts = show_number(status.inference_ms), (str(status.requests), str(status.errors))
    return (accepts, status.policy_name, sessions, f"{status.load:.0%}", inference, *counts)


def _plain(message: Any, rest: tuple[str, ...]) -> dict[str, Any]:
    values = {name: getattr(message, name) for name in message.get_fields_and_field_types()}
    return {
        name: value if isinstance(value, (bool, int, float, str)) else [str(item) for item in value]
        for name, value in values.items()
        if name not in rest
    }


def show_number(value: float) -> str:
    """Return a latency as text, "-" for NaN: none is known."""
    return "-" if math.isnan(value) else f"{value:.1f}"


# -- The robots and servers of the graph, each with its newest latched state -----------------------------


class FleetWatch:
    """Subscribes to robots and servers that appear, and forgets those that leave."""

    def __init__(self, ros: OperatorClient) -> None:
        self._ros = ros
        self.robots: dict[str, ClientState | None] = {}  # by namespace; None: no message yet
        self.servers: dict[str, ServerStatus | None] = {}  # by full name
        self._subscriptions: dict[str, Subscription] = {}

    def settle(self, timeout_s: float) -> None:
        """Wait until the graph is known and each member has sent a message, or for the whole timeout."""
        self._ros.settle(timeout_s)
        self.update()
        # Those without a message, which is None, are shown as silent.
        self._ros.spin_until(lambda: all((*self.robots.values(), *self.servers.values())), timeout_s)

    def update(self) -> None:
        """Subscribe to the graph's present members, and forget those that have left."""
        self._follow(self.robots, self._ros.find_robots(), ClientState, f"/{STATE_TOPIC}")
        self._follow(self.servers, self._ros.find_servers(), ServerStatus, "/status")

    def refresh(self, period_s: float) -> None:
        """Receive messages for a time, then update the members."""
        self._ros.spin(period_s)
        self.update()

    def render(self) -> Any:
        """Return the tables for a terminal."""
        from rich.console import Group  # noqa: PLC0415  only where something is drawn
        from rich.text import Text  # noqa: PLC0415

        looked = Text(f"looked for {self._ros.discovery_s:.0f} s", style="dim")
        return Group(*(table.to_rich() for table in self._tables().values()), looked)

    def as_json(self) -> dict[str, Any]:
        return {
            "looked_s": round(self._ros.discovery_s, 1),
            "robots": [robot_as_json(*robot) for robot in sorted(self.robots.items())],
            "servers": [server_as_json(*server) for server in sorted(self.servers.items())],
        }

    def print_tables(self) -> None:
        """Print the robots and servers, or a line when there are none, and for how long was looked."""
        for name, table in self._tables().items():
            if table.rows:
                print_table(table)
            else:
                print(f"no {name}")
            print()
        print(f"looked for {self._ros.discovery_s:.1f} s", flush=True)

    def _tables(self) -> dict[str, Table]:
        robots = _table(ROBOT_COLUMNS, self.robots, _show_robot)
        return {"robots": robots, "servers": _table(SERVER_COLUMNS, self.servers, _show_server)}

    def _follow(self, known: dict[str, Any], present: list[str], kind: Any, topic: str) -> None:
        for name in known.keys() - set(present):
            self._ros.node.destroy_subscription(self._subscriptions.pop(name + topic))
            del known[name]
        for name in set(present) - known.keys():
            known[name] = None
            self._subscriptions[name + topic] = self._ros.subscribe(
                kind, name + topic, partial(known.__setitem__, name), LATCHED_QOS
            )
