# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robots of `weights_pause.py --control`: real nodes on simulated arms, judged by their control ticks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import rclpy
from capacity_robots import SERVER
from numpy.typing import NDArray
from request_cycle_rig import START_TIMEOUT_S, camera_image

from remote_inference.base.contract.contract import Contract, load_contract
from remote_inference.base.nodes.executors import make_executor
from remote_inference.base.paths import share_path
from remote_inference.base.wire.images.images import image_from_message
from remote_inference.base.wire.qos import CHUNK_LISTENER_QOS, CHUNK_TOPIC, EXECUTED_QOS, EXECUTED_TOPIC
from remote_inference.learn.environment import EnvironmentObservation, Feature, FeatureKind
from remote_inference.learn.environments.belt_arm.environment import SPEC, STATE
from remote_inference.learn.nodes.simulated_sensors import SimulatedControllers, SimulatedSensors
from remote_inference.msg import ActionChunk, ExecutedAction
from remote_inference.robot.command import CommandSource
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.process_group import ProcessGroup

CONTRACT = share_path("config", "belt_arm.contract.yaml")
SETTLE_S = 2.0  # between the last robot's first action and the first window


@dataclass
class Window:
    """What robots did in a span of time.

    ticks: control ticks that were heard of. held: those without an action of the policy. lost: between two
    that were heard of; their reports did not arrive. versions: of the weights behind the actions.
    """

    ticks: int = 0
    held: int = 0
    lost: int = 0
    versions: set[str] = field(default_factory=set)
    intervals_ms: list[float] = field(default_factory=list)  # between two chunks of a robot

    def add(self, executed: Sequence[ExecutedAction], chunks_s: Sequence[float]) -> None:
        """Count what one robot did. chunks_s: when its chunks arrived, rising."""
        numbers = [each.tick for each in executed]
        self.ticks += len(numbers)
        self.lost += max(numbers) - min(numbers) + 1 - len(numbers) if numbers else 0
        self.held += sum(each.source != CommandSource.CHUNK for each in executed)
        self.versions |= {each.policy_version for each in executed}
        self.intervals_ms += (1e3 * np.diff(chunks_s)).tolist()


class Arm:
    """A robot's hardware, which follows its commands at once, and ears for what its node does."""

    def __init__(self, number: int, contract: Contract) -> None:
        self.namespace = f"/weights_robot_{number}"
        self.node = rclpy.create_node("arm", namespace=self.namespace, start_parameter_services=False)
        self.executed: list[ExecutedAction] = []
        self.chunks_s: list[float] = []
        self.due_s = 0.0  # when its sensors are to be published next
        self._sensors = SimulatedSensors(self.node, contract, SPEC)
        self._controllers = SimulatedControllers(
            self.node, contract, SPEC, before_command=lambda: None, after_commands=lambda: None
        )
        assert contract.home is not None
        self._controllers.hold(np.array(contract.home.positions))
        self._still = {name: _still(SPEC.features[name]) for name in self._sensors.wanted}
        self.node.create_subscription(ExecutedAction, EXECUTED_TOPIC, self.executed.append, EXECUTED_QOS)
        self.node.create_subscription(ActionChunk, CHUNK_TOPIC, self._note_chunk, CHUNK_LISTENER_QOS)

    @property
    def is_driven(self) -> bool:
        """Whether the policy commands the arm."""
        return bool(self.executed) and self.executed[-1].source == CommandSource.CHUNK

    def publish(self) -> None:
        """Show the arm where its last command has brought it, and the cameras the same as before."""
        values = {**self._still, STATE: self._controllers.targets.astype(np.float32)}
        self._sensors.publish(EnvironmentObservation(values, 0.0), self.node.get_clock().now().to_msg())

    def _note_chunk(self, _: ActionChunk) -> None:
        self.chunks_s.append(time.monotonic())


def _still(feature: Feature) -> NDArray[np.generic]:
    """Return a picture, or zeros for what is no picture."""
    shape = [length or 0 for length in feature.shape]
    if feature.kind is FeatureKind.RGB:
        return image_from_message(camera_image(*shape[:2]))
    return np.zeros(shape)


class Arms:
    """Robots' hardware, played by one thread. check: raises when a robot's process has ended."""

    def __init__(self, count: int, contract: Contract, check: Callable[[], None]) -> None:
        self.arms = [Arm(number, contract) for number in range(count)]
        self._check, self._period_s, begin_s = check, contract.period_s, time.monotonic()
        self._executor, _ = make_executor("events")
        for number, arm in enumerate(self.arms):
            arm.due_s = begin_s + self._period_s * number / count
            self._executor.add_node(arm.node)

    def watch(self, seconds: float) -> Window:
        """Return what the robots do in the time that follows."""
        for arm in self.arms:
            arm.executed.clear()
            arm.chunks_s.clear()
        self.play(seconds)
        window = Window()
        for arm in self.arms:
            window.add(arm.executed, arm.chunks_s)
        return window

    def wait_until_driven(self) -> None:
        self.play(START_TIMEOUT_S, lambda: all(arm.is_driven for arm in self.arms))
        if waiting := [arm.namespace for arm in self.arms if not arm.is_driven]:
            raise SystemExit(f"{', '.join(waiting)}: no action within {START_TIMEOUT_S:g} s")
        self.play(SETTLE_S)

    def play(self, seconds: float, ended: Callable[[], bool] = lambda: False) -> None:
        """Publish each arm's sensors once per control period, the arms spread evenly over it."""
        self._check()
        end_s = time.monotonic() + seconds
        while (now_s := time.monotonic()) < end_s and not ended():
            for arm in self.arms:
                if arm.due_s <= now_s:
                    arm.publish()
                    arm.due_s = max(arm.due_s + self._period_s, now_s)
            next_s = min(end_s, *(arm.due_s for arm in self.arms))
            self._executor.spin_once(timeout_sec=max(0.0, next_s - time.monotonic()))
        self._check()

    def close(self) -> None:
        self._executor.shutdown()
        for arm in self.arms:
            arm.node.destroy_node()


@contextmanager
def streaming(count: int, folder: Path) -> Iterator[Arms]:
    """Run robots in processes of their own; yield their arms when the policy drives each. folder: of logs."""
    with ProcessGroup(folder) as group:
        arms = Arms(count, load_contract(CONTRACT), group.check)
        try:
            for arm in arms.arms:
                parameters = {"autostart": True}
                group.start(
                    bringup.robot(CONTRACT, namespace=arm.namespace, servers=[SERVER], parameters=parameters)
                )
            arms.wait_until_driven()
            yield arms
        finally:
            arms.close()
