# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Node `command_watchdog`: stops a robot's controllers when the robot node's control thread falls silent.

    command_watchdog --ros-args -r __ns:=/robot_1 -p contract:=belt_arm.contract.yaml

A process of its own: it shares no thread, no lock and no interpreter with what it watches.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Annotated, Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from pydantic import Field
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.task import Future
from std_msgs.msg import Header

from remote_inference.base.contract.commands.sink import CommandSink, ControllerSwitch
from remote_inference.base.contract.contract import load_contract
from remote_inference.base.contract.controller_stop import (
    STOPS,
    ControllerStop,
    Measured,
    max_stopping_s,
    may_be_sent_a_stop,
    stop_controller,
)
from remote_inference.base.nodes.diagnostics import make_status
from remote_inference.base.nodes.executors import as_task, rest
from remote_inference.base.nodes.parameters import NodeParameters, declare_parameters
from remote_inference.base.nodes.robot_logger import RobotNode, calm
from remote_inference.base.nodes.runtime import StartupError, run_node, spin
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.paths import how_to_install
from remote_inference.base.stop_signals import ignore_suspension
from remote_inference.base.wire import qos
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.commands import make_command_writers
from remote_inference.base.wire.commands.writer import CommandWriter
from remote_inference.msg import Heartbeat, WatchdogState as WatchdogMessage
from remote_inference.robot.nodes.controllers import PACKAGE, ControllerWatch
from remote_inference.robot.nodes.measured_positions import MeasuredPositions
from remote_inference.robot.watchdog import DESCRIPTIONS, LATCHED, Watchdog, WatchdogState

# -- Asks ros2_control's controller manager to switch controllers. Its messages need not be installed ----

TIMEOUT_S = 2.0  # of the switch itself, and of its answer


class SwitchClient:
    """The client of one controller manager. Raises StartupError when the messages are not installed."""

    def __init__(self, node: Node, switch: ControllerSwitch) -> None:
        try:
            self._service = import_module(f"{PACKAGE}.srv").SwitchController
        except ImportError as error:
            missing = f"watchdog_switch needs the package {PACKAGE}, which is not installed"
            advice = f"leave watchdog_switch out, or {how_to_install(PACKAGE)}"
            raise StartupError(f"contract: {missing}: {advice}") from error
        self._node = node
        self._logger = node.get_logger()
        self._switch = switch
        self._name = f"{switch.controller_manager}/switch_controller"
        self._client = node.create_client(self._service, self._name)
        self._pending: dict[Future, float] = {}  # with the time until which its answer is awaited

    def ask(self) -> None:
        """Call the service once; the answer is logged when it comes."""
        if not self._client.service_is_ready():
            self._logger.error(f"{self._name}: no such service, controllers not switched")
            return
        request = self._service.Request(
            activate_controllers=list(self._switch.activate),
            deactivate_controllers=list(self._switch.deactivate),
            strictness=self._service.Request.BEST_EFFORT,
            timeout=Duration(seconds=TIMEOUT_S).to_msg(),
        )
        future = self._client.call_async(request)
        self._pending[future] = time.monotonic() + TIMEOUT_S
        future.add_done_callback(as_task(self._node, self._finish))

    def give_up_late(self) -> None:
        """Give up the answers that are overdue."""
        now_s = time.monotonic()
        for overdue in [future for future, end_s in self._pending.items() if now_s >= end_s]:
            del self._pending[overdue]
            self._client.remove_pending_request(overdue)
            overdue.cancel()
            self._logger.error(f"{self._name}: no answer within {TIMEOUT_S:g} s")

    def _finish(self, future: Future) -> None:
        if future.cancelled():
            return
        self._pending.pop(future, None)
        answer: Any = future.result()
        if answer is not None and answer.ok:
            self._logger.warning(f"{self._name}: controllers switched")
        else:
            self._logger.error(f"{self._name}: refused, controllers not switched")


CHECK_PERIOD_S = 0.01
STATE_PERIOD_S = 0.5
SUBSCRIBERS_PERIOD_S = 0.5  # between two checks which subscribers are observers
UNSURE_S = 2 * SUBSCRIBERS_PERIOD_S  # after a trip, one that is found unsubscribed may lack its stop
LINGER_S = 3.0  # after a signal, beyond the time of the robot node's stops: it gets the signal as well
REALTIME_PRIORITY = 40  # below ros2_control's own 50: the watchdog must never delay a controller

Outlet = tuple[CommandSink, Publisher | None, CommandWriter]  # of a controller


class WatchdogConfig(NodeParameters):
    """The watchdog's parameters. How long the robot node may be silent, its heartbeats say."""

    contract: Annotated[
        str, Field(min_length=1, description="path of the contract that the robot's node was given")
    ]


