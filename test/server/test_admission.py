# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Admission: every row of the table rejects, and the reason of the first failing row names both sides."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

import remote_inference.base.wire.images.encodings  # noqa: F401  adds the encodings that are built in
from remote_inference.base.admission import FATAL_REJECTIONS, FatalMismatch, check_reply, judge
from remote_inference.base.exchange import ImageFeature, SessionReply
from remote_inference.base.limits import MAX_OBSERVATION_STEPS, RequestLimits
from remote_inference.base.policy import Continuation, PolicySpec, ServingMode
from remote_inference.server.sessions import Session, SessionRegistry
from support.builders import (
    CAMERA,
    JOINTS,
    ShiftProcessors,
    make_offer,
    make_spec as make_any_spec,
    make_terms,
)

DEPTH = ImageFeature("observation.images.depth", "png")


def make_spec(**changes: Any) -> PolicySpec:
    """Return the specification of a policy that says the robot's units."""
    return make_any_spec(**{"units": dict.fromkeys(JOINTS, "rad"), **changes})


# One violation per row of the table: (rejection, offer, terms, policy, words of the reason).
ROWS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], list[str]]] = [
    ("failing", {}, {"failing": "an inference has not ended for 16 s"}, {}, ["not ended for 16 s"]),
    ("actions", {"action_names": ("elbow", "shoulder")}, {}, {}, ["action 0", "'elbow'", "'shoulder'"]),
    ("cameras", {"images": (DEPTH,)}, {}, {}, [CAMERA, DEPTH.name]),
    (
        "cameras",
        {"images": (ImageFeature(CAMERA, "png"),)},
        {},
        {},
        [f"{CAMERA} is depth on the robot, colour in the policy"],
    ),
    ("state", {"state_names": ("shoulder", "wrist")}, {}, {}, ["state 1", "'wrist'", "'elbow'"]),
    (
        "kinds",
        {"action_kinds": ("position", "velocity")},
        {},
        {"kinds": {"shoulder": ("position", "pose"), "elbow": ("position", "pose")}},
        ["action 'elbow' is velocity on the robot, position or pose in the policy"],
    ),
    (
        "units",
        {"state_units": ("degrees", ""), "action_units": ("degrees", "rad")},
        {},
        {"units": {"shoulder": "degrees", "elbow": "percent"}},
        ["action 'elbow'", "in rad on the robot", "in percent in the policy"],
    ),
    ("history", {"max_observation_steps": 0}, {}, {}, ["1 control ticks", "0 at most"]),
    ("schema", {"schema_version": 9}, {}, {}, ["9", "1"]),
    ("limits", {}, {"limits": RequestLimits(cameras=0)}, {}, ["1 cameras", "0 at most", "max_cameras"]),
    ("name", {}, {"name_taken": True}, {}, ["/robot_1", "another process"]),
    (
        "weights",
        {"accepts_weight_updates": False},
        {"updates_weights": True},
        {},
        ["stays as it was loaded", "weights.accept"],
    ),
    ("task", {"task": "clap"}, {"pin_task": True}, {}, ["'clap'", "'wave'"]),
    ("capacity", {}, {"active_sessions": 4, "load": 0.83}, {}, ["4 of 4", "83%"]),
    ("fps", {"fps": 10.0}, {"strict_fps": True}, {}, ["10", "20"]),
    ("fps", {"fps": math.nan}, {}, {}, ["fps: found nan", "above 0 Hz"]),
    ("fps", {"fps": math.inf}, {}, {}, ["fps: found inf", "above 0 Hz"]),
    ("fps", {"fps": -1.0}, {}, {}, ["fps: found -1", "above 0 Hz"]),
]


@pytest.mark.parametrize(("rejection", "offer", "terms", "spec", "words"), ROWS, ids=[row[0] for row in ROWS])
def test_each_rule_rejects_in_words(rejection: str, offer: dict, terms: dict, spec: dict, words: list[str]):
    verdict = judge(make_offer(**offer), make_spec(**spec), make_terms(**terms))
    assert not verdict.accepted
    assert verdict.rejection == rejection
    assert all(word in verdict.reason for word in words)


@pytest.mark.parametrize("first", range(len(ROWS)), ids=[row[0] for row in ROWS])
def test_the_first_failing_rule_is_the_one_named(first: int):
    """The offer breaks this row of the table and all rows after it."""
    offer: dict[str, Any] = {}
    terms: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    for _, of_offer, of_terms, of_spec, _ in ROWS[first:]:
        offer |= of_offer
        terms |= of_terms
        spec |= of_spec
    assert judge(make_offer(**offer), make_spec(**spec), make_terms(**terms)).rejection == ROWS[first][0]


