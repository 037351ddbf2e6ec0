# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A trainer's link to a policy server, over ROS.

sender = WeightSender(network.state_dict)
sender.init_sender({"server": lambda: connect("/policy_server", 5.0)})
"""

from __future__ import annotations

import secrets
import threading
import time
from functools import partial

import rclpy
from rclpy._rclpy_pybind11 import InvalidHandle, RCLError
from rclpy.context import Context
from rclpy.exceptions import NameValidationException
from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.publisher import Publisher
from rclpy.task import Future
from rclpy.utilities import try_shutdown

from remote_inference.base.clients.operator_client import deferred_signals
from remote_inference.base.nodes.executors import add_node, make_executor, spin_once
from remote_inference.base.nodes.runtime import end_client
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.qos import (
    WEIGHTS_QOS,
    WEIGHTS_REPLIES_QOS,
    WEIGHTS_REPLIES_TOPIC,
    WEIGHTS_TOPIC,
)
from remote_inference.learn.weights.fragment_link import (
    PING_S,
    PROTOCOL,
    Fragment,
    FragmentKind,
    FragmentLink,
)
from remote_inference.learn.weights.frames import LinkClosedError
from remote_inference.msg import WeightsFragment
from remote_inference.srv import OpenWeightsLink

# -- The messages by which trainers and servers exchange weights over ROS --------------------------------


OPEN_SERVICE = "open_weights_link"  # of the node that takes weights
TRAINER_NODE = "weights_trainer"  # begin of the names of the nodes that send them


def to_message(fragment: Fragment) -> WeightsFragment:
    return WeightsFragment(**(vars(fragment) | {"kind": int(fragment.kind)}))


def from_message(message: WeightsFragment) -> Fragment:
    """Return a message's fragment. Raises WireError for an unknown kind."""
    try:
        kind = FragmentKind(message.kind)
    except ValueError:
        raise WireError(
            f"WeightsFragment.kind: found {message.kind}, expected 0 to {max(FragmentKind)}"
        ) from None
    return Fragment(message.link_id, kind, message.seq, message.offset, message.size, message.data.tobytes())


def publish(publisher: Publisher, logger: RcutilsLogger, fragment: Fragment) -> None:
    """Publish a fragment. One that cannot be published is logged and lost, which ends its link."""
    try:
        publisher.publish(to_message(fragment))
    except (InvalidHandle, RCLError) as error:
        logger.warning(f"weights: {fragment.kind.name} of link {fragment.link_id} is lost: {error}")


_SPIN_S = 0.1  # longest time until `close` is noticed
_POLL_S = 0.02
_RETRY_S = 2.0  # a request whose answer may be lost is sent again after this
_JOIN_S = 10.0  # until a thread that does not end is given up