class CommandWatchdog(RobotNode):
    """The node around Watchdog. Raises DocumentError and StartupError for a contract it cannot serve."""

    def __init__(self, priority: int) -> None:
        """priority: of SCHED_FIFO in force for this process, 0 for none."""
        super().__init__("command_watchdog")
        self.exit_code: int | None = None
        self.schedule = TimerSchedule()
        self._priority = priority
        self._contract = load_contract(declare_parameters(self, WatchdogConfig).contract)
        self._watchdog = Watchdog()
        self._announced = (self._watchdog.state, self._watchdog.trips)
        self._instance = random.getrandbits(64)
        self._stops: dict[str, ControllerStop] = {}  # of the last trip, by topic
        self._left: dict[str, int] = {}  # stops that are still to be sent to a controller that got them late
        self._tripped_s = 0.0  # when it tripped last
        self._positions = MeasuredPositions(self, self._contract)
        # No publisher where nothing is ever sent: some controllers take nothing from a topic that has two.
        self._controllers: list[Outlet] = []
        try:
            writers = make_command_writers(self._contract)
        except WireError as error:
            raise StartupError(f"contract: {error}") from error
        for sink, writer in zip(self._contract.commands, writers, strict=True):
            if sink.action is not None:  # it keeps its last goal, as a position controller does
                continue
            sends = may_be_sent_a_stop(self._contract, sink)
            kind = writer.message_type
            publisher = self.create_publisher(kind, sink.topic, qos.COMMAND_QOS) if sends else None
            self._controllers.append((sink, publisher, writer))
        # A zero waits for no measurements that are to be read for a hold.
        self._controllers.sort(key=lambda outlet: outlet[0].interface.takes_horizon)
        outlets = [(sink, publisher) for sink, publisher, _ in self._controllers if publisher is not None]
        self._subscribers = ControllerWatch(self, outlets)
        switch = self._contract.watchdog_switch
        self._switch = SwitchClient(self, switch) if switch else None
        self._state_publisher = self.create_publisher(WatchdogMessage, qos.WATCHDOG_TOPIC, qos.LATCHED_QOS)
        self._diagnostics = self.create_publisher(DiagnosticArray, qos.DIAGNOSTICS_TOPIC, qos.DIAGNOSTICS_QOS)
        self.create_subscription(Heartbeat, qos.HEARTBEAT_TOPIC, self._on_heartbeat, qos.HEARTBEAT_QOS)
        self.schedule.every(CHECK_PERIOD_S, self._check)
        self.schedule.every(STATE_PERIOD_S, self._report)
        self.schedule.every(SUBSCRIBERS_PERIOD_S, self._subscribers.update)
        self._log_limits()

    def close(self) -> None:
        """Watch on while the robot node still commands, for a moment: both were told to end.

        So it does while a stop of a node that has died could not be given yet.
        """
        deadline_s = time.monotonic() + LINGER_S + max_stopping_s(self._contract.period_s)
        while (self._watchdog.armed or self._owes_stops) and time.monotonic() < deadline_s:
            spin(self, CHECK_PERIOD_S)
        if self._owes_stops:
            self.get_logger().error(f"ends although not everything is stopped: {'; '.join(self._outcomes())}")
        if self._watchdog.armed:
            self.get_logger().error("ends while the robot node commands: nobody watches it from here on")
        if self._switch is not None:
            rest(self)

    @property
    def _owes_stops(self) -> bool:
        if not self._watchdog.silent:
            return False
        return any(stop.failed for stop in self._stops.values()) or any(self._left.values())

    def _log_limits(self) -> None:
        logger = self.get_logger()
        if not self._priority:
            refused = f"SCHED_FIFO {REALTIME_PRIORITY} is not permitted (see `ulimit -r`)"
            follows = "under heavy load the watchdog may act late"
            logger.warning(f"no real-time priority: {refused}; {follows}")
        known = dict.fromkeys(self._contract.actions.names, Measured(0.0))
        for sink, _, _ in self._controllers:
            stop = stop_controller(self._contract, sink, known)
            if stop.action is None:
                logger.info(f"{sink.topic}: in silence {stop.outcome}")
        for sink in self._contract.action_commands:
            logger.info(f"{sink.destination}: in silence nothing sent, it keeps its last goal")

    # -- executor's thread ---------------------------------------------------------------------------------

    def _on_heartbeat(self, beat: Heartbeat) -> None:
        try:
            self._watchdog.receive(beat.instance, beat.phase, beat.deadline_s, time.monotonic_ns())
        except ValueError as error:
            calm(self).error(f"{qos.HEARTBEAT_TOPIC}: {error}; ignored")
        self._act()

    def _check(self) -> None:
        self._act()
        if self._switch is not None:
            self._switch.give_up_late()

    def _act(self) -> None:
        must_stop = self._watchdog.check(time.monotonic_ns())
        if self._watchdog.trips != self._announced[1]:
            self._stops.clear()
            self._left.clear()
            self._tripped_s = time.monotonic()
        if must_stop or self._watchdog.silent:
            self._stop_controllers(must_stop=must_stop)
        self._announce()

    def _stop_controllers(self, *, must_stop: bool) -> None:
        """Send each controller its stop, the same each time: a hold must not follow a sinking arm.

        A stop that failed, or that nobody heard, is tried on until the robot node is back. must_stop: False
        when this is all.
        """
        late = []
        is_unsure = time.monotonic() - self._tripped_s <= UNSURE_S
        for outlet in self._controllers:
            topic = outlet[0].topic
            stop = before = self._stops.get(topic)
            if is_unsure and stop is not None and not stop.failed:
                stop = before = self._stops[topic] = self._doubt(stop, topic)
            if stop is None or stop.failed:
                stop = self._stops[topic] = self._find_stop(outlet[0])
                if before is not None and not stop.failed:
                    self._left[topic] = STOPS
            if must_stop or stop.failed or self._left.get(topic):
                self._left[topic] = max(0, self._left.get(topic, 0) - 1)
                self._send(stop, outlet)
            if before is not None and before.failed and not self._stops[topic].failed:
                late.append(f"{topic}: {stop.outcome}")
        if late:
            self._report()
            self.get_logger().error(f"stopped later: {'; '.join(late)}")

    def _find_stop(self, sink: CommandSink) -> ControllerStop:
        # Sent though nobody hears it: the graph may know less than the controller hears.
        measured = self._positions.fresh() if sink.interface.takes_horizon else {}
        return self._doubt(stop_controller(self._contract, sink, measured), sink.topic)

    def _doubt(self, stop: ControllerStop, topic: str) -> ControllerStop:
        """Return a stop, as failed if no controller hears it."""
        if stop.action is None or topic not in self._subscribers.unsubscribed():
            return stop
        return replace(stop, outcome=f"{stop.outcome}, which no controller hears", failed=True)

    def _send(self, stop: ControllerStop, outlet: Outlet) -> None:
        """Send one controller its stop; a failure keeps no other from its own."""
        sink, publisher, writer = outlet
        if stop.action is None or publisher is None:
            return
        try:
            stamp = self.get_clock().now().to_msg()
            publisher.publish(writer.message(stop.action[None], stamp, stop.late_ns))
        except Exception as error:  # of the middleware, or of a writer of somebody's own
            outcome = f"not stopped, its message cannot be sent: {type(error).__name__}: {error}"
            self._stops[sink.topic] = ControllerStop(sink.destination, None, outcome, failed=True)

    def _announce(self) -> None:
        """Log and publish a change of the state or a new trip."""
        watchdog = self._watchdog
        now = (watchdog.state, watchdog.trips)
        if now == self._announced:
            return
        before, self._announced = self._announced, now
        self._report()  # before any line is logged: a console may be slow
        if watchdog.trips > before[1]:
            if self._switch is not None:
                self._switch.ask()
            outcomes = "; ".join(self._outcomes())
            self.get_logger().error(f"stopped the controllers: {watchdog.cause}; {outcomes}")
        elif WatchdogState.DISARMED not in {before[0], watchdog.state}:  # not at each pause and resume
            self.get_logger().info(f"{watchdog.state.name}: {DESCRIPTIONS[watchdog.state]}")

    def _outcomes(self) -> list[str]:
        return [f"{stop.topic}: {stop.outcome}" for stop in self._stops.values()]

    def _report(self) -> None:
        watchdog = self._watchdog
        stamp = self.get_clock().now().to_msg()
        message = WatchdogMessage(
            header=Header(stamp=stamp),
            state=int(watchdog.state),
            state_name=watchdog.state.name,
            cause=watchdog.cause,
            trips=watchdog.trips,
            stops=self._outcomes(),
            realtime_priority=self._priority,
            instance=self._instance,
        )
        self._state_publisher.publish(message)
        level = DiagnosticStatus.ERROR if watchdog.state in LATCHED else DiagnosticStatus.OK
        text = f"{watchdog.state.name}: {watchdog.cause}"
        values = {"trips": str(watchdog.trips), "realtime_priority": str(self._priority)}
        status = make_status(level, text, self.get_namespace(), values)
        status.name = f"{self.get_fully_qualified_name().lstrip('/')}: command watchdog"
        self._diagnostics.publish(DiagnosticArray(header=Header(stamp=stamp), status=[status]))


def request_realtime() -> int:
    """Ask for real-time scheduling of this process; return its priority, 0 when it is not permitted.

    Call it before the middleware starts its threads: they inherit the scheduling.
    """
    if not hasattr(os, "sched_setscheduler"):  # only on Linux
        return 0
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(REALTIME_PRIORITY))
    except OSError:
        return 0
    return REALTIME_PRIORITY


def main(args: list[str] | None = None) -> int:
    """Watch until a signal; return the exit code.

    Ctrl-Z in the terminal of a launch suspends the robot's node, not its watchdog, which then stops the arm.
    """
    ignore_suspension()
    return run_node(partial(CommandWatchdog, request_realtime()), args)
