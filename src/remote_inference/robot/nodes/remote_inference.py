# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Node `remote_inference`: drives one robot with a policy that runs on a server.

    remote_inference --ros-args -r __ns:=/robot_1 -p contract:=belt_arm.contract.yaml -p autostart:=true

Three threads: the executor deposits messages, the worker owns the engine and the network cycle, the control
thread publishes one command per period.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from pydantic import Field
from rclpy.duration import Duration

from remote_inference import __version__
from remote_inference.base.contract.contract import find_name_clash, load_contract
from remote_inference.base.nodes.diagnostics import Diagnostics
from remote_inference.base.nodes.executors import rest, spin_once
from remote_inference.base.nodes.parameters import NodeParameters, declare_parameters
from remote_inference.base.nodes.robot_logger import RobotNode, calm
from remote_inference.base.nodes.runtime import EXIT_NO_MIDDLEWARE, StartupError, run_node
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.tags import parse_tags
from remote_inference.base.wire import qos
from remote_inference.base.wire.arrays import SensorError, WireError
from remote_inference.base.wire.chunk import chunk_from_bytes
from remote_inference.base.wire.observation import SensedStep, observation_to_message
from remote_inference.msg import ActionChunk, ClientState, Observation
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.journal import Begin, JournalledEngine
from remote_inference.robot.nodes.actuation import Actuation
from remote_inference.robot.nodes.graph_watch import GraphWatch
from remote_inference.robot.nodes.operator import InjectedFaults, OperatorServices, OperatorTopics, Work
from remote_inference.robot.nodes.preview import PlanPreview
from remote_inference.robot.nodes.sensor_hub import SensorHub, Snapshot
from remote_inference.robot.nodes.server_client import ServerClient
from remote_inference.robot.nodes.task_action import TaskAction
from remote_inference.robot.nodes.telemetry import DecisionLog, robot_diagnostic, state_message
from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.safety import effects
from remote_inference.robot.safety.effects import Effect
from remote_inference.robot.safety.fault_injection import Target
from remote_inference.robot.step_lock import Inbox

WORKER_PERIOD_S = 0.02  # longest time until the worker looks at the clock again
PRESENCE_PERIOD_S = 0.1
STATE_PERIOD_S = 0.5
CLOSE_TIMEOUT_S = 1.0
ACKNOWLEDGE_TIMEOUT_S = 0.5  # of the last message of a topic
# The same where a queue holds several: Fast DDS asks their readers only every three seconds what they lack.
REPAIR_TIMEOUT_S = 4.0


class RobotParameters(RobotConfig, NodeParameters):
    """The parameters of the robot and of its driving."""

    contract: Annotated[str, Field(min_length=1)]
    """path of the YAML that maps this robot's topics to the policy"""


