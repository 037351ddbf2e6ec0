# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The messages of LeRobot's asynchronous clients, read and written without LeRobot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks.lerobot_async import (
    read_image,
    read_observation,
    read_part,
    read_policy_wish,
    read_state,
    write_actions,
)
from support.lerobot_messages import (
    HELPERS,
    TRANSFER_BEGIN,
    VALUES,
    field,
    observation_pickle,
    part,
    pickle_of,
    picture,
    unpickle,
    wish_pickle,
)


def read_values(**changes: Any) -> Mapping[str, Any]:
    return read_observation(observation_pickle({**VALUES, **changes})).values


def read_all(values: Mapping[str, Any]) -> None:
    read_state(values, ("shoulder.pos", "elbow.pos"))
    read_image(values, "camera", (12, 16, 3))


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_a_wish_says_policy_joints_and_cameras(protocol: int):
    wish = read_policy_wish(field(1, wish_pickle("me/arm", protocol=protocol)))
    assert (wish.policy, wish.actions, wish.module) == ("me/arm", 10, HELPERS)
    assert wish.state_names == ("shoulder.pos", "elbow.pos")
    assert wish.cameras == {"observation.images.camera": "camera"}


def test_a_renamed_camera_is_known_by_the_policy_s_word():
    renamed = {"observation.images.camera": "observation.images.front"}
    wish = read_policy_wish(field(1, wish_pickle(rename_map=renamed)))
    assert wish.cameras == {"observation.images.front": "camera"}


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_an_observation_keeps_time_step_state_and_pixels(protocol: int):
    observation = read_observation(observation_pickle(timestep=7, protocol=protocol, must_go=False))
    assert (observation.timestamp_s, observation.timestep, observation.must_go) == (107.0, 7, False)
    state = read_state(observation.values, ("shoulder.pos", "elbow.pos"))
    np.testing.assert_array_equal(state, np.array([0.5, -0.25], np.float32))
    np.testing.assert_array_equal(read_image(observation.values, "camera", (12, 16, 3)), picture())


def test_a_picture_of_another_size_is_resized():
    resized = read_image(read_values(camera=np.full((24, 32, 3), 200, np.uint8)), "camera", (12, 16, 3))
    np.testing.assert_array_equal(resized, np.full((12, 16, 3), 200, np.uint8))


def test_an_observation_comes_in_parts():
    assert read_part(part(b"ab", TRANSFER_BEGIN)) == (b"ab", False)
    assert read_part(part(b"c" * 1000)) == (b"c" * 1000, True)
    with pytest.raises(WireError, match="Observation: 3 bytes that are no such message"):
        read_part(b"\x12\xff\x01")


def test_the_answer_holds_an_action_for_each_step():
    asked = read_observation(observation_pickle(timestep=3))
    message = write_actions(np.arange(6, dtype=np.float32).reshape(3, 2), asked, 0.05, HELPERS)
    actions = unpickle(message[message.index(b"\x80\x04") :])
    assert [(a.timestep, round(a.timestamp, 6)) for a in actions] == [(3, 103.0), (4, 103.05), (5, 103.1)]
    assert [a.action.tolist() for a in actions] == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"pretrained_name_or_path": None}, "pretrained_name_or_path: found nothing, expected str"),
        ({"actions_per_chunk": "many"}, "actions_per_chunk: found a value of type str, expected int"),
        ({"actions_per_chunk": True}, "actions_per_chunk: found a value of type bool, expected int"),
        ({"lerobot_features": {}}, r"observation.state: found nothing, expected dict"),
        ({"lerobot_features": {f"a{n}": {} for n in range(300)}}, "lerobot_features: found 300"),
        ({"rename_map": {"observation.images.camera": 5}}, "rename_map: found a value of type int"),
    ],
)
def test_a_wish_that_cannot_be_read_is_refused_by_its_field(changes: dict[str, Any], problem: str):
    with pytest.raises(WireError, match=problem):
        read_policy_wish(field(1, wish_pickle(**changes)))


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"shoulder.pos": "high"}, r"shoulder.pos: found a value of type str, expected a number"),
        ({"shoulder.pos": True}, r"shoulder.pos: found a value of type bool, expected a number"),
        ({"shoulder.pos": np.zeros(2)}, r"shoulder.pos: found a call of numpy"),
        ({"camera": picture().astype(np.float32)}, r"camera: found a call of numpy.*expected uint8"),
        ({"camera": np.zeros((0, 4, 3), np.uint8)}, "camera: found an image without pixels"),
        ({"camera": [1, 2]}, "camera: found a value of type list"),
    ],
)
def test_values_that_are_no_state_or_picture_are_refused_by_name(values: dict[str, Any], problem: str):
    found = read_values(**values)
    with pytest.raises(WireError, match=problem):
        read_all(found)


def test_another_class_than_expected_is_refused():
    with pytest.raises(WireError, match=r"found a call of .*TimedAction, expected LeRobot's"):
        read_observation(pickle_of("TimedAction", timestep=1))
