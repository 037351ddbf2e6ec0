# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the doctor makes of sensors: those of a contract, and those that a robot's node waits for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import pytest
from doctor_facts import (
    CONTRACT,
    FRONT,
    FRONT_FEATURE,
    HEALTHY,
    JOINTS,
    NAMES,
    STATUS,
    WRIST,
    WRIST_FEATURE,
    about,
    changed,
    changed_topic,
)
from rclpy.serialization import serialize_message
from rclpy.time import Time
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from remote_inference.base import fast_dds
from remote_inference.base.paths import share_path
from remote_inference.msg import ServerStatus
from remote_inference.tools.deployment.doctor.doctor import Finding, Level, NodeSettings, TopicFacts
from remote_inference.tools.deployment.doctor.sensors import (
    HEAD_BYTES,
    LOSSES,
    advise_on_losses,
    find_sent_hz,
    find_unused_topics,
    judge_sensors,
    judge_stale,
)

DEFAULTS = NodeSettings()


def judge(
    topic: str, settings: NodeSettings = DEFAULTS, *, simulated: bool = False, **changes: Any
) -> Finding:
    """Return the finding about one sensor, of which some facts are changed."""
    facts = changed_topic(topic, **changes)
    return about(judge_sensors(CONTRACT, "/arm", facts, settings, simulated=simulated), topic)


def test_healthy_sensors_are_ok() -> None:
    findings = list(judge_sensors(CONTRACT, "/arm", HEALTHY, DEFAULTS))
    assert len(findings) == 3
    assert {finding.level for finding in findings} == {Level.OK}


@pytest.mark.parametrize(
    ("changes", "level", "found"),
    [
        ({"publishers": ()}, Level.ERROR, "no publisher"),
        ({"types": ("sensor_msgs/msg/Image",)}, Level.ERROR, "published as sensor_msgs/msg/Image"),
        ({"rate_hz": 0.0}, Level.ERROR, "no message from /camera"),
        ({"rate_hz": math.nan}, Level.ERROR, "no message from /camera"),
        ({"rate_hz": 1.0}, Level.ERROR, "1.0 Hz from /camera"),
        ({"publishers": ("/a", "/b")}, Level.WARNING, "30.0 Hz from /a, /b"),
        ({"unreadable": True}, Level.ERROR, "messages that cannot be read from /camera"),
        ({"repeats": True}, Level.ERROR, "messages with one and the same stamp from /camera"),
        ({"stamp_age_s": 3600.0}, Level.WARNING, "stamps are 3600 s behind this machine's clock"),
        ({"stamp_age_s": -3600.0}, Level.WARNING, "stamps are 3600 s ahead of this machine's clock"),
    ],
)
def test_a_sensor_that_starves_the_policy_is_named(changes: dict[str, Any], level: Level, found: str) -> None:
    finding = judge(FRONT, **changes)
    assert (finding.level, finding.found) == (level, found)
    assert finding.expected
    assert finding.advice


@pytest.mark.parametrize(
    ("rate_hz", "max_sensor_age_s", "level"),
    [
        (15.0, 0.5, Level.OK),  # slower than the 30 Hz of control
        (2.5, 0.5, Level.OK),
        (1.9, 0.5, Level.ERROR),
        (1.9, 1.0, Level.OK),
        (15.0, 0.05, Level.ERROR),
    ],
)
def test_a_camera_is_judged_by_how_old_its_image_may_be(
    rate_hz: float, max_sensor_age_s: float, level: Level
) -> None:
    finding = judge(FRONT, NodeSettings(max_sensor_age_s), rate_hz=rate_hz)
    assert finding.level is level
    if level is Level.ERROR:
        limit = 1.0 / max_sensor_age_s
        assert finding.expected == f"{limit:g} Hz or faster, max_sensor_age_s is {max_sensor_age_s:g}"


@pytest.mark.parametrize(
    ("sent_hz", "level"),
    [(math.nan, Level.OK), (25.0, Level.OK), (30.0, Level.WARNING)],
    ids=["not known", "nearly all arrive", "a fifth is lost"],
)
def test_a_camera_of_which_fewer_images_arrive_than_it_sends_is_told_what_helps(
    sent_hz: float, level: Level
) -> None:
    facts = changed_topic(WRIST, rate_hz=24.5, sent_hz=sent_hz)
    findings = judge_sensors(CONTRACT, "/arm", facts, DEFAULTS, losses=advise_on_losses("rmw_fastrtps_cpp"))
    finding = about(findings, WRIST)
    assert finding.level is level
    if level is Level.WARNING:
        assert finding.expected == "30.0 Hz, by its stamps"
        assert f"export {fast_dds.profile_variable()}={share_path('config', 'fastdds.xml')}" in finding.advice


