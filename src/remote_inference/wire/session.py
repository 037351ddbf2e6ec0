# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of the handshake: what a server says of itself, a robot's offer and the server's reply."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rclpy.exceptions import NameValidationException
from rclpy.validate_full_topic_name import validate_full_topic_name
from rclpy.validate_namespace import validate_namespace

from remote_inference.core.contract.image_encodings import RAW
from remote_inference.core.exchange import (
    ImageFeature,
    SessionKind,
    SessionOffer,
    SessionReply,
    StatusReply,
    in_namespace,
)
from remote_inference.core.limits import (
    MAX_CAMERAS,
    MAX_NAME_LENGTH,
    MAX_QUOTE_LENGTH,
    MAX_TASK_LENGTH,
    find_length_problem,
    shorten,
)
from remote_inference.core.tags import parse_tags, write_tags
from remote_inference.srv import GetStatus, OpenSession
from remote_inference.wire.arrays import WireError
from remote_inference.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.wire.images.images import require_possible_sizes
from remote_inference.wire.qos import CHUNK_TOPIC, OBSERVATION_TOPIC

_LISTS = ("action_names", "state_names", "action_units", "state_units", "action_kinds")


def offer_to_request(offer: SessionOffer) -> OpenSession.Request:
    """Return the request that carries an offer."""
    return OpenSession.Request(
        client=offer.client,
        client_instance_id=offer.client_instance_id,
        robot_namespace=offer.robot_namespace,
        robot_type=offer.robot_type,
        session_epoch=offer.session_epoch,
        schema_version=offer.schema_version,
        action_names=list(offer.action_names),
        state_names=list(offer.state_names),
        image_features=[image.name for image in offer.images],
        image_encodings=[image.encoding for image in offer.images],
        image_heights=[image.height for image in offer.images],
        image_widths=[image.width for image in offer.images],
        fps=float(offer.fps),
        task=offer.task,
        wants_rtc=offer.wants_rtc,
        max_observation_steps=offer.max_observation_steps,
        tags=list(write_tags(offer.tags)),
        state_units=list(offer.state_units),
        action_units=list(offer.action_units),
        action_kinds=list(offer.action_kinds),
        kind=offer.kind.value,
        refuses_weight_updates=not offer.accepts_weight_updates,
    )


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
            raise WireError(
                f"{field}: found {len(getattr(request, field))} entries, "
                f"expected {len(request.image_features)}, one for each of image_features"
            )
    columns = (request.image_features, request.image_encodings, request.image_heights, request.image_widths)
    images = tuple(ImageFeature(*row) for row in zip(*columns, strict=True))
    known = (*IMAGE_ENCODINGS.names, RAW)
    for image in images:
        if image.encoding not in known:
            raise WireError(
                f"image_encodings: found {image.encoding!r} for {image.name}, "
                f"expected one of {', '.join(known)}"
            )
    require_possible_sizes(images)
    _require_one_for_each_name(request)
    try:
        tags = parse_tags(request.tags)
    except ValueError as error:
        raise WireError(f"tags: {error}") from error
    return SessionOffer(
        client=request.client,
        client_instance_id=request.client_instance_id,
        robot_namespace=request.robot_namespace,
        robot_type=request.robot_type,
        session_epoch=request.session_epoch,
        schema_version=request.schema_version,
        action_names=tuple(request.action_names),
        state_names=tuple(request.state_names),
        images=images,
        fps=request.fps,
        task=request.task,
        wants_rtc=request.wants_rtc,
        max_observation_steps=max(1, request.max_observation_steps),
        tags=tags,
        state_units=tuple(request.state_units),
        action_units=tuple(request.action_units),
        action_kinds=tuple(request.action_kinds),
        kind=_kind_of(request),
        accepts_weight_updates=not request.refuses_weight_updates,
    )


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
    """Return the kind in a request; robots of earlier releases say none."""
    try:
        return SessionKind(request.kind) if request.kind else SessionKind.ROBOT
    except ValueError:
        expected = f"expected one of {', '.join(kind.value for kind in SessionKind)}"
        raise WireError(f"kind: found {shorten(request.kind, MAX_QUOTE_LENGTH)!r}, {expected}") from None


def _require_one_for_each_name(request: OpenSession.Request) -> None:
    for what, said in (("state", "units"), ("action", "units"), ("action", "kinds")):
        names, entries = (len(getattr(request, f"{what}_{field}")) for field in ("names", said))
        if entries not in {0, names}:
            raise WireError(
                f"{what}_{said}: found {entries} entries, expected none or {names}, one for each of "
                f"{what}_names"
            )


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
        raise WireError(
            f"robot_namespace: found {namespace!r}, expected a namespace such as '/robot_1' ({reason})"
        ) from error


def reply_to_response(reply: SessionReply) -> OpenSession.Response:
    """Return the response that carries a reply."""
    return OpenSession.Response(
        accepted=reply.accepted,
        rejection=reply.rejection,
        message=reply.message,
        warnings=list(reply.warnings),
        session_id=reply.session_id,
        server_instance_id=reply.server_instance_id,
        schema_version=reply.schema_version,
        action_names=list(reply.action_names),
        chunk_size=reply.chunk_size,
        observation_steps=reply.observation_steps,
        trained_fps=float(reply.trained_fps),
        rtc=reply.rtc,
        continuation=reply.continuation,
        serving_mode=reply.serving_mode,
        policy_name=reply.policy_name,
        policy_revision=reply.policy_revision,
        policy_fingerprint=reply.policy_fingerprint,
        load=float(reply.load),
        active_sessions=reply.active_sessions,
        max_sessions=reply.max_sessions,
        session_token=reply.session_token,
    )


def status_from_response(response: GetStatus.Response) -> StatusReply:
    """Return what a robot reads in a response to GetStatus."""
    status = response.status
    response_ms = status.response_ms if math.isfinite(status.response_ms) else 0.0
    return StatusReply(status.accepting, tuple(status.image_features), max(0.0, response_ms) / 1e3)


def reply_from_response(response: OpenSession.Response) -> SessionReply:
    """Return the reply in a response."""
    return SessionReply(
        accepted=response.accepted,
        rejection=response.rejection,
        message=response.message,
        warnings=tuple(response.warnings),
        session_id=response.session_id,
        server_instance_id=response.server_instance_id,
        schema_version=response.schema_version,
        action_names=tuple(response.action_names),
        chunk_size=response.chunk_size,
        observation_steps=max(1, response.observation_steps),
        trained_fps=response.trained_fps,
        rtc=response.rtc,
        continuation=response.continuation,
        serving_mode=response.serving_mode,
        policy_name=response.policy_name,
        policy_revision=response.policy_revision,
        policy_fingerprint=response.policy_fingerprint,
        load=response.load,
        active_sessions=response.active_sessions,
        max_sessions=response.max_sessions,
        session_token=response.session_token,
    )