@pytest.mark.parametrize(
    ("steps", "most", "reason"),
    [
        (1, 2 * 480 * 640, ""),
        (1, 480 * 640, "robot's images have 614400 pixels in 1 control ticks, server takes 307200 at most"),
        (3, 614_400, "robot's images have 1843200 pixels in 3 control ticks, server takes 614400 at most"),
    ],
)
def test_the_pixels_that_a_robot_announces_are_limited(steps: int, most: int, reason: str):
    """Those of all its cameras and of all control ticks that a request shows; an unknown size counts as 0."""
    images = (
        ImageFeature(CAMERA, "jpeg", 480, 640),
        ImageFeature("images.unused", "raw", 480, 640),
        ImageFeature("images.unknown", "jpeg"),
    )
    terms = make_terms(limits=RequestLimits(pixels=most))
    verdict = judge(make_offer(images=images), make_spec(observation_steps=steps), terms)
    assert (verdict.rejection, verdict.reason) == (
        ("limits", f"{reason} (max_request_pixels)") if reason else ("", "")
    )


def test_a_matching_robot_is_admitted_without_warnings():
    verdict = judge(make_offer(), make_spec(), make_terms())
    assert verdict.accepted
    assert verdict.warnings == ()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("shoulder",), ["1", "2"]),
        (("shoulder", "elbow", "wrist"), ["3", "2"]),
        ((), ["0", "2"]),
        (("shoulder", "Elbow"), ["1", "'Elbow'", "'elbow'"]),
    ],
)
@pytest.mark.parametrize("what", ["action_names", "state_names"])
def test_names_are_compared_exactly_in_order_and_number(what: str, names: tuple[str, ...], words: list[str]):
    verdict = judge(make_offer(**{what: names}), make_spec(), make_terms())
    assert verdict.rejection == {"action_names": "actions", "state_names": "state"}[what]
    assert all(word in verdict.reason for word in words)


@pytest.mark.parametrize(
    ("offer", "units"),
    [
        ({}, {"shoulder": "rad", "elbow": "rad"}),
        ({"state_units": ("", "percent"), "action_units": ("", "percent")}, {"elbow": "percent"}),
        ({"state_units": (), "action_units": ()}, {"elbow": "percent"}),  # a robot that says none
        ({"state_units": ("degrees",) * 2, "action_units": ("degrees",) * 2}, {}),
    ],
)
def test_units_are_compared_where_both_sides_say_them(offer: dict[str, Any], units: dict[str, str]):
    assert judge(make_offer(**offer), make_spec(units=units), make_terms()).accepted


@pytest.mark.parametrize(
    ("offer", "kinds"),
    [
        ({"action_kinds": ("position", "velocity")}, {"elbow": ("velocity", "effort")}),
        ({"action_kinds": ()}, {"elbow": ("position",)}),  # a robot that says none
        ({"action_kinds": ("effort", "effort")}, {}),
    ],
)
def test_kinds_are_compared_where_both_sides_say_them(offer: dict[str, Any], kinds: dict[str, Any]):
    assert judge(make_offer(**offer), make_spec(kinds=kinds), make_terms()).accepted


def test_a_robot_that_adds_its_state_gets_no_answers_that_have_it_already():
    """Or an arm would go twice as far."""
    offer = make_offer(action_kinds=("relative_position", "position"))
    verdict = judge(offer, make_spec(kinds={"shoulder": ("position", "pose")}), make_terms())
    assert (verdict.rejection, verdict.reason) == (
        "kinds",
        "action 'shoulder' is relative_position on the robot, position or pose in the policy: "
        "its answers have the robot's state in them already",
    )


def test_a_robot_of_relative_actions_is_told_that_it_gets_no_rtc():
    offer = make_offer(action_kinds=("position", "relative_position"), wants_rtc=False)
    continues = make_spec(continuation=Continuation.TRAINED)
    (warning,) = judge(offer, continues, make_terms()).warnings
    assert warning == "the robot's actions are relative: no chunk continues another (no RTC)"
    assert judge(offer, make_spec(continuation=Continuation.NONE), make_terms()).warnings == ()


def test_the_state_s_unit_is_compared_too():
    units = {"state_units": ("degrees", "degrees"), "action_units": ("rad", "")}
    verdict = judge(make_offer(**units), make_spec(units={"shoulder": "rad"}), make_terms())
    assert (verdict.rejection, verdict.reason) == (
        "units",
        "state 'shoulder' is in degrees on the robot, in rad in the policy",
    )


