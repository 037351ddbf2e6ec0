# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A service whose response may be sent after its callback has returned, with any executor.

rclpy awaits a callback that is a coroutine only with some executors. Each of them hands what a callback
returned to the service's `send_response`, together with the header of the request; so the response keeps the
header until it is sent.
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


class DeferredResponse(Generic[Response]):
    """The response to one request. Any thread may send it, once, also before the callback returns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._response: Response | None = None
        self._send: Send[Response] | None = None

    def send(self, response: Response) -> None:
        """Send the response, at once or when the request's callback has returned."""
        with self._lock:
            self._response, send = response, self._send
        if send is not None:
            send(response)

    def bind(self, send: Send[Response]) -> None:
        """Set the function that sends a response to the request's client."""
        with self._lock:
            self._send, response = send, self._response
        if response is not None:
            send(response)


def create_deferred_service(
    node: Node, kind: Any, name: str, callback: Callable[[Any, DeferredResponse[Any]], None]
) -> Service:
    """Create a service. callback: is called with the request and the response that it has to send."""

    def handle(request: Any, _: Any) -> DeferredResponse[Any]:
        deferred: DeferredResponse[Any] = DeferredResponse()
        callback(request, deferred)
        return deferred

    service = node.create_service(kind, name, handle)
    # From Lyrical on what executors call is a shell around it (rclpy#1624).
    sender = "_send_response" if hasattr(service, "_send_response") else "send_response"
    send_response = getattr(service, sender)

    def send_or_log(response: Any, header: Any) -> None:
        try:
            send_response(response, header)
        except (RCLError, InvalidHandle) as error:  # client or service are gone: nobody waits for it
            text = " ".join(str(error).split())
            node.get_logger().warning(f"{service.srv_name}: the answer cannot be sent: {text}")

    def send(deferred: DeferredResponse[Any], header: Any) -> None:
        deferred.bind(lambda response: send_or_log(response, header))

    setattr(service, sender, send)  # of what `handle` returned
    return service
