# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Publishes the control thread's heartbeat, and pauses the robot that the command watchdog has stopped."""

from __future__ import annotations

import random
from collections.abc import Callable

from rclpy.node import Node

from remote_inference.core.robot.safety.heartbeat import Heartbeat
from remote_inference.core.watchdog import LATCHED, Phase
from remote_inference.msg import Heartbeat as HeartbeatMessage
from remote_inference.msg import WatchdogState as WatchdogMessage
from remote_inference.wire.qos import HEARTBEAT_QOS, HEARTBEAT_TOPIC, LATCHED_QOS, WATCHDOG_TOPIC


class Heart:
    """The control thread itself publishes: a beat of any other thread would prove nothing."""

    def __init__(self, node: Node, beats: Heartbeat, pause: Callable[[str], None]) -> None:
        """pause: pauses the robot at once, on the thread that calls it, and says the cause."""
        self._logger = node.get_logger()
        self._beats = beats
        self._pause = pause
        self._instance = random.getrandbits(64)
        self._tick = 0
        self.publisher = node.create_publisher(HeartbeatMessage, HEARTBEAT_TOPIC, HEARTBEAT_QOS)
        node.create_subscription(WatchdogMessage, WATCHDOG_TOPIC, self._on_watchdog, LATCHED_QOS)

    def look_back(self, now_ns: int) -> None:
        """Pause if this tick is so late that the watchdog has stopped the arm. Call it before commanding.

        So it does if no command has left for as long.
        """
        if not self._beats.was_given_up(now_ns):
            return
        if self._beats.withholds:
            self._pause("control ticks stand still: no command could be sent in time")
        else:
            self._pause("the control thread was stuck, and the command watchdog has stopped the controllers")

    def announce(self, now_ns: int, tick: int) -> None:
        """Tell that a command is about to leave, unless that is known: the process may die in between."""
        if self._beats.idle:
            self.beat(now_ns, tick, commanding=True)

    def withhold(self, now_ns: int, tick: int) -> None:
        """Tell that a tick is done whose command did not leave."""
        self._tell(tick, self._beats.withhold(now_ns))

    def beat(self, now_ns: int, tick: int, *, commanding: bool) -> None:
        """Tell that a tick is done. commanding: whether a command is in force, of this tick or one before."""
        self._tell(tick, self._beats.beat(now_ns, commanding=commanding))

    def end(self, *, stopped: bool) -> None:
        """Publish the last beat, after the control thread. stopped: the controllers got their stops."""
        self._publish(Phase.ENDED if stopped else Phase.ABANDONED)

    def _tell(self, tick: int, phase: Phase | None) -> None:
        self._tick = tick
        if phase is not None:
            self._publish(phase)

    def _publish(self, phase: Phase) -> None:
        self.publisher.publish(
            HeartbeatMessage(
                instance=self._instance,
                tick=self._tick,
                phase=int(phase),
                deadline_s=self._beats.deadline_s,
            )
        )

    def _on_watchdog(self, message: WatchdogMessage) -> None:
        try:
            must_pause = self._beats.hear_watchdog(message.instance, message.state, message.trips)
        except ValueError as error:
            self._logger.error(f"{WATCHDOG_TOPIC}: {error}; ignored", throttle_duration_sec=1.0)
            return
        if must_pause:
            # One that is armed again by now says why that is.
            why = f": {message.cause}" if message.state in LATCHED else ""
            self._pause(f"the command watchdog has stopped the controllers{why}")