def test_a_joint_with_two_units_is_a_warning():
    offer = make_offer(state_units=("degrees", "rad"), action_units=("rad", "rad"))
    warning, *_ = judge(offer, make_spec(units={}), make_terms()).warnings
    assert warning == "'shoulder': the robot sends its state in degrees and takes actions in rad"


@pytest.mark.parametrize(
    ("offer", "units", "said"),
    [
        ({}, {}, "the policy does not say units; shoulder, elbow are taken as rad"),
        ({}, {"elbow": "rad"}, "the policy does not say units; shoulder is taken as rad"),
        (
            {"state_units": ("degrees", "m"), "action_units": ("degrees", "m")},
            {},
            "the policy does not say units; shoulder is taken as degrees; elbow is taken as m",
        ),
        (
            {"state_units": ("", ""), "action_units": ("", "rad")},
            {"shoulder": "degrees", "elbow": "rad"},
            "the robot does not say units; shoulder is taken as degrees",
        ),
    ],
)
def test_a_unit_that_one_side_does_not_say_is_a_warning(
    offer: dict[str, Any], units: dict[str, str], said: str
):
    verdict = judge(make_offer(**offer), make_spec(units=units), make_terms())
    assert verdict.accepted
    assert verdict.warnings == (said,)


def test_a_client_that_knows_no_units_is_not_warned_of_them():
    offer = make_offer(state_units=(), action_units=())
    assert judge(offer, make_spec(units={}), make_terms()).warnings == ()


def test_a_task_in_a_refusal_is_cut():
    terms = make_terms(pin_task=True)
    reply = SessionRegistry("server").reply(make_offer(task="T" * 4_000), make_spec(), terms)
    assert reply.rejection == "task"
    assert len(reply.message) < 1_100


def test_every_missing_camera_is_named():
    spec = make_spec(image_shapes={"images.a": (4, 4, 3), "images.b": (4, 4, 3)})
    reason = judge(make_offer(images=()), spec, make_terms()).reason
    assert "images.a" in reason
    assert "images.b" in reason


def test_a_camera_that_the_policy_does_not_use_is_a_warning():
    offer = make_offer()
    verdict = judge(replace(offer, images=(*offer.images, DEPTH)), make_spec(), make_terms())
    assert verdict.accepted
    assert DEPTH.name in verdict.warnings[0]


@pytest.mark.parametrize(("most", "accepted"), [(2, False), (3, True), (16, True)])
def test_a_robot_must_be_able_to_send_as_many_steps_as_the_policy_sees(most: int, accepted: bool):
    spec = make_spec(observation_steps=3)
    verdict = judge(make_offer(max_observation_steps=most), spec, make_terms())
    assert verdict.accepted == accepted
    assert accepted or verdict.reason == (
        "policy needs observations of 3 control ticks, robot sends 2 at most"
    )


def test_the_robot_s_own_node_can_send_what_any_policy_may_ask_for():
    assert judge(make_offer(), make_spec(observation_steps=MAX_OBSERVATION_STEPS), make_terms()).accepted


@pytest.mark.parametrize("steps", [0, 17])
def test_a_robot_refuses_to_send_more_steps_than_it_keeps(steps: int):
    reply = SessionRegistry("i1").reply(make_offer(), make_spec(), make_terms())
    with pytest.raises(FatalMismatch, match=rf"observation_steps: found {steps}, expected 1 to 16"):
        check_reply(make_offer(), replace(reply, observation_steps=steps), None)


def test_another_task_is_welcome_unless_the_task_is_pinned():
    assert judge(make_offer(task="clap"), make_spec(), make_terms()).accepted
    assert judge(make_offer(), make_spec(), make_terms(pin_task=True)).accepted
    assert judge(make_offer(task=""), make_spec(), make_terms(pin_task=True)).accepted


def test_a_policy_that_reads_the_task_refuses_a_robot_without_any():
    """It would be asked with an empty prompt. A robot whose task comes with a reset asks again with it."""
    spec, without = make_spec(reads_task=True), make_terms(default_task="")
    for task in ("", "  "):
        verdict = judge(make_offer(task=task), spec, without)
        assert (verdict.rejection, verdict.reason) == (
            "task",
            "policy waver reads the task: found none, expected `task` in the robot's contract or in its "
            "reset, or `default_task` in the server's manifest",
        )
    assert "task" not in FATAL_REJECTIONS
    assert judge(make_offer(task="clap"), spec, without).accepted
    assert judge(make_offer(task=""), spec, make_terms()).accepted
    assert judge(make_offer(task=""), spec, make_terms(pin_task=True)).accepted
    assert judge(make_offer(task=""), make_spec(), without).accepted
    assert judge(make_offer(task="", tasks_in_requests=True), spec, without).accepted


