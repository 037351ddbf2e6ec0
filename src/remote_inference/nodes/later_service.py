# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A service whose answer may come after its callback has returned, whichever executor spins the node.

rclpy awaits a callback that is a coroutine only with some executors. Each of them hands what a callback
returned to the service's `send_response`, together with the header of the request; so the answer keeps the
header until it is given.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rclpy._rclpy_pybind11 import InvalidHandle, RCLError
from rclpy.node import Node
from rclpy.service import Service

Response = TypeVar("Response")
Send = Callable[[Response], None]


class LaterAnswer(Generic[Response]):
    """The answer to one request. Any thread may give it, once, also before the callback returns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._response: Response | None = None
        self._send: Send[Response] | None = None

    def give(self, response: Response) -> None:
        """Send the response, at once or when the request's callback has returned."""
        with self._lock:
            self._response, send = response, self._send
        if send is not None:
            send(response)

    def bind(self, send: Send[Response]) -> None:
        """Take what sends a response to the request's client."""
        with self._lock:
            self._send, response = send, self._response
        if response is not None:
            send(response)


def create_later_service(
    node: Node, kind: Any, name: str, callback: Callable[[Any, LaterAnswer[Any]], None]
) -> Service:
    """Create a service. callback: takes the request and the answer to be given."""

    def take(request: Any, _: Any) -> LaterAnswer[Any]:
        answer: LaterAnswer[Any] = LaterAnswer()
        callback(request, answer)
        return answer

    service = node.create_service(kind, name, take)
    send_response = service.send_response

    def send_or_tell(response: Any, header: Any) -> None:
        try:
            send_response(response, header)
        except (RCLError, InvalidHandle) as error:  # its client has left, or the service: nobody waits for it
            text = " ".join(str(error).split())
            node.get_logger().warning(f"{service.srv_name}: the answer cannot be sent: {text}")

    def send(answer: LaterAnswer[Any], header: Any) -> None:
        answer.bind(lambda response: send_or_tell(response, header))

    service.send_response = send  # type: ignore[method-assign, assignment]  # takes what `take` returned
    return service