class RosLink:
    """See Link. A node with its own context and thread, for one link: a trainer need not use ROS itself."""

    def __init__(self, server: str, timeout_s: float, namespace: str = "/") -> None:
        """Connect. server: full name of its node. namespace: of our node.

        Raises LinkClosedError when the server refuses, TimeoutError.
        """
        self._server, end_s = f"/{server.strip('/')}", time.monotonic() + timeout_s
        self._context, self._ends = Context(), threading.Event()
        self._is_open = False
        link_id = secrets.token_hex(16)
        try:
            with deferred_signals():
                self._make_entities(link_id, namespace)
        except (RCLError, NameValidationException) as error:
            try_shutdown(context=self._context)
            raise LinkClosedError(f"{self._server}: cannot be reached: {error}") from error
        self._thread = threading.Thread(target=self._spin, name=f"weights link {link_id[:8]}", daemon=True)
        self._thread.start()
        try:
            self._open(link_id, end_s)
            self._is_open = True
            self._link.greet(max(end_s - time.monotonic(), 0.0))
        except TimeoutError as error:
            self.close()
            found = str(error) or "no answer on the link that it has opened"
            raise TimeoutError(f"{self._server}: {found} within {timeout_s:g} s") from error
        except LinkClosedError:
            self.close()
            raise

    def send(self, frame: bytes, timeout_s: float) -> None:
        self._link.send(frame, timeout_s)

    def receive(self, timeout_s: float) -> bytes:
        return self._link.receive(timeout_s)

    def close(self) -> None:
        if self._ends.is_set():
            return
        self._link.close()
        self._ends.set()
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():  # its entities are in use
            self._logger.warning(f"{self._server}: the link's thread did not end within {_JOIN_S:g} s")
            return
        end_client(self._node, self._executor, self._context)

    def _make_entities(self, link_id: str, namespace: str) -> None:
        rclpy.init(context=self._context)
        node = rclpy.create_node(
            f"{TRAINER_NODE}_{link_id[:8]}",
            namespace=namespace,
            context=self._context,
            use_global_arguments=False,  # a name given on the command line is for the trainer's own node
            enable_rosout=False,
            start_parameter_services=False,
        )
        self._node, self._logger = node, node.get_logger()
        publisher = node.create_publisher(WeightsFragment, f"{self._server}/{WEIGHTS_TOPIC}", WEIGHTS_QOS)
        self._link = FragmentLink(self._server, link_id, partial(publish, publisher, self._logger))
        node.create_subscription(
            WeightsFragment, f"{self._server}/{WEIGHTS_REPLIES_TOPIC}", self._on_message, WEIGHTS_REPLIES_QOS
        )
        self._client = node.create_client(OpenWeightsLink, f"{self._server}/{OPEN_SERVICE}")
        self._executor, _ = make_executor("single", self._context)
        add_node(self._executor, node)
        self._schedule = TimerSchedule()
        self._schedule.every(PING_S, self._tend)

    def _open(self, link_id: str, end_s: float) -> None:
        """Ask the server to open the link. Raises LinkClosedError when it refuses, TimeoutError.

        Asks again when no answer comes: one is lost where the server has not discovered this client yet.
        """
        while not self._client.service_is_ready():
            self._wait(end_s, f"no service {OPEN_SERVICE}")
        request = OpenWeightsLink.Request(
            protocol=PROTOCOL, link_id=link_id, trainer=self._node.get_fully_qualified_name()
        )
        asked: list[Future] = []
        again_s = time.monotonic()
        while not (answers := [future.result() for future in asked if future.done()]):
            if time.monotonic() >= again_s:
                asked.append(self._client.call_async(request))
                again_s = time.monotonic() + _RETRY_S
            self._wait(end_s, f"no answer from {OPEN_SERVICE}")
        (response, *_) = answers
        assert response is not None  # it is done
        if not response.accepted:
            raise LinkClosedError(f"{self._server}: {response.message}")

    def _wait(self, end_s: float, found: str) -> None:
        if time.monotonic() >= end_s:
            raise TimeoutError(found)
        self._ends.wait(_POLL_S)

    def _spin(self) -> None:
        while not self._ends.is_set():
            spin_once(self._node, min(_SPIN_S, self._schedule.wait_s()))
            self._schedule.run_due()

    def _on_message(self, message: WeightsFragment) -> None:
        if message.link_id != self._link.link_id:  # another trainer's
            return
        try:
            self._link.put(from_message(message))
        except WireError as error:
            self._logger.warning(f"weights: {error}")

    def _tend(self) -> None:
        if self._is_open:  # the server ends links that it does not know
            self._link.ping()
            self._link.tend()


def connect(server: str, timeout_s: float, namespace: str = "/") -> RosLink:
    """Return a trainer's link to a server, by the full name of its node.

    namespace: of the link's own node; with fleet keys it is `/` and the trainer's name there. Raises
    LinkClosedError when the server refuses, TimeoutError when it is not there or does not answer.
    """
    return RosLink(server, timeout_s, namespace)
