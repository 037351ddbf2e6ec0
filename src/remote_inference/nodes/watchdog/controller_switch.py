# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Asks ros2_control's controller manager to switch controllers. Its messages need not be installed."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.task import Future

from remote_inference.core.contract.commands.controller_switch import ControllerSwitch
from remote_inference.nodes.executors import as_task
from remote_inference.nodes.runtime import StartupError
from remote_inference.ros_packages import how_to_install

PACKAGE = "controller_manager_msgs"
TIMEOUT_S = 2.0  # of the switch itself, and of its answer


class SwitchClient:
    """The client of one controller manager. Raises StartupError when the messages are not installed."""

    def __init__(self, node: Node, switch: ControllerSwitch) -> None:
        try:
            self._service = import_module(f"{PACKAGE}.srv").SwitchController
        except ImportError as error:
            raise StartupError(
                f"contract: watchdog_switch needs the package {PACKAGE}, which is not installed: leave "
                f"watchdog_switch out, or {how_to_install(PACKAGE)}"
            ) from error
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
