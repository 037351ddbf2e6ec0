# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Both halves of the session handshake survive the wire."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from rclpy.exceptions import NameValidationException
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.validate_full_topic_name import validate_full_topic_name

from remote_inference.base.exchange import (
    ImageFeature,
    SessionKind,
    SessionOffer,
    SessionReply,
    in_namespace,
)
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.qos import CHUNK_TOPIC, OBSERVATION_TOPIC
from remote_inference.base.wire.session import (
    offer_from_request,
    offer_to_request,
    reply_from_response,
    reply_to_response,
    status_from_response,
)
from remote_inference.msg import ServerStatus
from remote_inference.srv import GetStatus, OpenSession

text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
texts = st.lists(text, max_size=4).map(tuple)
uint32 = st.integers(0, 2**32 - 1)
uint16 = st.integers(0, 2**16 - 1)
float32 = st.floats(0, 1e6, width=32)
height, width = st.integers(0, 3072), st.integers(0, 4096)
tags = st.dictionaries(
    st.from_regex(r"[A-Za-z]\w{0,31}", fullmatch=True).filter(str.isascii),
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=128),
    max_size=4,
)
features = st.builds(ImageFeature, text, st.sampled_from(["jpeg", "png", "raw"]), height, width)
offers = st.builds(
    SessionOffer,
    client=text,
    client_instance_id=text,
    robot_namespace=st.sampled_from(["/", "/robot_1", "/fleet/robot_1"]),
    robot_type=text,
    session_epoch=uint32,
    schema_version=uint16,
    action_names=st.just(("a", "b")),
    state_names=texts,
    images=st.lists(features, max_size=3, unique_by=lambda image: image.name).map(tuple),
    fps=float32,
    task=text,
    wants_rtc=st.booleans(),
    max_observation_steps=st.integers(1, 2**32 - 1),
    tags=tags,
    action_units=st.one_of(st.just(()), st.tuples(text, text)),
    kind=st.sampled_from(SessionKind),
)
replies = st.builds(
    SessionReply,
    accepted=st.booleans(),
    rejection=text,
    message=text,
    warnings=texts,
    session_id=text,
    server_instance_id=text,
    schema_version=uint16,
    action_names=texts,
    chunk_size=uint32,
    observation_steps=st.integers(1, 2**32 - 1),
    trained_fps=float32,
    rtc=st.booleans(),
    continuation=text,
    serving_mode=text,
    policy_name=text,
    policy_revision=text,
    policy_fingerprint=text,
    load=st.floats(0, 1, width=32),
    active_sessions=uint32,
    max_sessions=uint32,
    session_token=text,
)


@settings(deadline=None)
@given(offers)
def test_an_offer_survives(offer):
    request = deserialize_message(serialize_message(offer_to_request(offer)), OpenSession.Request)
    assert offer_from_request(request) == offer


@settings(deadline=None)
@given(replies)
def test_a_reply_survives(reply):
    response = deserialize_message(serialize_message(reply_to_response(reply)), OpenSession.Response)
    assert reply_from_response(response) == reply


def offer_of_a_camera(height: int = 480, width: int = 640, encoding: str = "jpeg") -> OpenSession.Request:
    return OpenSession.Request(
        robot_namespace="/robot_1",
        image_features=["images.front"],
        image_encodings=[encoding],
        image_heights=[height],
        image_widths=[width],
    )


@pytest.mark.parametrize("field", ["image_encodings", "image_heights", "image_widths"])
def test_image_fields_of_different_lengths_are_refused(field):
    request = offer_of_a_camera()
    setattr(request, field, [])
    with pytest.raises(
        WireError, match=f"{field}: found 0 entries, expected 1, one for each of image_features"
    ):
        offer_from_request(request)


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("state_units", "state_names"),
        ("action_units", "action_names"),
        ("action_kinds", "action_names"),
    ],
)
def test_units_and_kinds_are_one_for_each_name_or_none(field, names):
    request = OpenSession.Request(robot_namespace="/arm", **{names: ["a", "b"]})
    assert getattr(offer_from_request(request), field) == ()
    setattr(request, field, ["rad"])
    with pytest.raises(
        WireError, match=f"{field}: found 1 entries, expected none or 2, one for each of {names}"
    ):
        offer_from_request(request)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"task": "T" * 3_000_000}, "task: found 3000000 characters, expected 4096 at most"),
        ({"client": "c" * 257}, "client: found 257 characters, expected 256 at most"),
        ({"client_instance_id": "c" * 257}, "client_instance_id: found 257 characters"),
        ({"robot_namespace": "/" + "c" * 256}, "robot_namespace: found 257 characters"),
        ({"robot_type": "c" * 257}, "robot_type: found 257 characters"),
        ({"action_names": ["a", "b" * 257]}, r"action_names\[1\]: found 257 characters"),
        ({"state_names": ["b" * 257]}, r"state_names\[0\]: found 257 characters"),
        ({"state_units": ["b" * 257]}, r"state_units\[0\]: found 257 characters"),
        ({"action_kinds": ["b" * 257]}, r"action_kinds\[0\]: found 257 characters"),
        ({"image_features": ["b" * 257]}, r"image_features\[0\]: found 257 characters"),
        ({"image_encodings": ["b" * 257]}, r"image_encodings\[0\]: found 257 characters"),
        ({"tags": ["site=" + "b" * 1_000_000]}, "tags: site: found 'bbb.*expected 1 to 128 printable"),
    ],
)
def test_a_text_that_is_too_long_is_refused_and_not_echoed(changes, expected):
    request = offer_of_a_camera()
    for field, value in changes.items():
        setattr(request, field, value)
    with pytest.raises(WireError, match=expected) as refusal:
        offer_from_request(request)
    assert len(str(refusal.value)) < 200


