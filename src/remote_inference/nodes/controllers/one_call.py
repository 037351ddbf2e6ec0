# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A service that is asked again and again, of which one answer at a time is awaited."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.node import Node
from rclpy.task import Future

from remote_inference.nodes.executors import as_task


class OneCall:
    """The client of a service that only reads. For the executor's thread, which it never blocks."""

    def __init__(self, node: Node, kind: Any, name: str, timeout_s: float) -> None:
        """timeout_s: until an answer is given up: a request to a node that dies is never answered."""
        self._node = node
        self._client = node.create_client(kind, name)
        self._timeout_s = timeout_s
        self._pending: Future | None = None
        self._end_s = 0.0  # of the wait for it

    def ask(self, request: Any, take: Callable[[Any], None]) -> None:
        """Call the service if it is there and no answer is awaited; `take` gets the answer if one comes."""
        if self._pending is not None and time.monotonic() < self._end_s:
            return
        self.give_up()
        if self._client.service_is_ready():
            self._end_s = time.monotonic() + self._timeout_s
            self._pending = self._client.call_async(request)
            self._pending.add_done_callback(as_task(self._node, partial(self._finish, take)))

    def give_up(self) -> None:
        """Take no answer to what was asked."""
        if self._pending is not None:
            self._client.remove_pending_request(self._pending)
            self._pending.cancel()
            self._pending = None

    def _finish(self, take: Callable[[Any], None], future: Future) -> None:
        if future is not self._pending:  # given up in the turn in which it came
            return
        self._pending = None
        if (answer := future.result()) is not None:
            take(answer)
