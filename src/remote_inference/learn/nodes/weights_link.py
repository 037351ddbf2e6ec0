# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Weights over ROS: a trainer's link to a policy server, and the server's end of it.

sender = WeightSender(network.state_dict)
sender.init_sender({"server": lambda: connect("/policy_server", 5.0)})
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future as ConcurrentFuture
from functools import partial
from pathlib import Path

import rclpy
from rclpy._rclpy_pybind11 import InvalidHandle, RCLError
from rclpy.context import Context
from rclpy.exceptions import NameValidationException
from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.subscription import Subscription
from rclpy.task import Future
from rclpy.utilities import try_shutdown
from std_srvs.srv import Trigger

from remote_inference.base.clients.operator_client import deferred_signals
from remote_inference.base.limits import MAX_NAME_LENGTH, shorten
from remote_inference.base.nodes.deferred_service import DeferredResponse, create_deferred_service
from remote_inference.base.nodes.executors import add_node, make_executor, spin_once
from remote_inference.base.nodes.robot_logger import calm
from remote_inference.base.nodes.runtime import end_client
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.policy import Policy, PolicyError, ServingMode, UpdatablePolicy
from remote_inference.base.wire import qos
from remote_inference.base.wire.arrays import WireError
from remote_inference.learn.weights import fragment_link
from remote_inference.learn.weights.fragment_link import Fragment, FragmentKind, FragmentLink, LinkTable
from remote_inference.learn.weights.frames import Applied, LinkClosedError, Refused
from remote_inference.learn.weights.live import Listener, LiveWeights
from remote_inference.learn.weights.reasons import WeightsError
from remote_inference.learn.weights.shared_memory import SharedMemoryListener
from remote_inference.msg import WeightsFragment
from remote_inference.server.live_weights import OnError
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.policy_error import explain_policy_error
from remote_inference.srv import OpenWeightsLink

# -- The messages by which trainers and servers exchange weights over ROS --------------------------------

OPEN_SERVICE = "open_weights_link"  # of the node that takes weights
TRAINER_NODE = "weights_trainer"  # begin of the names of the nodes that send them


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
        publisher.publish(WeightsFragment(**(vars(fragment) | {"kind": int(fragment.kind)})))
    except (InvalidHandle, RCLError) as error:
        logger.warning(f"weights: {fragment.kind.name} of link {fragment.link_id} is lost: {error}")


# -- A trainer's end ------------------------------------------------------------------------------------

_SPIN_S = 0.1  # longest time until `close` is noticed
_POLL_S = 0.02
_RETRY_S = 2.0  # a request whose answer may be lost is sent again after this
_JOIN_S = 10.0  # until a thread that does not end is given up


