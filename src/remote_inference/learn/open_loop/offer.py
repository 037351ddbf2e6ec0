# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reconstructs the robot's offer of recorded requests: their joints and cameras, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.robot_bag import RobotBag
from remote_inference.base.admission import make_offer
from remote_inference.base.contract.image_source import RAW
from remote_inference.base.exchange import ImageFeature, SessionOffer
from remote_inference.base.wire import WireError
from remote_inference.base.wire.arrays import read_message
from remote_inference.msg import Observation

STATUS_TYPE = "remote_inference/msg/ServerStatus"


def find_offer(robot: RobotBag) -> SessionOffer:
    """Return the offer of a robot that could have sent the recorded requests.

    Raises BagError when the bag holds no contract or no requests, they cannot be read, or nothing shows which
    of the contract's cameras they show.
    """
    bag, contract = robot.bag, robot.require_contract()
    topic = robot.topic("observation")
    message = _first_request(bag, topic)
    offer = make_offer(contract, client="replay", robot_namespace=robot.namespace or "/")
    return replace(
        offer,
        images=_find_cameras(bag, topic, message, offer.images),
        task=message.task,
        wants_rtc=True,
        max_observation_steps=message.history_steps + 1,
    )


def _first_request(bag: BagReader, topic: str) -> Observation:
    if topic not in bag.topics:
        raise BagError(
            f"{bag.path}: found no {topic}, expected the recorded requests, which a policy is asked"
        )
    first = next(bag.raw_messages([topic]), None)
    if first is None:
        raise BagError(f"{bag.path}: found no message on {topic}, expected the recorded requests")
    try:
        return read_message(first[2], Observation, "the first request")
    except WireError as error:
        raise BagError(f"{bag.path}: {error}") from error


def _find_cameras(
    bag: BagReader, topic: str, message: Observation, cameras: Sequence[ImageFeature]
) -> tuple[ImageFeature, ...]:
    """Return which of the contract's cameras the requests show: all of them, or those of the policy then."""
    candidates = [tuple(cameras), ()]
    if not any(_shows(message, images) for images in candidates):
        needed = _needed_then(bag)
        candidates = [tuple(image for image in cameras if image.name in names) for names in needed]
    found = {images for images in candidates if _shows(message, images)}
    if len(found) == 1:
        return found.pop()
    shown = len(message.images) + len(message.raw_images)
    names = ", ".join(image.name for image in cameras) or "no camera"
    raise BagError(
        f"{bag.path}: {topic} shows {shown} images, the contract has {len(cameras)} ({names}): expected all "
        "of them, or the status of the server in the bag, which names those that its policy used"
    )


def _shows(message: Observation, images: Sequence[ImageFeature]) -> bool:
    raw = sum(image.encoding == RAW for image in images)
    return (len(message.images), len(message.raw_images)) == (len(images) - raw, raw)


def _needed_then(bag: BagReader) -> Iterator[frozenset[str]]:
    """Yield the camera features of each policy in the bag, by the status of its server."""
    topics = [name for name, topic in bag.topics.items() if topic.msgtype == STATUS_TYPE]
    known: set[tuple[str, frozenset[str]]] = set()
    status: Any
    for topic, _, status in bag.messages(topics) if topics else ():
        policy = topic, frozenset(status.image_features)
        if status.policy_name and policy not in known:
            known.add(policy)
            yield policy[1]
