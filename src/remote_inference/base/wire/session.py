# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of the handshake: a server's status, a robot's offer and the server's reply.

A field that offer or reply share with the message by name is copied; the others are named where they differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rclpy.exceptions import NameValidationException
from rclpy.validate_full_topic_name import validate_full_topic_name
from rclpy.validate_namespace import validate_namespace

from remote_inference.base.contract.image_source import RAW
from remote_inference.base.exchange import (
    LOADING,
    ImageFeature,
    SessionKind,
    SessionOffer,
    SessionReply,
    StatusReply,
    in_namespace,
)
from remote_inference.base.limits import (
    MAX_CAMERAS,
    MAX_NAME_LENGTH,
    MAX_QUOTE_LENGTH,
    MAX_TASK_LENGTH,
    find_length_problem,
    shorten,
)
from remote_inference.base.tags import parse_tags, write_tags
from remote_inference.base.wire.arrays import WireError, naming, read_fields, write_fields
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.images import ImageError, require_size
from remote_inference.base.wire.qos import CHUNK_TOPIC, OBSERVATION_TOPIC
from remote_inference.srv import GetStatus, OpenSession

_LISTS = ("action_names", "state_names", "action_units", "state_units", "action_kinds")


def offer_to_request(offer: SessionOffer) -> OpenSession.Request:
    """Return the request that carries an offer."""
    images = offer.images
    special = {
        "image_features": [image.name for image in images],
        "image_encodings": [image.encoding for image in images],
        "image_heights": [image.height for image in images],
        "image_widths": [image.width for image in images],
        "tags": list(write_tags(offer.tags)),
        "kind": offer.kind.value,
        "refuses_weight_updates": not offer.accepts_weight_updates,
    }
    return OpenSession.Request(**{**write_fields(offer, OpenSession.Request), **special})


def offer_from_request(request: OpenSession.Request) -> SessionOffer:
    """Return the offer in a request.

    Raises WireError when the namespace is invalid or too long for our topics, a text is too long, the image
    fields differ in length, there are too many or one twice, an encoding or the kind is unknown, or a tag is
    refused.
    Raises ImageError, a WireError, when an image is too large to decode.
    """
    _require_lengths(request)
    _require_namespace(request.robot_namespace)
    _require_cameras(request.image_features)
    for field in ("image_encodings", "image_heights", "image_widths"):
        if len(getattr(request, field)) != len(request.image_features):
            expected = f"{len(request.image_features)}, one for each of image_features"
            raise WireError(f"{field}: found {len(getattr(request, field))} entries, expected {expected}")
    columns = (request.image_features, request.image_encodings, request.image_heights, request.image_widths)
    images = tuple(ImageFeature(*row) for row in zip(*columns, strict=True))
    known = (*IMAGE_ENCODINGS.names, RAW)
    for image in images:
        if image.encoding not in known:
            found = f"image_encodings: found {image.encoding!r} for {image.name}"
            raise WireError(f"{found}, expected one of {', '.join(known)}")
        if image.height and image.width:  # 0: not known yet
            try:
                require_size(image.height, image.width)
            except ImageError as error:
                raise ImageError(f"{image.name}: {error}") from error
    _require_one_for_each_name(request)
    with naming("tags: "):
        tags = parse_tags(request.tags)
    special = {
        "images": images,
        "max_observation_steps": max(1, request.max_observation_steps),
        "tags": tags,
        "kind": _kind_of(request),
        "accepts_weight_updates": not request.refuses_weight_updates,
    }
    return SessionOffer(**{**read_fields(request, OpenSession.Request, SessionOffer), **special})


def _require_lengths(request: OpenSession.Request) -> None:
    names = {
        field: getattr(request, field)
        for field in ("client", "client_instance_id", "robot_namespace", "robot_type")
    }
    for field in (*_LISTS, "image_features", "image_encodings"):
        names |= {f"{field}[{index}]": name for index, name in enumerate(getattr(request, field))}
    problems = [find_length_problem(field, name, MAX_NAME_LENGTH) for field, name in names.items()]
    problems.append(find_length_problem("task", request.task, MAX_TASK_LENGTH))
    if problem := next(filter(None, problems), ""):
        raise WireError(problem)


def _kind_of(request: OpenSession.Request) -> SessionKind:
    """Return the kind in a request; an empty one is that of a robot."""
    try:
        return SessionKind(request.kind) if request.kind else SessionKind.ROBOT
    except ValueError:
        expected = f"expected one of {', '.join(kind.value for kind in SessionKind)}"
        raise WireError(f"kind: found {shorten(request.kind, MAX_QUOTE_LENGTH)!r}, {expected}") from None


def _require_one_for_each_name(request: OpenSession.Request) -> None:
    for what, noted in (("state", "units"), ("action", "units"), ("action", "kinds")):
        names, entries = (len(getattr(request, f"{what}_{field}")) for field in ("names", noted))
        if entries not in {0, names}:
            expected = f"none or {names}, one for each of {what}_names"
            raise WireError(f"{what}_{noted}: found {entries} entries, expected {expected}")


def _require_cameras(names: Sequence[str]) -> None:
    if len(names) > MAX_CAMERAS:
        raise WireError(f"image_features: found {len(names)} cameras, expected {MAX_CAMERAS} at most")
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise WireError(f"image_features: found {twice!r} twice, expected each once")


def _require_namespace(namespace: str) -> None:
    """Check the namespace itself, not only its topics: `/a` and `/a/` would be two robots on one topic."""
    try:
        validate_namespace(namespace)
        for topic in (CHUNK_TOPIC, OBSERVATION_TOPIC):
            validate_full_topic_name(in_namespace(namespace, topic))
    except NameValidationException as error:
        reason = str(error).splitlines()[0]
        expected = f"a namespace such as '/robot_1' ({reason})"
        raise WireError(f"robot_namespace: found {namespace!r}, expected {expected}") from error


def reply_to_response(reply: SessionReply) -> OpenSession.Response:
    """Return the response that carries a reply."""
    return OpenSession.Response(**write_fields(reply, OpenSession.Response))


def status_from_response(response: GetStatus.Response) -> StatusReply:
    """Return what a robot reads in a response to GetStatus."""
    status = response.status
    response_ms = status.response_ms if math.isfinite(status.response_ms) else 0.0
    return StatusReply(
        status.accepting,
        tuple(status.image_features),
        max(0.0, response_ms) / 1e3,
        status.lifecycle_state == LOADING,
        status.instance_id,
    )


def reply_from_response(response: OpenSession.Response) -> SessionReply:
    """Return the reply in a response."""
    values = read_fields(response, OpenSession.Response, SessionReply)
    return SessionReply(**{**values, "observation_steps": max(1, response.observation_steps)})
