# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robots and servers of the graph, each with its newest latched state."""

from __future__ import annotations

from functools import partial
from typing import Any

from rclpy.subscription import Subscription

from remote_inference.base.clients.operator_client import OperatorClient, OperatorError
from remote_inference.base.wire.qos import LATCHED_QOS, STATE_TOPIC
from remote_inference.msg import ClientState, ServerStatus
from remote_inference.tools import fleet_view
from remote_inference.tools.tables import Table, print_table


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
        try:
            self._ros.wait_for(self._has_all_states, "states", timeout_s)
        except OperatorError:
            return  # shown as silent

    def update(self) -> None:
        """Subscribe to the graph's present members, and forget those that have left."""
        self._follow(self.robots, self._ros.find_robots(), ClientState, f"/{STATE_TOPIC}")
        self._follow(self.servers, self._ros.find_servers(), ServerStatus, "/status")

    def refresh(self, period_s: float) -> None:
        """Receive messages for a time, then update the members."""
        self._ros.spin(period_s)
        self.update()

    def draw(self, period_s: float) -> None:
        """Draw the tables on the terminal without end."""
        from rich.console import Group  # noqa: PLC0415  only where something is drawn
        from rich.live import Live  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        with Live(screen=True, auto_refresh=False) as live:
            while True:
                looked = Text(f"looked for {self._ros.discovery_s:.0f} s", style="dim")
                live.update(Group(*(table.to_rich() for table in self.tables()), looked), refresh=True)
                self.refresh(period_s)

    def as_json(self) -> dict[str, Any]:
        return {
            "looked_s": round(self._ros.discovery_s, 1),
            "robots": [fleet_view.robot_as_json(*robot) for robot in sorted(self.robots.items())],
            "servers": [fleet_view.server_as_json(*server) for server in sorted(self.servers.items())],
        }

    def tables(self) -> list[Table]:
        return [fleet_view.robot_table(self.robots), fleet_view.server_table(self.servers)]

    def print_tables(self) -> None:
        """Print the robots and servers, or a line when there are none, and for how long was looked."""
        if self.robots:
            print_table(fleet_view.robot_table(self.robots))
        else:
            print("no robots")
        print()
        if self.servers:
            print_table(fleet_view.server_table(self.servers))
        else:
            print("no servers")
        print(f"\nlooked for {self._ros.discovery_s:.1f} s", flush=True)

    def _has_all_states(self) -> bool:
        return all(message is not None for message in (*self.robots.values(), *self.servers.values()))

    def _follow(self, known: dict[str, Any], present: list[str], kind: Any, topic: str) -> None:
        for name in known.keys() - set(present):
            self._ros.node.destroy_subscription(self._subscriptions.pop(name + topic))
            del known[name]
        for name in set(present) - known.keys():
            known[name] = None
            self._subscriptions[name + topic] = self._ros.subscribe(
                kind, name + topic, partial(known.__setitem__, name), LATCHED_QOS
            )