class RosLink:
    """See Link. A node with its own context and thread, for one link: a trainer need not use ROS itself."""

    def __init__(self, server: str, timeout_s: float, namespace: str = "/") -> None:
        """Connect a trainer to a server, by the full name of its node.

        namespace: of the link's own node; with fleet keys it is `/` and the trainer's name there. Raises
        LinkClosedError when the server refuses, TimeoutError when it is not there or does not answer.
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
        topic, replies = f"{self._server}/{qos.WEIGHTS_TOPIC}", f"{self._server}/{qos.WEIGHTS_REPLIES_TOPIC}"
        publisher = node.create_publisher(WeightsFragment, topic, qos.WEIGHTS_QOS)
        self._link = FragmentLink(self._server, link_id, partial(publish, publisher, self._logger))
        node.create_subscription(WeightsFragment, replies, self._on_message, qos.WEIGHTS_REPLIES_QOS)
        self._client = node.create_client(OpenWeightsLink, f"{self._server}/{OPEN_SERVICE}")
        self._executor, _ = make_executor("single", self._context)
        add_node(self._executor, node)
        self._schedule = TimerSchedule()
        self._schedule.every(fragment_link.PING_S, self._tend)

    def _open(self, link_id: str, end_s: float) -> None:
        """Ask the server to open the link. Raises LinkClosedError when it refuses, TimeoutError.

        Asks again when no answer comes: one is lost where the server has not discovered this client yet.
        """
        while not self._client.service_is_ready():
            self._wait(end_s, f"no service {OPEN_SERVICE}")
        request = OpenWeightsLink.Request(
            protocol=fragment_link.PROTOCOL, link_id=link_id, trainer=self._node.get_fully_qualified_name()
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
            calm(self._node).warning(f"weights: {error}")

    def _tend(self) -> None:
        if self._is_open:  # the server ends links that it does not know
            self._link.ping()
            self._link.tend()


connect = RosLink  # what a trainer calls

# -- A server's end of weights over ROS: a service that opens links, and a topic each way for all of them

NOT_LISTENING = "no weights are accepted here"
TEND_S = 0.5


class TrainerLinks:
    """The service `~/open_weights_link`, and the topics `~/weights` and `~/weights_replies` while needed.

    For the executor's thread alone; what `listen` returns is for any.
    """

    def __init__(self, node: Node, schedule: TimerSchedule) -> None:
        self._node, self._logger = node, node.get_logger()
        self._table: LinkTable | None = None
        self._topics: tuple[Subscription, Publisher] | None = None
        node.create_service(OpenWeightsLink, f"~/{OPEN_SERVICE}", self._open)
        schedule.every(TEND_S, self._tend)

    def listen(self) -> LinkTable:
        """Let trainers open links, until the returned table is closed; one table at a time."""
        self._destroy_topics()
        publisher = self._node.create_publisher(
            WeightsFragment, f"~/{qos.WEIGHTS_REPLIES_TOPIC}", qos.WEIGHTS_REPLIES_QOS
        )
        subscription = self._node.create_subscription(
            WeightsFragment, f"~/{qos.WEIGHTS_TOPIC}", self._on_message, qos.WEIGHTS_QOS
        )
        self._topics = subscription, publisher
        self._table = LinkTable(
            partial(publish, publisher, self._logger),
            report=lambda why: self._logger.info(f"weights: a link has ended: {why}"),
        )
        return self._table

    def stop(self) -> None:
        """End all links, and open no more."""
        if self._table:
            self._table.close()
            self._table = None
        self._destroy_topics()

    def _open(
        self, request: OpenWeightsLink.Request, response: OpenWeightsLink.Response
    ) -> OpenWeightsLink.Response:
        response.protocol = fragment_link.PROTOCOL
        table = self._table
        response.message = (
            table.open(request.protocol, request.link_id, request.trainer) if table else NOT_LISTENING
        )
        response.accepted = not response.message
        outcome = f"refused: {response.message}" if response.message else "opened a link"
        self._logger.info(f"weights: {shorten(request.trainer, MAX_NAME_LENGTH)}: {outcome}")
        return response

    def _on_message(self, message: WeightsFragment) -> None:
        try:
            fragment = from_message(message)
            if self._table:
                self._table.put(fragment)
        except WireError as error:
            calm(self._node).warning(f"weights: {error}")

    def _tend(self) -> None:
        if self._table:
            self._table.tend()
            if self._table.is_closed:
                self._table = None
                self._destroy_topics()

    def _destroy_topics(self) -> None:
        if self._topics:
            subscription, publisher = self._topics
            self._node.destroy_subscription(subscription)
            self._node.destroy_publisher(publisher)
            self._topics = None


NO_UPDATES = "weights: no updates are accepted here, expected weights: {accept: true} in the manifest"


class WeightsAccess:
    """The `TrainerAccess` of a server's node, with the service `~/rollback_weights`."""

    def __init__(self, node: Node, schedule: TimerSchedule) -> None:
        self._logger = node.get_logger()
        self._links = TrainerLinks(node, schedule)
        self._network: Listener | None = None  # where trainers on other machines connect
        self._weights: LiveWeights | None = None
        create_deferred_service(node, Trigger, "~/rollback_weights", self._roll_back)

    def listen(self, manifest: Manifest) -> None:
        section = manifest.weights
        over_ros = section is not None and section.accept and section.ros
        self._network = self._links.listen() if over_ros else None

    def open(
        self, manifest: Manifest, policy: Policy, rehearse: Callable[[], object], on_error: OnError
    ) -> LiveWeights | None:
        section, self._weights = manifest.weights, None
        if section is None or not section.accept:
            return None
        if not isinstance(policy, UpdatablePolicy):
            raise PolicyError(
                f"weights.accept: found true, but {policy.spec.name} does not show its weights: "
                "expected a policy with the methods `weights` and `check_weights`"
            )
        if policy.spec.serving_mode is ServingMode.EXCLUSIVE:
            raise PolicyError(
                f"weights.accept: found true, but {policy.spec.name} is exclusive: what it remembers of an "
                "episode comes from the weights before; expected a shared policy"
            )
        listeners = [self._network] if self._network else []
        if section.socket:
            listeners.append(SharedMemoryListener(Path(section.socket)))
        check = partial(_find_problem, policy.check_weights, rehearse, on_error)
        self._weights = LiveWeights(policy.weights(), listeners, check, self._log_outcome)
        return self._weights

    def stop(self) -> None:
        self._links.stop()
        self._weights = None

    def _log_outcome(self, outcome: Applied | Refused) -> None:
        if isinstance(outcome, Applied):
            self._logger.info(
                f"weights: version {outcome.version} is served, exchanged in {1e3 * outcome.seconds:.2f} ms"
            )
        else:
            self._logger.warning(f"weights: refused ({outcome.reason.value}): {outcome.text}")

    def _roll_back(self, _: Trigger.Request, answer: DeferredResponse[Trigger.Response]) -> None:
        weights = self._weights
        if weights is None:
            answer.send(Trigger.Response(success=False, message=NO_UPDATES))
        else:
            weights.ask_for_rollback().add_done_callback(partial(self._answer, answer))

    def _answer(self, answer: DeferredResponse[Trigger.Response], done: ConcurrentFuture[int]) -> None:
        try:
            message, success = f"version {done.result()} is served again", True
        except (WeightsError, CancelledError) as error:
            message, success = str(error) or "the server ends", False
        self._logger.info(f"weights: rollback: {message}")
        answer.send(Trigger.Response(success=success, message=message))


def _find_problem(
    check_weights: Callable[[], None], rehearse: Callable[[], object], on_error: OnError
) -> str:
    """Return why the policy cannot be served as it is now, or nothing."""
    try:
        check_weights()
        rehearse()
    except BaseException as error:  # see `PolicyWatch.note_error`
        on_error(error)
        text = explain_policy_error(error)
        return text if isinstance(error, PolicyError) else f"the policy raised {text}"
    return ""
