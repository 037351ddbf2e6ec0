# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Opens a server's weights to trainers, when the manifest allows it, and serves the operator's rollback."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.subscription import Subscription
from std_srvs.srv import Trigger

from remote_inference.base.limits import MAX_NAME_LENGTH, shorten
from remote_inference.base.nodes.deferred_service import DeferredResponse, create_deferred_service
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.policy import Policy, PolicyError, ServingMode, UpdatablePolicy
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.qos import (
    WEIGHTS_QOS,
    WEIGHTS_REPLIES_QOS,
    WEIGHTS_REPLIES_TOPIC,
    WEIGHTS_TOPIC,
)
from remote_inference.learn.nodes.weights_link import OPEN_SERVICE, from_message, publish
from remote_inference.learn.weights.fragment_link import PROTOCOL, LinkTable
from remote_inference.learn.weights.frames import Applied, Refused
from remote_inference.learn.weights.live import Listener, LiveWeights
from remote_inference.learn.weights.reasons import WeightsError
from remote_inference.learn.weights.shared_memory import SharedMemoryListener
from remote_inference.msg import WeightsFragment
from remote_inference.server.live_weights import OnError
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.policy_error import explain_policy_error
from remote_inference.srv import OpenWeightsLink

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
            WeightsFragment, f"~/{WEIGHTS_REPLIES_TOPIC}", WEIGHTS_REPLIES_QOS
        )
        subscription = self._node.create_subscription(
            WeightsFragment, f"~/{WEIGHTS_TOPIC}", self._on_message, WEIGHTS_QOS
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
        response.protocol = PROTOCOL
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
        except WireError as error:
            self._logger.warning(f"weights: {error}")
            return
        if self._table:
            self._table.put(fragment)

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

    def _answer(self, answer: DeferredResponse[Trigger.Response], done: Future[int]) -> None:
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
