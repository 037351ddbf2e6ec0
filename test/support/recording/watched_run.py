# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A simulated robot with its command watchdog, and what a recorder hears of both."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from builtin_interfaces.msg import Time

from remote_inference.base.contract.contract import Contract
from remote_inference.base.wire.commands import make_command_writer
from remote_inference.msg import WatchdogState
from support.builders import make_config
from support.recording.decision_bag import NS, OWN, Message, SimulatedRecorder, write
from support.robot.watched_world import WATCHDOG, WatchedWorld

REPORT_S = 0.05  # between two reports of the watchdog


class _World(WatchedWorld):
    """Keeps the watchdog's stops."""

    stop_messages: list[Message]

    def _stop_controllers(self) -> None:
        super()._stop_controllers()
        for topic, stop in self.stops.items():
            if stop.action is not None:
                (sink,) = (arm.sink for arm in self.arms if arm.sink.topic == topic)
                message = make_command_writer(sink, self.contract).message(
                    stop.action[None], Time(), stop.late_ns
                )
                self.stop_messages.append((self.now_ns, f"{NS}/{topic}", message))


class WatchedRun:
    """A robot whose control thread hung for a second, so that its watchdog stopped the controllers."""

    def __init__(self, contract: Contract) -> None:
        self._world = _World(make_config(), contract=contract)
        self._world.stop_messages = []
        self._reports: list[Message] = []
        self._run(1.5)
        self._world.stand_still(1.0, "stuck")
        self._run(1.5)
        self._world.resume()
        self._run(1.0)
        self.stops = list(self._world.stop_messages)  # as they were sent

    def _run(self, seconds: float) -> None:
        for _ in range(round(seconds / REPORT_S)):
            self._world.run(REPORT_S)
            watchdog = self._world.watchdog
            assert watchdog is not None, "the world is watched"
            said = WatchdogState(state=int(watchdog.state), trips=watchdog.trips, instance=WATCHDOG)
            self._reports.append((self._world.now_ns, f"{OWN}/watchdog", said))

    def write(self, path: Path, *, others: Iterable[Message] = (), with_reports: bool = True) -> Path:
        """Write the bag. others: messages besides. with_reports: the watchdog's word was recorded."""
        found = [*SimulatedRecorder(self._world).take(), *self.stops, *others]
        found += self._reports if with_reports else []
        return write(path, sorted(found, key=lambda message: message[0]))