@pytest.mark.parametrize(("active", "accepted"), [(0, True), (3, True), (4, False), (5, False)])
def test_capacity_is_the_manifests(active: int, accepted: bool):
    assert judge(make_offer(), make_spec(), make_terms(active_sessions=active)).accepted == accepted


def test_an_exclusive_policy_admits_one_robot_for_any_max_sessions():
    spec = make_spec(serving_mode=ServingMode.EXCLUSIVE)
    assert judge(make_offer(), spec, make_terms(max_sessions=4)).accepted
    verdict = judge(make_offer(), spec, make_terms(max_sessions=4, active_sessions=1))
    assert verdict.rejection == "capacity"
    assert "1 of 1" in verdict.reason


def test_another_control_rate_is_a_warning_unless_fps_is_strict():
    verdict = judge(make_offer(fps=10.0), make_spec(), make_terms())
    assert verdict.accepted
    assert "10" in verdict.warnings[0]
    assert "20" in verdict.warnings[0]


def test_the_rounding_of_float32_on_the_wire_is_no_other_control_rate():
    verdict = judge(make_offer(fps=29.969999), make_spec(trained_fps=29.97), make_terms(strict_fps=True))
    assert verdict.accepted
    assert verdict.warnings == ()


@pytest.mark.parametrize(
    ("height", "width", "warned"),
    [(48, 64, False), (480, 640, False), (0, 0, False), (720, 1280, True), (64, 48, True)],
)
def test_another_aspect_ratio_is_a_warning(height: int, width: int, warned: bool):
    image = ImageFeature(CAMERA, "jpeg", height, width)
    verdict = judge(make_offer(images=(image,)), make_spec(), make_terms())
    assert verdict.accepted
    assert bool(verdict.warnings) == warned
    if warned:
        assert CAMERA in verdict.warnings[0]
        assert f"{width}x{height}" in verdict.warnings[0]
        assert "64x48" in verdict.warnings[0]


def test_rtc_is_downgraded_with_a_warning():
    registry, spec = SessionRegistry("i1"), make_spec(continuation=Continuation.NONE)
    reply = registry.reply(make_offer(wants_rtc=True), spec, make_terms())
    assert reply.accepted
    assert not reply.rtc
    assert "RTC" in reply.warnings[0]
    assert registry.reply(make_offer(wants_rtc=False), spec, make_terms()).warnings == ()


def test_a_draining_server_admits_nobody():
    assert judge(make_offer(), make_spec(), make_terms(accepting=False)).rejection == "draining"


def test_the_reply_tells_the_robot_everything_about_the_policy():
    reply = SessionRegistry("i1").reply(make_offer(), make_spec(), make_terms())
    assert reply.server_instance_id == "i1"
    assert reply.action_names == ("shoulder", "elbow")
    assert (reply.chunk_size, reply.trained_fps, reply.rtc, reply.serving_mode) == (20, 20.0, True, "shared")
    assert (reply.policy_name, reply.policy_revision, reply.policy_fingerprint) == ("waver", "1", "f1")
    assert (reply.schema_version, reply.observation_steps) == (1, 1)
    check_reply(make_offer(), reply, "f1")


def test_a_refusal_for_capacity_carries_the_load():
    reply = SessionRegistry("i1").reply(make_offer(), make_spec(), make_terms(active_sessions=4, load=0.5))
    assert not reply.accepted
    assert (reply.load, reply.active_sessions, reply.max_sessions) == (0.5, 4, 4)


@pytest.mark.parametrize("rejection", ["capacity", "limits", "draining", "failing"])
def test_a_temporary_refusal_is_no_violation(rejection: str):
    check_reply(make_offer(), SessionReply(accepted=False, rejection=rejection), "f1")


@pytest.mark.parametrize("rejection", ["actions", "cameras", "state", "units", "history", "schema"])
def test_a_permanent_refusal_is_a_violation(rejection: str):
    with pytest.raises(FatalMismatch, match="the words"):
        check_reply(
            make_offer(), SessionReply(accepted=False, rejection=rejection, message="the words"), None
        )


def test_the_registry_knows_sessions_by_id_and_by_robot():
    registry = SessionRegistry("i1")
    first = Session("s1", make_offer(), ShiftProcessors())
    second = Session("s2", make_offer(robot_namespace="/robot_2"), ShiftProcessors())
    registry.add(first)
    registry.add(second)
    assert registry.get(first.session_id) is first
    assert registry.of_robot("/robot_2") is second
    assert registry.all() == (first, second)
    assert registry.remove(first.session_id) is first
    assert registry.remove(first.session_id) is None
    assert registry.get(first.session_id) is None
    assert registry.of_robot("/robot_1") is None
    assert len(registry) == 1
