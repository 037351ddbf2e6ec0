# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The service `~/inject_fault`, for drills: there only with the parameter `allow_fault_injection`."""

from __future__ import annotations

import time
from collections.abc import Callable

from rclpy.node import Node

from remote_inference.core.robot.safety.effects import Effect
from remote_inference.core.robot.safety.fault_injection import Fault, FaultInjection, parse_fault
from remote_inference.nodes.robot.operator.operator_services import Work
from remote_inference.srv import InjectFault


class Drills:
    """Begins faults on the worker's thread, and says loudly when they begin and end."""

    def __init__(
        self,
        node: Node,
        injection: FaultInjection,
        submit: Callable[[Work], None],
        report_state: Callable[[], list[Effect]],
        *,
        allowed: bool,
    ) -> None:
        """submit: lets the worker call a function. report_state: called there when a fault begins or ends."""
        self._logger = node.get_logger()
        self._injection = injection
        self._submit = submit
        self._report_state = report_state
        if allowed:
            self._logger.warning("allow_fault_injection is set: inject_fault disturbs this robot")
            node.create_service(InjectFault, "~/inject_fault", self._inject)

    @property
    def in_progress(self) -> str:
        """The fault in progress in words, empty when there is none."""
        return str(self._injection.fault or "")

    def end_if_over(self) -> None:
        """End the fault in progress when its time is over. Call it on the worker's thread."""
        if ended := self._injection.end_if_over(time.monotonic_ns()):
            self._logger.warning(f"DRILL: injected fault ends: {ended}")
            self._report_state()

    def _inject(self, request: InjectFault.Request, response: InjectFault.Response) -> InjectFault.Response:
        try:
            fault = parse_fault(
                request.target, request.kind, request.duration_s, request.delay_s, request.probability
            )
        except ValueError as error:
            response.success, response.message = False, str(error)
            return response
        self._submit(lambda: self._begin(fault))
        response.success, response.message = True, str(fault)
        return response

    def _begin(self, fault: Fault) -> list[Effect]:
        instead = f" instead of: {self.in_progress}" if self._injection.fault else ""
        self._injection.begin(fault, time.monotonic_ns())
        self._logger.warning(f"DRILL: injected fault begins: {fault}{instead}")
        return self._report_state()
