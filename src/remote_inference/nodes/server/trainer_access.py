# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Opens a server's weights to trainers, when the manifest says so, and takes the operator's way back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path

from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.node import Node
from std_srvs.srv import Trigger

from remote_inference.core.policy import Policy, PolicyError, ServingMode, UpdatablePolicy
from remote_inference.core.server.manifest.manifest import Manifest
from remote_inference.core.server.policy_error import explain_policy_error
from remote_inference.nodes.later_service import LaterAnswer, create_later_service
from remote_inference.weights.header import Applied, Refused
from remote_inference.weights.live import Listener, LiveWeights
from remote_inference.weights.reasons import WeightsError
from remote_inference.weights.transports.shared_memory import SharedMemoryListener

NOBODY = "weights: no updates are accepted here, expected weights: {accept: true} in the manifest"


def open_weights(
    manifest: Manifest,
    policy: Policy,
    rehearse: Callable[[], object],
    *,
    hear: Callable[[BaseException], object],
    tell: Callable[[Applied | Refused], None],
    network: Listener | None,
) -> LiveWeights | None:
    """Let trainers change a policy's weights, if the manifest says so.

    rehearse: asks the policy, and raises when it cannot answer. hear: takes what the policy has raised with
    new weights, and raises what is no error of its author's. network: where trainers on other machines
    connect. Raises PolicyError for a policy whose weights cannot be changed while it is served.
    """
    section = manifest.weights
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
    listeners = [network] if network else []
    if section.socket:
        listeners.append(SharedMemoryListener(Path(section.socket)))
    check = partial(_find_problem, policy.check_weights, rehearse, hear)
    return LiveWeights(policy.weights(), listeners, check, tell)


def log_outcome(logger: RcutilsLogger, outcome: Applied | Refused) -> None:
    """Log what an update has come to."""
    if isinstance(outcome, Applied):
        logger.info(
            f"weights: version {outcome.version} is served, exchanged in {1e3 * outcome.seconds:.2f} ms"
        )
    else:
        logger.warning(f"weights: refused ({outcome.reason.value}): {outcome.text}")


class RollbackService:
    """`~/rollback_weights`: serves the version before the last update again."""

    def __init__(self, node: Node, find_weights: Callable[[], LiveWeights | None]) -> None:
        """find_weights: of the policy that is served now."""
        self._logger = node.get_logger()
        self._find_weights = find_weights
        create_later_service(node, Trigger, "~/rollback_weights", self._roll_back)

    def _roll_back(self, _: Trigger.Request, answer: LaterAnswer[Trigger.Response]) -> None:
        weights = self._find_weights()
        if weights is None:
            answer.give(Trigger.Response(success=False, message=NOBODY))
        else:
            weights.ask_for_rollback().add_done_callback(partial(self._answer, answer))

    def _answer(self, answer: LaterAnswer[Trigger.Response], done: Future[int]) -> None:
        try:
            message, success = f"version {done.result()} is served again", True
        except (WeightsError, CancelledError) as error:
            message, success = str(error) or "the server ends", False
        self._logger.info(f"weights: rollback: {message}")
        answer.give(Trigger.Response(success=success, message=message))


def _find_problem(
    check_weights: Callable[[], None],
    rehearse: Callable[[], object],
    hear: Callable[[BaseException], object],
) -> str:
    """Return why the policy cannot be served as it is now, or nothing."""
    try:
        check_weights()
        rehearse()
    except BaseException as error:  # as `PolicyWatch.hear` says
        hear(error)
        text = explain_policy_error(error)
        return text if isinstance(error, PolicyError) else f"the policy raised {text}"
    return ""