def test_stamps_of_simulated_time_say_nothing_of_losses() -> None:
    facts = changed_topic(WRIST, rate_hz=24.5, sent_hz=49.0)
    finding = about(judge_sensors(CONTRACT, "/arm", facts, DEFAULTS, simulated=True), WRIST)
    assert finding.level is Level.OK


def test_only_raw_images_are_too_large_for_fast_dds() -> None:
    facts = changed_topic(FRONT, rate_hz=24.5, sent_hz=30.0)
    findings = judge_sensors(CONTRACT, "/arm", facts, DEFAULTS, losses=advise_on_losses("rmw_fastrtps_cpp"))
    assert about(findings, FRONT).advice == advise_on_losses("rmw_zenoh_cpp") == LOSSES


def heads_of(times_s: Iterable[float]) -> list[bytes]:
    """Return the beginnings of images that were stamped at these times, as they travel."""
    stamps = (Time(nanoseconds=round(1.7e18 + at_s * 1e9)).to_msg() for at_s in times_s)
    return [serialize_message(Image(header=Header(stamp=stamp)))[:HEAD_BYTES] for stamp in stamps]


def test_stamps_say_how_many_images_were_sent_where_some_are_lost() -> None:
    sent_s = [number / 30.0 + 0.002 * (number % 2) for number in range(60)]
    assert find_sent_hz(heads_of(sent_s)) == pytest.approx(30.0, rel=0.1)
    arrived_s = [at_s for number, at_s in enumerate(sent_s) if number % 5]
    assert find_sent_hz(heads_of(arrived_s)) == pytest.approx(30.0, rel=0.1)
    few_s = [number / 30.0 for number in range(90) if number % 5 in (0, 1)]
    assert find_sent_hz(heads_of(few_s)) == pytest.approx(30.0, rel=0.1)


@pytest.mark.parametrize(
    "times_s",
    [
        [],
        [number / 30.0 for number in range(9)],
        60 * [0.0],
        list(accumulate(30 * [0.02, 0.05])),
        list(accumulate(30 * [0.01, 0.01, 0.09])),
    ],
    ids=["none", "few", "no stamps that advance", "no one rate", "bursts"],
)
def test_stamps_without_a_rate_say_nothing(times_s: list[float]) -> None:
    assert math.isnan(find_sent_hz(heads_of(times_s)))
    assert math.isnan(find_sent_hz([head[:5] for head in heads_of(times_s)]))


@pytest.mark.parametrize(("rate_hz", "level"), [(30.0, Level.OK), (15.0, Level.WARNING)])
def test_joints_are_as_fast_as_control(rate_hz: float, level: Level) -> None:
    assert judge(JOINTS, rate_hz=rate_hz).level is level


def test_a_joint_that_no_message_has_is_named_with_the_topic_and_the_names_there_are() -> None:
    finding = judge(JOINTS, missing=("gripper",), joints=(("gripper_joint", "elbow"), ("wheel",)))
    assert (finding.level, finding.subject) == (Level.ERROR, f"sensor {JOINTS}")
    assert finding.found == "no message from /driver has gripper, they have elbow, gripper_joint, wheel"
    assert "start the drivers" not in finding.text
    assert judge(JOINTS, missing=("gripper",), joints=((),)).found.endswith("has gripper, they have no joint")


@pytest.mark.parametrize(
    ("joints", "level"),
    [
        ((NAMES[:2], NAMES[2:]), Level.OK),  # the node merges them
        ((NAMES,), Level.WARNING),
        ((NAMES, NAMES[2:]), Level.WARNING),
    ],
    ids=["each its own", "the same", "some twice"],
)
def test_drivers_may_share_a_topic_but_no_joint(joints: tuple[tuple[str, ...], ...], level: Level) -> None:
    finding = judge(JOINTS, publishers=("/driver", "/gripper_driver"), joints=joints)
    assert finding.level is level