def cameras(names: list[str]) -> OpenSession.Request:
    count = len(names)
    return OpenSession.Request(
        robot_namespace="/robot_1",
        image_features=names,
        image_encodings=["jpeg"] * count,
        image_heights=[48] * count,
        image_widths=[64] * count,
    )


def test_sixteen_cameras_are_admitted_and_one_more_is_refused():
    names = [f"images.camera_{index}" for index in range(17)]
    assert len(offer_from_request(cameras(names[:16])).images) == 16
    with pytest.raises(WireError, match="image_features: found 17 cameras, expected 16 at most"):
        offer_from_request(cameras(names))


def test_one_camera_offered_twice_is_refused():
    with pytest.raises(WireError, match=r"image_features: found 'images\.front' twice, expected each once"):
        offer_from_request(cameras(["images.front", "images.back", "images.front"]))


def test_a_tag_that_could_forge_a_log_line_is_refused():
    request = offer_of_a_camera()
    request.tags = ["site=lab\n[ERROR] nothing"]
    with pytest.raises(WireError, match=r"tags: site: found 'lab\\n.*expected 1 to 128 printable"):
        offer_from_request(request)


def test_an_unknown_encoding_is_refused_naming_the_feature():
    with pytest.raises(WireError, match=r"found 'webp' for images\.front, expected one of jpeg, png, raw"):
        offer_from_request(offer_of_a_camera(encoding="webp"))


@pytest.mark.parametrize(("height", "width"), [(3073, 4096), (8191, 8191), (1, 8193)])
def test_images_too_large_to_be_decoded_are_refused_naming_the_feature(height, width):
    with pytest.raises(WireError, match=rf"images\.front: image: found {height} x {width} pixels"):
        offer_from_request(offer_of_a_camera(height, width))


@pytest.mark.parametrize(("height", "width"), [(3072, 4096), (0, 0), (2160, 3840)])
def test_images_of_a_possible_or_unknown_size_are_admitted(height, width):
    (image,) = offer_from_request(offer_of_a_camera(height, width)).images
    assert (image.height, image.width) == (height, width)


@pytest.mark.parametrize(
    "namespace", ["", "robot_1", "/robot_1/", "//robot_1", "/a//b", "/robot-1", "/a b", "~"]
)
def test_a_namespace_is_admitted_in_one_spelling_only(namespace):
    with pytest.raises(
        WireError, match=rf"robot_namespace: found '{namespace}', expected a namespace such as"
    ):
        offer_from_request(OpenSession.Request(robot_namespace=namespace))


def fits(namespace: str, topic: str) -> bool:
    try:
        validate_full_topic_name(in_namespace(namespace, topic))
    except NameValidationException:
        return False
    return True


def test_a_namespace_too_long_for_one_of_the_topics_is_refused():
    """Otherwise creating the second endpoint would fail and leave the server with half a session."""
    names = ["/" + "a" * length for length in range(200, 250)]
    chunk, observation = ([fits(name, topic) for name in names] for topic in (CHUNK_TOPIC, OBSERVATION_TOPIC))
    assert sum(chunk) > sum(observation) > 0
    longest = names[sum(observation) - 1]
    offer_from_request(OpenSession.Request(robot_namespace=longest))
    with pytest.raises(WireError, match="robot_namespace: found"):
        offer_from_request(OpenSession.Request(robot_namespace=f"{longest}a"))


def test_a_peer_that_knows_no_history_sends_and_wants_the_present_alone():
    assert offer_from_request(OpenSession.Request(robot_namespace="/arm")).max_observation_steps == 1
    assert reply_from_response(OpenSession.Response()).observation_steps == 1


@pytest.mark.parametrize(("response_ms", "response_s"), [(250.0, 0.25), (float("nan"), 0.0), (-1.0, 0.0)])
def test_a_robot_reads_what_the_server_measured_of_itself(response_ms: float, response_s: float):
    status = ServerStatus(accepting=True, image_features=["camera"], response_ms=response_ms)
    reply = status_from_response(GetStatus.Response(status=status))
    assert (reply.accepting, tuple(reply.image_features), reply.response_s) == (True, ("camera",), response_s)
    assert not reply.loading
    status = ServerStatus(lifecycle_state="loading")
    assert status_from_response(GetStatus.Response(status=status)).loading


def test_a_robot_that_says_no_kind_is_a_robot():
    request = OpenSession.Request(robot_namespace="/robot_1")
    assert offer_from_request(request).kind is SessionKind.ROBOT


def test_an_unknown_kind_is_refused_and_cut():
    request = OpenSession.Request(robot_namespace="/robot_1", kind="x" * 10_000)
    with pytest.raises(WireError, match=r"kind: found .x+.*, expected one of robot, evaluation") as error:
        offer_from_request(request)
    assert len(str(error.value)) < 300
