# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Node `environment`: any environment as a robot, with the topics of a contract.

    environment --ros-args -r __ns:=/robot_1 -p environment:=belt_arm -p contract:=belt_arm.contract.yaml

Publishes the contract's sensors and takes its commands. `~/reset_environment` begins an episode by seed and
task, `~/get_outcome` returns its outcome so far.
"""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Literal

from pydantic import Field
from rclpy.node import Node

from remote_inference.base.contract.contract import load_contract
from remote_inference.base.nodes.parameters import NodeParameters, declare_parameters
from remote_inference.base.nodes.robot_logger import calm
from remote_inference.base.nodes.runtime import StartupError, run_node
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.learn.environment import EnvError, Moment, action_that_holds
from remote_inference.learn.environments import make_environment
from remote_inference.learn.environments.runners import RealTimeThreadEnvironment, Timeouts
from remote_inference.learn.nodes.simulated_sensors import SimulatedControllers, SimulatedSensors
from remote_inference.srv import GetOutcome, ResetEnvironment

# -- The parameters by which nodes name an environment and its options -----------------------------------

EnvironmentName = Annotated[
    str, Field(description="built-in name, gymnasium:<id>, package.module:attribute or an entry point")
]
EnvironmentOptions = Annotated[
    str, Field(description='options of the environment, as JSON: `{"mapping": "pusht.yaml"}`')
]


def read_options(text: str) -> dict[str, Any]:
    """Return the options in the parameter's text. Raises StartupError for anything but a JSON object."""
    try:
        options = json.loads(text)
    except ValueError as error:
        raise StartupError(f"parameter options: found {text!r}, expected JSON: {error}") from error
    if not isinstance(options, dict):
        raise StartupError(f"parameter options: found {text!r}, expected a JSON object")
    return options


ADVANCE_PERIOD_S = 0.01  # how often the environment is brought up to the wall clock
CATCH_UP_S = 1.0  # most that an environment is moved on at a time: a slower one falls behind the wall clock

Mode = Literal["real_time", "stepped"]


class EnvironmentParameters(NodeParameters):
    """The parameters of the node."""

    environment: EnvironmentName
    options: EnvironmentOptions = "{}"
    contract: str
    """the robot's contract: topics, names and limits"""
    mode: Mode = "real_time"
    """`real_time`: by the wall clock; `stepped`: one control period for each command"""
    step_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """an environment that takes longer for a step hangs [s]"""


class EnvironmentNode(Node):
    """The node around an environment, which has a thread of its own."""

    def __init__(self, name: str = "environment", setup: EnvironmentParameters | None = None) -> None:
        """Make the environment, and begin its first episode.

        setup: what to simulate, for nodes that have it instead of parameters. Raises StartupError when the
        environment cannot be made or does not fit the contract, DocumentError for a wrong document.
        """
        super().__init__(name)
        self.exit_code: int | None = None
        self.schedule = TimerSchedule()
        if setup is None:
            setup = declare_parameters(self, EnvironmentParameters)
        else:
            declare_parameters(self, NodeParameters)  # any other that is given is a mistake
        options, contract = read_options(setup.options), load_contract(setup.contract)
        self._is_stepped = setup.mode == "stepped"
        try:
            self._environment = RealTimeThreadEnvironment(
                setup.environment,
                lambda: make_environment(setup.environment, options),
                Timeouts(step_s=setup.step_timeout_s),
            )
            self._spec = self._environment.spec
            self._sensors = SimulatedSensors(self, contract, self._spec)
            self._controllers = SimulatedControllers(
                self, contract, self._spec, before_command=self._advance_to_now, after_commands=self._step
            )
            self._begin(0, self._spec.tasks[0])
        except EnvError as error:
            raise StartupError(str(error)) from error
        self.create_service(ResetEnvironment, "~/reset_environment", self._on_reset)
        self.create_service(GetOutcome, "~/get_outcome", self._on_outcome)
        self.schedule.every(ADVANCE_PERIOD_S, self._advance_to_now)
        self.schedule.every(1.0 / self._spec.control_rate_hz, self._publish)

    def close(self) -> None:
        """End the environment."""
        try:
            self._environment.close()
        except EnvError as error:
            self.get_logger().warning(str(error))

    def _begin(self, seed: int, task: str) -> None:
        """Begin an episode. Raises EnvError; nothing moves then until the next one begins."""
        self._problem = f"{self._spec.name}: no episode"
        try:
            shown = self._environment.reset(seed, task, self._sensors.wanted)
        except EnvError as error:
            self._problem = str(error)
            raise
        self._seed, self._task, self._moment, self._problem = seed, task, Moment(), ""
        state = shown.values[self._sensors.wanted[0]]
        self._controllers.hold(action_that_holds(self._spec, state))
        self._begin_s = time.monotonic()

    # -- time ----------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Move on by one control period, for every controller was commanded since the last one."""
        if self._is_stepped:
            self._advance(self._moment.time_s + 1.0 / self._spec.control_rate_hz)

    def _advance_to_now(self) -> None:
        if self._is_stepped:
            return
        now_s = time.monotonic() - self._begin_s
        behind_s = now_s - self._moment.time_s - CATCH_UP_S
        if behind_s > 0 and not self._moment.ended:
            self._begin_s += behind_s
            text = f"{self._spec.name} is slower than the wall clock: {behind_s:.2f} s left out"
            calm(self).warning(text)
            now_s -= behind_s
        self._advance(now_s)

    def _advance(self, time_s: float) -> None:
        if self._problem:
            return
        try:
            self._moment = self._environment.advance(self._controllers.targets, time_s)
        except EnvError as error:
            self._stand(error)

    def _publish(self) -> None:
        self._advance_to_now()
        if self._problem:
            return
        stamp = self.get_clock().now().to_msg()
        try:
            self._sensors.publish(self._environment.observe(), stamp)
        except EnvError as error:
            self._stand(error)

    def _stand(self, error: EnvError) -> None:
        """Stop until an episode begins; the sensors publish nothing meanwhile."""
        self._problem = str(error)
        self.get_logger().error(f"the episode stands still: {error}")

    # -- services ------------------------------------------------------------------------------------------

    def _on_reset(
        self, request: ResetEnvironment.Request, _: ResetEnvironment.Response
    ) -> ResetEnvironment.Response:
        task = request.task or self._spec.tasks[0]
        try:
            self._begin(request.seed, task)
        except EnvError as error:
            self.get_logger().error(f"no episode began: {error}")
            return ResetEnvironment.Response(message=str(error))
        message = f"episode with seed {request.seed} began: {task}"
        return ResetEnvironment.Response(success=True, message=message)

    def _on_outcome(self, _: GetOutcome.Request, response: GetOutcome.Response) -> GetOutcome.Response:
        response.seed, response.task = self._seed, self._task
        response.elapsed_s, response.reward = self._moment.time_s, self._moment.reward
        response.ended = self._moment.ended
        if not self._problem:
            try:
                metrics = self._environment.metrics()
            except EnvError as error:
                self._stand(error)
            else:
                response.success = metrics.success
                response.metric_names = list(metrics.values)
                response.metric_values = [float(value) for value in metrics.values.values()]
        response.message = self._problem
        return response


def main(args: list[str] | None = None) -> int:
    """Simulate until a signal; return the exit code."""
    return run_node(EnvironmentNode, args)