@pytest.mark.parametrize("age_s", [1.9, -1.9, math.nan], ids=["late", "early", "no stamp"])
def test_a_stamp_that_is_about_now_or_missing_is_well(age_s: float) -> None:
    assert judge(JOINTS, stamp_age_s=age_s).level is Level.OK


def test_stamps_of_a_simulation_are_not_compared_with_the_wall_clock() -> None:
    assert judge(JOINTS, stamp_age_s=1.7e9).level is Level.WARNING
    assert judge(JOINTS, stamp_age_s=1.7e9, simulated=True).level is Level.OK


@pytest.mark.parametrize(
    ("policies", "level"),
    [
        ([], Level.ERROR),  # nobody knows yet
        ([[WRIST_FEATURE]], Level.OK),
        ([[WRIST_FEATURE, FRONT_FEATURE]], Level.ERROR),
        ([[WRIST_FEATURE], [FRONT_FEATURE]], Level.ERROR),  # one of the servers
    ],
)
def test_a_camera_that_no_server_s_policy_uses_may_be_silent(policies: list[list[str]], level: Level) -> None:
    servers = {f"/{n}": changed(STATUS, image_features=names) for n, names in enumerate(policies)}
    unused = find_unused_topics(CONTRACT, {**servers, "/mute": None, "/idle": ServerStatus()})
    facts = changed_topic(FRONT, publishers=())
    findings = list(judge_sensors(CONTRACT, "/arm", facts, DEFAULTS, unused=unused, stale=unused))
    assert about(findings, FRONT).level is level
    assert about(findings, WRIST).level is Level.OK


def test_a_sensor_that_the_node_cannot_use_is_an_error_though_it_is_heard_here() -> None:
    stale = about(judge_sensors(CONTRACT, "/arm", HEALTHY, DEFAULTS, stale=["wrist/image_raw"]), WRIST)
    assert stale.level is Level.ERROR
    assert stale.found == "the node has no fresh message: 30.0 Hz from /camera as sensor_msgs/msg/Image"
    facts = changed_topic(WRIST, publishers=())
    absent = about(judge_sensors(CONTRACT, "/arm", facts, DEFAULTS, stale=["wrist/image_raw"]), WRIST)
    assert absent.found == "no publisher", "what the contract tells is more"


IMAGE = "sensor_msgs/msg/Image"


@pytest.mark.parametrize(
    ("facts", "found", "advice"),
    [
        (TopicFacts(), "no publisher", "start its driver"),
        (TopicFacts((IMAGE,), ("/cam",), rate_hz=0.0), "none from /cam", "whether the driver hangs"),
        (
            TopicFacts(("sensor_msgs/msg/CompressedImage", IMAGE), ("/cam",), rate_hz=0.0),
            f"known as sensor_msgs/msg/CompressedImage, {IMAGE}",
            "mend the contract's type",
        ),
        (
            TopicFacts((IMAGE,), ("/cam",), rate_hz=9.0, repeats=True),
            "messages with one and the same stamp from /cam",
            "mend its stamps",
        ),
        (
            TopicFacts((IMAGE,), ("/cam",), rate_hz=9.0, unreadable=True),
            "messages that cannot be read from /cam",
            "install the same version on both",
        ),
        (TopicFacts((IMAGE,), ("/cam",), rate_hz=9.0), f"9.0 Hz from /cam as {IMAGE}", "node's log"),
        (
            TopicFacts(
                ("sensor_msgs/msg/JointState",), ("/driver",), rate_hz=9.0, joints=(("b",), ("a", "c"))
            ),
            "9.0 Hz from /driver as sensor_msgs/msg/JointState with the joints a, b, c",
            "look for one that is missing here",
        ),
    ],
    ids=["absent", "mute", "two types", "one stamp", "unreadable", "unusable", "joints"],
)
def test_what_a_node_waits_for_is_told_without_its_contract(
    facts: TopicFacts, found: str, advice: str
) -> None:
    (finding,) = judge_stale("/arm", ["front/image"], {"/arm/front/image": facts})
    assert (finding.level, finding.subject) == (Level.ERROR, "sensor /arm/front/image")
    assert finding.found == f"the node has no fresh message: {found}"
    assert advice in finding.advice
    assert list(judge_stale("/arm", [], {})) == []
