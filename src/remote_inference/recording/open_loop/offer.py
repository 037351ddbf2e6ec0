# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's offer behind recorded requests: which joints and cameras they show, in what order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from remote_inference.core.admission import make_offer
from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.image_encodings import RAW
from remote_inference.core.exchange import ImageFeature, SessionOffer
from remote_inference.msg import Observation
from remote_inference.recording.bags.bag import BagReader
from remote_inference.recording.bags.bag_error import BagError
from remote_inference.wire import WireError
from remote_inference.wire.serialized import read_message

STATUS_TYPE = "remote_inference/msg/ServerStatus"


def find_offer(bag: BagReader, namespace: str, contract: Contract) -> SessionOffer:
    """Return the offer of a robot that could have sent the recorded requests.

    namespace: the robot's, without a slash at its end. Raises BagError when the bag holds no requests, they
    cannot be read, or nothing tells which of the contract's cameras they show.
    """
    topic = f"{namespace}/remote_inference/observation"
    message = _first_request(bag, topic)
    offer = make_offer(contract, client="replay", robot_namespace=namespace or "/")
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
    if not bag.is_as_installed(topic):
        raise BagError(
            f"{bag.path}: {topic} has other fields than the installed Observation, expected a bag of this "
            "version of the package"
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
    told: set[tuple[str, frozenset[str]]] = set()
    status: Any
    for topic, _, status in bag.messages(topics) if topics else ():
        with bag.expecting(topic):
            policy, is_told = (topic, frozenset(status.image_features)), bool(status.policy_name)
        if is_told and policy not in told:
            told.add(policy)
            yield policy[1]
