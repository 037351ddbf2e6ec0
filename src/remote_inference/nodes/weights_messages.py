# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The messages by which trainers and servers exchange weights over ROS."""

from __future__ import annotations

from rclpy._rclpy_pybind11 import InvalidHandle, RCLError
from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.publisher import Publisher

from remote_inference.msg import WeightsFragment
from remote_inference.weights.transports.fragments import Fragment, FragmentKind
from remote_inference.wire.arrays import WireError

OPEN_SERVICE = "open_weights_link"  # of the node that takes weights
TRAINER_NODE = "weights_trainer"  # begin of the names of the nodes that send them


def to_message(fragment: Fragment) -> WeightsFragment:
    return WeightsFragment(
        link_id=fragment.link_id,
        kind=int(fragment.kind),
        seq=fragment.seq,
        offset=fragment.offset,
        size=fragment.size,
        data=fragment.data,
    )


def from_message(message: WeightsFragment) -> Fragment:
    """Return what a message says. Raises WireError for a kind that is not known."""
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