class RemoteInference(RobotNode):
    """The node around Engine and Playback. Raises StartupError or DocumentError for a bad contract."""

    def __init__(self) -> None:
        super().__init__("remote_inference")
        self.exit_code: int | None = None
        self.schedule = TimerSchedule()
        self._config = declare_parameters(self, RobotParameters)
        self._tags = parse_tags(self._config.tags)
        self._contract = load_contract(self._config.contract)
        try:
            self._config.check_fallback(*self._contract.actions.kinds)
        except ValueError as error:
            raise StartupError(f"parameter {error}") from error
        if problem := find_name_clash(self._contract, self.get_namespace()):
            raise StartupError(f"{self._config.contract}: {problem}")
        name, namespace, seed = self.get_fully_qualified_name(), self.get_namespace(), random.getrandbits(63)
        begin = Begin(self._contract, self._config, name, namespace, seed, version=__version__)
        self._engine = JournalledEngine(begin)
        self._inbox = Inbox[Work]()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._sent_snapshot = Snapshot({}, {})
        self._closing = False  # true: the executor no longer spins, so every sensor seems to fall silent
        self._create_entities()
        self._worker = threading.Thread(target=self._run_worker, name="requests", daemon=True)
        self._worker.start()
        self._actuation.loop.start()

    def _create_entities(self) -> None:
        self._observation_publisher = self.create_publisher(
            Observation, qos.OBSERVATION_TOPIC, qos.EXCHANGE_QOS
        )
        self._state_publisher = self.create_publisher(ClientState, qos.STATE_TOPIC, qos.LATCHED_QOS)
        self._decisions = DecisionLog(self, self._engine.journal)
        shows = self._config.preview
        self._preview = PlanPreview(self, self._contract, self._engine.queue) if shows else None
        self._diagnostics = Diagnostics(self, "policy control")
        self._sensors = SensorHub(self, self._contract, self._wake.set)
        self._actuation = Actuation(
            self,
            self._contract,
            self._config,
            self._engine,
            self.schedule,
            sense=self._sensors.snapshot,
            pause=self._pause_after_a_stop,
            mistrust=lambda problem: self._operate(partial(self._engine.take_controllers, problem)),
        )
        self.create_subscription(ActionChunk, qos.CHUNK_TOPIC, self._on_chunk, qos.EXCHANGE_QOS, raw=True)
        timeout_s = self._config.service_timeout_s
        self._servers = ServerClient(self, self._engine, self._config.servers, timeout_s, self._submit)
        self.schedule.every(timeout_s, self._servers.cancel_overdue)
        actuation, engine = self._actuation, self._engine
        inputs = OperatorTopics(
            self, self._contract, engine, self._wake.set, self._operate, heard_ns=lambda: actuation.heard_ns
        )
        self._graph = GraphWatch(self, self._contract, engine, inputs.person, self._config.max_offline_s)
        self._operator = OperatorServices(self, self.schedule, engine, self._operate)
        self._task = TaskAction(self, self.schedule, engine, self._operate, lambda: actuation.unfed_ticks)
        allowed = self._config.allow_fault_injection
        self._faults = InjectedFaults(self, self._submit, self._report_state, allowed=allowed)

    def close(self) -> None:
        """Stop commanding, end the session and wait a moment for the server to receive the call."""
        self._engine.halt_at_once()
        self._actuation.halt(partial(spin_once, self))
        self._closing = True
        self._stop.set()
        self._wake.set()
        self._worker.join(CLOSE_TIMEOUT_S)
        self._actuation.publish_executed()  # of the last ticks
        self._carry_out(self._engine.close())
        self._decisions.finish()
        self._task.close()
        deadline_s = time.monotonic() + CLOSE_TIMEOUT_S
        while (self._servers.waiting or self._task.waiting) and time.monotonic() < deadline_s:
            spin_once(self, 0.05)
        self._wait_until_acknowledged()
        try:
            rest(self)  # rmw_zenoh takes every message for received, too
        finally:
            self._actuation.close()

    def _wait_until_acknowledged(self) -> None:
        """Wait until the last messages have been received: they are lost with their publisher."""
        decisions = self._decisions.publisher
        for publisher in (*self._actuation.command_publishers, self._state_publisher, decisions):
            timeout_s = REPAIR_TIMEOUT_S if publisher is decisions else ACKNOWLEDGE_TIMEOUT_S
            if not publisher.wait_for_all_acked(Duration(seconds=timeout_s)):
                self.get_logger().warning(f"{publisher.topic_name}: the last message is not acknowledged")
        # Without the last beat, the watchdog stops what has stopped already: it is given a moment only.
        self._actuation.heart.publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGE_TIMEOUT_S))

    # -- executor's thread: deposit ------------------------------------------------------------------------

    def _submit(self, work: Work) -> None:
        self._inbox.put(work)
        self._wake.set()

    def _operate(self, command: Work) -> None:
        self._submit(command)
        self._submit(self._report_state)

    def _pause_after_a_stop(self, cause: str) -> None:
        """Pause at once: the arm was stopped from outside, and a person decides when it goes on."""
        self._engine.take_outside_stop(cause)
        self._operate(partial(self._engine.pause, cause))
        self.get_logger().error(f"paused until resume: {cause}")

    def _on_chunk(self, data: bytes) -> None:
        arrival_ns = time.monotonic_ns()
        self._inbox.put_message(lambda: self._receive_chunk(data, arrival_ns))
        self._wake.set()

    # -- worker thread -------------------------------------------------------------------------------------

    def _run_worker(self) -> None:
        try:
            next_state_s = next_presence_s = 0.0
            while not self._stop.is_set():
                self._wake.wait(WORKER_PERIOD_S)
                self._wake.clear()
                self._empty_inbox()
                self._release_injected()
                if not self._closing:
                    self._update_sensors()
                now_s = time.monotonic()
                if now_s >= next_presence_s and not self._closing:
                    next_presence_s = now_s + PRESENCE_PERIOD_S
                    self._update_graph()
                self._actuation.publish_executed()
                self._decisions.publish()
                if self._preview is not None:
                    self._preview.publish()
                if now_s >= next_state_s:
                    next_state_s = now_s + STATE_PERIOD_S
                    self._report_state()
                if self._actuation.loop.error is not None:
                    raise self._actuation.loop.error
                if node := self._graph.lost_publishers.find_cut_off(time.monotonic_ns()):
                    dead = f"the link to {node} is dead since a freeze of this process"
                    self.get_logger().fatal(f"{dead}; a new one finds it again")
                    self.exit_code = EXIT_NO_MIDDLEWARE
                    break
                if self._engine.has_ended(time.monotonic_ns()):
                    if stranded := self._engine.playback.stranded:
                        self.get_logger().warning(f"the robot is not home: {stranded}")
                    self._report_state()
                    self.exit_code = 1
        except Exception as error:  # a robot without its engine must stop, and say why
            self._engine.halt_at_once()
            self.get_logger().fatal(f"stopped by an internal error: {type(error).__name__}: {error}")
            self.exit_code = 1
            raise
        finally:
            self._operator.close()

    def _empty_inbox(self) -> None:
        for work in self._inbox.take_all():
            self._carry_out(work())
        if dropped := self._inbox.take_dropped():
            self._carry_out(self._engine.take_dropped_chunks(dropped))
            lost = f"{dropped} messages dropped unread, more came than the worker can take"
            calm(self).warning(f"{qos.CHUNK_TOPIC}: {lost}")

    def _update_graph(self) -> None:
        self._actuation.controllers.update()
        delivering, lacks = self._sent_snapshot.arrivals, self._sensors.lacks
        unsubscribed, absent = self._actuation.unsubscribed, self._actuation.absent
        self._carry_out(self._graph.update(delivering, lacks, unsubscribed, absent))

    def _update_sensors(self) -> None:
        keep = self._engine.cycle.sets.are_used
        snapshot, ticks = self._sensors.snapshot(), self._actuation.take_samples()
        seen = (snapshot, self._sensors.with_looks(ticks, keep=keep))
        samples: list[TickSample] = []
        for snapshot, taken in self._faults.pass_on(Target.SENSORS, seen, time.monotonic_ns()):
            self._sent_snapshot = snapshot
            samples += map(self._measure, taken)
        snapshot = self._sent_snapshot
        due = self._engine.take_sensors(
            snapshot.arrivals,
            self._sensors.measured_positions(snapshot),
            time.monotonic_ns(),
            samples,
            stamps=self._sensors.measured_stamps(snapshot),
        )
        self._carry_out(due)
        if self._engine.awaits_observation(time.monotonic_ns()):
            steps = self._steps_of(self._engine.cycle.history.steps())
            self._sensors.prepare_images(steps, self._engine.image_features)

    def _measure(self, sample: TickSample) -> TickSample:
        """Return a sample with where the robot was measured by then."""
        measured = self._sensors.measured_positions(sample.content)
        return replace(sample, measured=measured, stamps=self._sensors.measured_stamps(sample.content))

    def _steps_of(self, samples: Sequence[TickSample]) -> list[Snapshot]:
        """Return what samples hold, or without samples what was seen last."""
        return [*map(Snapshot.of, samples)] or [self._sent_snapshot]

    def _release_injected(self) -> None:
        """End an injected fault whose time is over, and pass on the messages that are late enough."""
        now_ns = time.monotonic_ns()
        self._faults.end_if_over(now_ns)
        for data in self._faults.take_due(Target.CHUNKS, now_ns):
            self._carry_out(self._take_chunk(data, now_ns))
        for message in self._faults.take_due(Target.OBSERVATIONS, now_ns):
            self._observation_publisher.publish(message)

    def _receive_chunk(self, data: bytes, arrival_ns: int) -> list[Effect]:
        passed = self._faults.pass_on(Target.CHUNKS, data, arrival_ns)
        return [effect for chunk in passed for effect in self._take_chunk(chunk, arrival_ns)]

    def _take_chunk(self, data: bytes, arrival_ns: int) -> list[Effect]:
        try:
            chunk = chunk_from_bytes(data)
        except WireError as error:
            return self._engine.take_malformed_chunk(str(error))
        if chunk.session_id != self._engine.session_id:  # a stranger's content must not fill the journal
            return self._engine.take_dropped_chunks(1)
        # The arm went on since it came: a worker may be late, and reading a chunk takes time.
        return self._engine.take_chunk(chunk, time.monotonic_ns(), arrival_ns=arrival_ns)

    def _report_state(self) -> list[Effect]:
        actuation, names, now_ns = self._actuation, self._contract.actions.names, time.monotonic_ns()
        state = state_message(self._engine, names, self.get_clock().now(), now_ns)
        state.control_ticks, state.late_ticks = actuation.loop.ticks, actuation.loop.late_ticks
        if (found := self._engine.arm.find_implausible(now_ns)) is not None:
            publishers = self._graph.publishers_of(found.topic)
            state.implausible = f"{found.topic}: {found.problem}, published by {', '.join(publishers)}"
        state.injected_fault = str(self._faults.fault or "")
        state.lost_publishers = [str(lost) for lost in self._graph.lost_publishers.lost]
        self._state_publisher.publish(state)
        absent = actuation.absent.values()
        self._diagnostics.report(robot_diagnostic(state, self.get_namespace(), actuation.goals, absent))
        return []

    # -- effects -------------------------------------------------------------------------------------------

    def _carry_out(self, due: list[Effect]) -> None:
        logger = self.get_logger()
        # Lines on the end of a session name that session, which the engine has given up by then.
        logger.session_id = self._engine.session_id or logger.session_id
        for effect in due:
            self._perform(effect)
        logger.session_id = self._engine.session_id

    def _perform(self, effect: Effect) -> None:
        match effect:
            case effects.SendRequest():
                self._send(effect)
            case effects.GetStatus(server):
                self._servers.get_status(server)
            case effects.OpenSession(server, offer):
                self._graph.expect_server(server)
                sized = replace(offer, images=self._sensors.add_sizes(offer.images))
                self._servers.open_session(server, sized)
            case effects.CloseSession(server, session_id, token):
                self._servers.close_session(server, session_id, token)
            case effects.ResetSession(server, session_id, episode_id, token):
                self._servers.reset_session(server, session_id, episode_id, token)
            case effects.Report(transition):
                self.get_logger().info(f"transition {transition.to_json(self._tags)}")
                self._report_state()
            case effects.ResetEnded():
                self._operator.end_reset(effect)
            case effects.StopLatched(cause):
                self.get_logger().error(f"stopped by {cause}; clear_stop, then resume let it move again")
                self._report_state()
            case effects.Warn(text, repeats):
                (calm(self) if repeats else self.get_logger()).warning(text)
            case effects.Inform(text, repeats):
                (calm(self) if repeats else self.get_logger()).info(text)
            case effects.Stop(cause):
                self.get_logger().fatal(f"stopped: {cause}")

    def _send(self, effect: effects.SendRequest) -> None:
        try:
            steps = self._steps_of(effect.steps)
            images = self._sensors.read_images(steps, self._engine.image_features)
            *past, present = [
                SensedStep(self._sensors.read_state(step), seen)
                for step, seen in zip(steps, images, strict=True)
            ]
        except SensorError as error:
            calm(self).warning(f"request {effect.request.seq_id} not sent: {error}")
            self._engine.take_back_request()
            return
        stamp = self.get_clock().now().to_msg()
        message = observation_to_message(effect.request, present.state, present.images, stamp, past)
        for passed in self._faults.pass_on(Target.OBSERVATIONS, message, time.monotonic_ns()):
            self._observation_publisher.publish(passed)


def main(args: list[str] | None = None) -> int:
    """Drive the robot until a signal or State.DEAD; return the exit code."""
    return run_node(RemoteInference, args)
