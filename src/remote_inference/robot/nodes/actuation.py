# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The control thread: publishes once per period what playback commands, and the heartbeat of it.

The executed actions are kept for another thread to publish: telemetry must not delay a command.
"""

from __future__ import annotations

import gc
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.time import Time

from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.limits import MAX_OBSERVATION_STEPS
from remote_inference.base.nodes.robot_logger import calm
from remote_inference.base.nodes.runtime import StartupError
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.wire import qos
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.commands import make_command_writers
from remote_inference.base.wire.commands.writer import CommandWriter
from remote_inference.msg import ExecutedAction, Heartbeat as HeartbeatMessage, WatchdogState
from remote_inference.robot.command import CommandSource
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.engine import Engine
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.nodes.controllers import ControllerCheck, ControllerWatch, ManagerWatch
from remote_inference.robot.nodes.goal_client import GoalClient
from remote_inference.robot.nodes.sensor_hub import Snapshot
from remote_inference.robot.nodes.telemetry import ExecutedBacklog, executed_message
from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.watchdog import LATCHED, ExecutorStaleness, Heartbeat, Phase

# -- One tick per period, at absolute deadlines of the monotonic clock ------------------------------------

LATE_FRACTION = 0.5  # of a period
LONGEST_SLEEP_S = 0.2  # a slow loop ends before its next tick


class ControlLoop:
    """Calls `tick(now_ns)` once per period until stopped.

    The deadlines lie on a grid that never shifts. A period that is missed whole is skipped, not caught up
    with a burst.
    """

    def __init__(
        self,
        period_s: float,
        tick: Callable[[int], None],
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        self._period_ns = round(period_s * 1e9)
        self._tick = tick
        self._clock_ns = clock_ns
        self._sleep_s = sleep_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self.ticks = 0
        self.late_ticks = 0
        self.error: Exception | None = None  # error that ended the thread, None while there is none

    def start(self) -> None:
        """Start the thread, and exempt all present objects from garbage collection for good."""
        # Collecting stops every thread, for tens of ms when it walks the objects of the imports. Objects
        # allocated from here on are still collected.
        gc.collect()
        gc.freeze()
        self._thread.start()

    def stop(self) -> bool:
        """End the thread, which finishes the tick it is in; return whether it has ended."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            deadline_ns = self._clock_ns()
            while not self._stop.is_set():
                if (wait_ns := deadline_ns - self._clock_ns()) > 0:
                    self._sleep_s(min(wait_ns / 1e9, LONGEST_SLEEP_S))
                    if wait_ns > LONGEST_SLEEP_S * 1e9:
                        continue
                now_ns = self._clock_ns()
                late_ns = now_ns - deadline_ns
                if late_ns > LATE_FRACTION * self._period_ns:
                    self.late_ticks += 1
                self._tick(now_ns)
                self.ticks += 1
                # From the tick's begin, not its end: after a pause, one is due when its period begins.
                deadline_ns += (max(0, late_ns) // self._period_ns + 1) * self._period_ns
        except Exception as error:  # reported by the node, which stops
            self.error = error


# -- Publishes the control thread's heartbeat, and pauses the robot that the command watchdog has stopped --


class Heart:
    """The control thread itself publishes: a beat of any other thread would prove nothing."""

    def __init__(self, node: Node, beats: Heartbeat, pause: Callable[[str], None]) -> None:
        """pause: pauses the robot at once, on the thread that calls it, and says the cause."""
        self._calm = calm(node)
        self._beats = beats
        self._pause = pause
        self._instance = random.getrandbits(64)
        self._tick = 0
        self.publisher = node.create_publisher(HeartbeatMessage, qos.HEARTBEAT_TOPIC, qos.HEARTBEAT_QOS)
        node.create_subscription(WatchdogState, qos.WATCHDOG_TOPIC, self._on_watchdog, qos.LATCHED_QOS)

    def check_silence(self, now_ns: int) -> None:
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
        """Publish that a command is about to leave, unless that is known: the process may die in between."""
        if self._beats.idle:
            self.beat(now_ns, tick, commanding=True)

    def withhold(self, now_ns: int, tick: int) -> None:
        """Publish that a tick is done whose command did not leave."""
        self._publish_due(tick, self._beats.withhold(now_ns))

    def beat(self, now_ns: int, tick: int, *, commanding: bool) -> None:
        """Publish that a tick is done. commanding: a command is in force, of this tick or one before."""
        self._publish_due(tick, self._beats.beat(now_ns, commanding=commanding))

    def end(self, *, stopped: bool) -> None:
        """Publish the last beat, after the control thread. stopped: the controllers got their stops."""
        self._publish(Phase.ENDED if stopped else Phase.ABANDONED)

    def _publish_due(self, tick: int, phase: Phase | None) -> None:
        self._tick = tick
        if phase is not None:
            self._publish(phase)

    def _publish(self, phase: Phase) -> None:
        beat = HeartbeatMessage(
            instance=self._instance, tick=self._tick, phase=int(phase), deadline_s=self._beats.deadline_s
        )
        self.publisher.publish(beat)

    def _on_watchdog(self, message: WatchdogState) -> None:
        try:
            must_pause = self._beats.hear_watchdog(message.instance, message.state, message.trips)
        except ValueError as error:
            self._calm.error(f"{qos.WATCHDOG_TOPIC}: {error}; ignored")
            return
        if must_pause:
            # One that is armed again by now says why that is.
            why = f": {message.cause}" if message.state in LATCHED else ""
            self._pause(f"the command watchdog has stopped the controllers{why}")


EXECUTED_BUFFER = 1_000  # ticks that may wait to be published
TRIES = 3  # to decide and send a hold before it leaves late
STALENESS_PERIOD_S = 0.02  # of the executor's updates: well below EXECUTOR_STALE_NS
CONTROLLERS_PERIOD_S = 0.1  # between two looks whether a controller or its manager is to be asked


class Actuation:
    """Owns the control loop, and what sends commands, goals, the heartbeat and executed actions."""

    def __init__(
        self,
        node: Node,
        contract: Contract,
        config: RobotConfig,
        engine: Engine,
        schedule: TimerSchedule,
        *,
        sense: Callable[[], Snapshot],
        pause: Callable[[str], None],
        mistrust: Callable[[str], None],
    ) -> None:
        """schedule: of the executor's thread, which sends the goals, and without which nothing is heard.

        sense: returns the newest sensor messages, without waiting.

        pause: pauses the robot at once, on the thread that calls it, and says the cause. mistrust: takes what
        a controller makes of its commands otherwise than the contract means, "" when none does any more.
        Raises StartupError for commands that the contract's message types do not have.
        """
        self._calm = calm(node)
        self._clock_of_stamps = node.get_clock()
        self._contract = contract
        self._engine = engine
        self._sense = sense
        self._samples: deque[TickSample] = deque(maxlen=MAX_OBSERVATION_STEPS * contract.ticks_per_row)
        self._executed = ExecutedBacklog(EXECUTED_BUFFER)
        self.unfed_ticks = 0  # without an action of the policy, since start-up
        self._failed_outlets = 0  # ticks in which a controller did not get its command
        self._executed_publisher = node.create_publisher(ExecutedAction, qos.EXECUTED_TOPIC, qos.EXECUTED_QOS)
        try:
            writers = make_command_writers(contract)
        except WireError as error:
            raise StartupError(f"contract: {error}") from error
        self._commands: list[tuple[CommandSink, Publisher, CommandWriter]] = []
        self._goals: list[GoalClient] = []
        sinks = contract.commands if config.command_mode == "live" else ()
        for sink, writer in zip(sinks, writers, strict=False):  # none in shadow mode
            if sink.action is None:
                publisher = node.create_publisher(writer.message_type, sink.topic, qos.COMMAND_QOS)
                self._commands.append((sink, publisher, writer))
            else:
                since_ns = engine.commands_since_ns
                client = GoalClient(node, schedule, contract, sink, writer, commands_since_ns=since_ns)
                self._goals.append(client)
        outlets = [(sink, publisher) for sink, publisher, _ in self._commands]
        managers = ManagerWatch(node, contract, node.get_namespace())
        self.controllers = ControllerWatch(node, outlets, managers.find_inactive)
        if outlets:
            check = ControllerCheck(node, contract, self.controllers, mistrust)
            schedule.every(CONTROLLERS_PERIOD_S, managers.poll)
            schedule.every(CONTROLLERS_PERIOD_S, check.poll)
        self.unsubscribed: tuple[str, ...] = ()  # topics and actions of commands that no controller hears
        self._executor_staleness = ExecutorStaleness(time.monotonic_ns())
        self._executor_runs = True  # else a tick must not wait for it
        schedule.every(STALENESS_PERIOD_S, lambda: self._executor_staleness.update(time.monotonic_ns()))
        self.heart = Heart(node, Heartbeat(contract.period_s, config.watchdog_timeout_s), pause)
        self._played = 0  # ticks; one that fails has its number, too, as in the journal
        self.loop = ControlLoop(contract.period_s, self._tick)

    @property
    def command_publishers(self) -> list[Publisher]:
        """The publishers of commands by topic."""
        return [publisher for _, publisher, _ in self._commands]

    @property
    def heard_ns(self) -> int:
        """Monotonic time [ns] until which the executor has surely run what came."""
        return self._executor_staleness.heard_ns if self._executor_runs else time.monotonic_ns()

    @property
    def absent(self) -> dict[str, str]:
        """Why controllers that subscribe to a command do not hear it, in words by its topic."""
        reasons = {sink.topic: self.controllers.why_absent(sink.topic) for sink, _, _ in self._commands}
        return {topic: reason for topic, reason in reasons.items() if reason}

    @property
    def goals(self) -> dict[str, str]:
        """What became of the goals of each action server, in words. Any thread may read it."""
        return {client.name: client.gate.summary() for client in self._goals}

    def halt(self, wait: Callable[[float], None]) -> None:
        """Wait until a halted robot has got its stops, end the control thread and tell the watchdog.

        wait: lets a time [s] pass, and sensors deliver: a stop may have to be where the joints are measured.
        """
        self._executor_runs = False
        self._failed_outlets = 0
        playback = self._engine.playback
        deadline_s = time.monotonic() + playback.rules.max_stopping_s
        while not playback.finished and time.monotonic() < deadline_s:
            if self.loop.error is not None:  # the thread that would report the error has ended
                with suppress(Exception):
                    self._tick(time.monotonic_ns())
            wait(self._contract.period_s)  # for stop commands: silence may not stop the robot
        has_ended = self.loop.stop()
        self.heart.end(stopped=has_ended and playback.finished and not self._failed_outlets)

    def close(self) -> None:
        """End the clients of action servers, which keep their last goals. For the executor's thread."""
        for client in self._goals:
            client.close()

    def take_samples(self) -> list[TickSample]:
        """Return what the sensors held at the last ticks, each once, for a policy of several steps."""
        return [self._samples.popleft() for _ in range(len(self._samples))]

    def publish_executed(self) -> None:
        """Publish the ticks since the last call. Not for the control thread."""
        for message in self._executed.take():
            self._executed_publisher.publish(message)
        if news := self._executed.take_news():
            self._calm.warning(news)

    # -- control thread ------------------------------------------------------------------------------------

    def _tick(self, now_ns: int) -> None:
        if self._engine.cycle.history.observation_steps > 1:
            seen = self._sense()
            self._samples.append(TickSample(seen, seen.arrivals, tick_ns=now_ns))
        # In each tick: the first command that a controller hears must be the start of the next tick's step.
        absent = [client.name for client in self._goals if not client.gate.is_subscribed()]
        self.unsubscribed = (*self.controllers.unsubscribed(), *absent)
        self.heart.check_silence(now_ns)
        for left in reversed(range(TRIES)):
            if self._play(now_ns, is_last_try=not left):
                return
            now_ns = time.monotonic_ns()

    def _play(self, now_ns: int, *, is_last_try: bool) -> bool:
        """Decide and send what a tick commands; return False when a hold is to be decided anew."""
        worked_ns = time.thread_time_ns()
        heard_ns = self._executor_staleness.heard_ns if self._executor_runs else None
        tick = self._engine.play(now_ns, self.unsubscribed, heard_ns)
        index, self._played = self._played, self._played + 1
        self.unfed_ticks += tick.source is not CommandSource.CHUNK
        stamp_ns = self._clock_of_stamps.now().nanoseconds  # simulated time where the node uses it
        outbox, failure = self._write(tick, stamp_ns)
        # The last thing before they leave: how long the tick stood still. Its own work is not meant.
        stood_ns = time.monotonic_ns() - now_ns - (time.thread_time_ns() - worked_ns)
        if self._engine.playback.is_outdated(tick, stood_ns, is_last_try=is_last_try):
            return self._withhold(index, tick, stood_ns)
        commands = bool(outbox) or (tick.goal is not None and bool(self._goals))
        if commands:
            self.heart.announce(now_ns, index)
        for client in self._goals:
            client.gate.command(tick.goal, now_ns)
        for publisher, message in outbox:
            try:
                publisher.publish(message)
            except Exception as error:  # noqa: PERF203  the other controllers get theirs, a stop for example
                failure = error
        self._failed_outlets += failure is not None
        if failure is not None:
            raise failure
        self.heart.check_silence(time.monotonic_ns())  # the tick may have stood still without a command
        self.heart.beat(now_ns, index, commanding=commands or (tick.in_force and not tick.shadow))
        episode_id, left = self._engine.episode.id, len(self._engine.queue)
        names = self._contract.actions.names
        make = partial(executed_message, tick, index, stamp_ns, episode_id, names, queue_length=left)
        self._executed.append(make)
        return True

    def _write(self, tick: Tick, stamp_ns: int) -> tuple[list[tuple[Publisher, Any]], Exception | None]:
        """Return a tick's messages to the controllers that take it, and why one could not be written."""
        outbox: list[tuple[Publisher, Any]] = []
        failure: Exception | None = None
        if tick.horizon is None or tick.shadow:
            return outbox, failure
        stamp = Time(nanoseconds=stamp_ns).to_msg()
        for sink, publisher, writer in self._commands:
            if tick.reaches(self._contract.kind_of(sink), sink.destination):
                # One that takes commands again, and of which that is not known yet, would get no stop.
                is_absent = sink.destination in self.unsubscribed
                rows = tick.horizon[:1] if is_absent else tick.horizon
                try:
                    outbox.append((publisher, writer.message(rows, stamp, tick.late_ns)))
                except Exception as error:  # the other controllers get theirs
                    failure = failure or error
        return outbox, failure

    def _withhold(self, index: int, tick: Tick, stood_ns: int) -> bool:
        """Send no command of a tick in which the process stood still: what was commanded before goes on."""
        now_ns = time.monotonic_ns()
        self.heart.check_silence(now_ns)
        is_hold = tick.source is CommandSource.HOLD
        self._engine.take_back_command(not is_hold)
        text = f"control tick {index} stood still for {stood_ns / 1e9:.2f} s: its command was not sent"
        self._calm.warning(text, subject=f"stood still {stood_ns // 50_000_000}")  # a longer time is news
        if not is_hold:
            self.heart.withhold(now_ns, index)
        return not is_hold
