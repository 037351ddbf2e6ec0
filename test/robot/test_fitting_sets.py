# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Cameras that belong together: requests wait for a set whose messages are near to one another in time."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.requests.fitting_sets import FittingSets
from remote_inference.robot.safety.state_machine import State
from support.builders import CAMERA, contract_document, make_config, make_spec, ns
from support.robot.replayed import divergences_of, effects_of, exact, replay, ticks_of
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, streaming

JOINTS, FRONT, TOP = "joint_states", "front/image_raw", "top/image_raw"
BEGIN_MS = 100_000


def two_cameras(**skews_s: float) -> Contract:
    document = contract_document()
    document["images"]["top"] = {"topic": TOP, "type": "sensor_msgs/msg/Image"}
    for name, skew_s in skews_s.items():
        document["images"][name]["max_skew_s"] = skew_s
    return parse_document(document, Contract, "test.contract.yaml")


class Sensors:
    """What the sensors deliver, in turn [ms after the begin], and the set that is found then."""

    def __init__(self, contract: Contract, **config: Any) -> None:
        self.sets = FittingSets(contract, make_config(**config))
        self._newest: dict[str, int] = {}

    def deliver(self, **times_ms: int) -> TickSample | None:
        topics = {"joints": JOINTS, "front": FRONT, "top": TOP}
        self._newest |= {topics[name]: (BEGIN_MS + at_ms) * 1_000_000 for name, at_ms in times_ms.items()}
        measured = np.full(2, float(times_ms.get("joints", -1)))
        return self.sets.add(TickSample(times_ms, dict(self._newest), measured=measured))

    def play(self, front: list[int], top: list[int], joints: list[int]) -> TickSample | None:
        streams = {"front": front, "top": top, "joints": joints}
        found = None
        for at_ms in sorted({at for stream in streams.values() for at in stream}):
            found = self.deliver(**{name: at_ms for name, stream in streams.items() if at_ms in stream})
        return found


def times_of(found: TickSample | None) -> Mapping[str, int]:
    assert found is not None
    return {topic: at_ns // 1_000_000 - BEGIN_MS for topic, at_ns in found.arrivals.items()}


def test_a_set_has_of_each_source_what_is_nearest_to_the_newest_common_time():
    sensors = Sensors(two_cameras(front=0.02, top=0.02))
    found = sensors.play(front=[0, 30], top=[12, 42], joints=[*range(0, 45, 5)])
    assert times_of(found) == {JOINTS: 30, FRONT: 30, TOP: 42}
    assert found is not None
    assert {
        topic: content[name]
        for (topic, content), name in zip(found.content.items(), ("joints", "front", "top"), strict=True)
    } == {JOINTS: 30, FRONT: 30, TOP: 42}, "each message is of the sample that held it"
    assert found.measured is not None
    assert found.measured.tolist() == [30.0, 30.0], "as the robot was measured then"
    assert sensors.sets.refused == 0


def test_a_set_that_does_not_fit_is_counted_once_and_said_when_none_is_fresh_any_more():
    sensors = Sensors(two_cameras(front=0.005, top=0.1))
    assert sensors.play(front=[0, 30], top=[12, 42], joints=[*range(0, 60, 5)]) is None
    assert sensors.sets.refused == 3, "at 0, 12 and 30 ms"
    begin_ns = BEGIN_MS * 1_000_000
    assert sensors.sets.find_problem(begin_ns + ns(0.5)) == "", "the next one may fit"
    found = sensors.sets.find_problem(begin_ns + ns(0.6))
    assert found == f"{FRONT} and {TOP} are 0.012 s apart, images.front.max_skew_s is 0.005"
    fitting = sensors.deliver(front=61, top=60, joints=60)
    assert times_of(fitting) == {JOINTS: 60, FRONT: 61, TOP: 60}
    assert times_of(sensors.deliver(front=90, joints=90)) == times_of(fitting), (
        "60 ms is the newest common time still"
    )
    assert times_of(sensors.deliver(top=102)) == times_of(fitting), "the newest that fits"
    assert sensors.sets.refused == 4
    fitted_ns = (BEGIN_MS + 60) * 1_000_000
    assert sensors.sets.is_fresh(fitted_ns + ns(0.5))
    assert sensors.sets.find_problem(fitted_ns + ns(0.5)) == ""
    assert not sensors.sets.is_fresh(fitted_ns + ns(0.5) + 1)
    assert FRONT in sensors.sets.find_problem(fitted_ns + ns(0.5) + 1)


@pytest.mark.parametrize(("skew_s", "fits"), [(0.02, True), (0.019, False)])
def test_the_parameter_bounds_every_two_sources(skew_s: float, fits: bool):
    sensors = Sensors(two_cameras(), max_observation_skew_s=skew_s)
    found = sensors.deliver(front=10, top=10, joints=30)
    assert (found is not None) == fits
    assert sensors.sets.find_problem(ns(BEGIN_MS / 1e3 + 1.0)) == (
        "" if fits else f"{JOINTS} and {FRONT} are 0.02 s apart, max_observation_skew_s is 0.019"
    )


def test_the_tighter_of_two_bounds_counts():
    sensors = Sensors(two_cameras(front=0.5, top=0.01), max_observation_skew_s=0.1)
    assert sensors.deliver(front=0, top=11, joints=0) is None
    assert "images.top.max_skew_s is 0.01" in sensors.sets.find_problem(ns(BEGIN_MS / 1e3 + 1.0))


def test_a_camera_s_key_bounds_it_against_cameras_alone_beside_a_wider_parameter():
    sensors = Sensors(two_cameras(front=0.02, top=0.02), max_observation_skew_s=0.1)
    assert sensors.deliver(front=0, top=0, joints=40) is not None
    assert sensors.deliver(front=100, top=130, joints=100) is not None, "the set before"
    assert sensors.sets.refused == 1


def test_joints_are_not_bounded_by_a_camera_s_key_and_come_from_the_cameras_time():
    sensors = Sensors(two_cameras(front=0.001, top=0.001))
    found = sensors.play(front=[40], top=[40], joints=[0, 70])
    assert times_of(found) == {JOINTS: 70, FRONT: 40, TOP: 40}


def test_without_a_bound_or_with_a_policy_that_sees_one_of_the_cameras_nothing_is_kept():
    assert not Sensors(two_cameras()).sets.are_used
    sets = Sensors(two_cameras(front=0.01, top=0.01)).sets
    assert sets.are_used
    sets.use((JOINTS, TOP))
    assert not sets.are_used
    assert sets.is_fresh(ns(1e6))


def test_a_camera_that_has_died_does_not_make_the_others_messages_stay():
    class Message:
        pass

    message = Message()
    sensors = Sensors(two_cameras(front=0.01, top=0.01))
    sensors.deliver(front=0, top=0, joints=0)
    sensors.sets.add(TickSample(message, {FRONT: (BEGIN_MS + 30) * 1_000_000}))
    kept = weakref.ref(message)
    del message
    assert kept() is not None
    for at_ms in range(60, 660, 30):
        sensors.deliver(front=at_ms)
    assert kept() is None


def test_one_camera_alone_with_a_bound_is_refused():
    with pytest.raises(DocumentError, match=r"images\.top\.max_skew_s: found in this camera alone, expected"):
        two_cameras(top=0.01)


# -- a robot -------------------------------------------------------------------------------------------------


class Robot(World):
    """Two cameras of 33 Hz, the second one `offset` steps of 5 ms after the first; joints of 200 Hz."""

    offset = 3

    def __init__(self, contract: Contract, observation_steps: int = 1, **config: Any) -> None:
        shapes = {CAMERA: (48, 64, 3), "images.top": (48, 64, 3)}
        spec = make_spec(image_shapes=shapes, observation_steps=observation_steps)
        server = SimulatedServer("/server_a", spec)
        super().__init__(make_config(**config), [server], contract=contract, sensor_ns=ns(0.005))

    def _receive_sensors(self) -> None:
        step = (self.now_ns - self.start_ns) // self.sensor_ns
        self.sensors[FRONT], self.sensors[TOP] = step % 6 == 0, step % 6 == self.offset
        super()._receive_sensors()


@pytest.mark.parametrize("observation_steps", [1, 3])
@pytest.mark.parametrize("offset", range(6))
def test_each_request_shows_a_set_that_fits_and_is_replayed(offset: int, observation_steps: int):
    """The world checks what each request shows."""
    world = Robot(two_cameras(front=0.016, top=0.016), observation_steps)
    world.offset = offset
    streaming(world).run(1)
    skews_s = [request.capture_skew_s for request in world.sent]
    assert max(skews_s) <= 0.016
    assert skews_s[-1] == pytest.approx(min(offset, 6 - offset) * 0.005)
    assert world.engine.cycle.capture_skew_s == skews_s[-1]
    assert world.engine.cycle.sets.refused <= 1, "the first camera began alone"
    outcomes = replay(world.engine.journal.take()[1])
    assert divergences_of(outcomes) == []
    assert exact(ticks_of(outcomes)) == exact([tick for _, tick in world.ticks])
    assert exact(effects_of(outcomes)) == exact([effect for _, effect in world.effects])


@pytest.mark.parametrize("config", [{}, {"max_observation_skew_s": 0.012}])
def test_requests_wait_while_no_set_fits_and_the_robot_says_why_and_does_not_give_up(config: dict[str, Any]):
    contract = two_cameras() if config else two_cameras(front=0.012, top=0.012)
    world = Robot(contract, max_offline_s=1.0, **config)
    world.offset = 1
    streaming(world)
    world.offset = 3
    world.run(0.6)
    sent = len(world.sent)
    world.run(5)
    assert len(world.sent) == sent
    assert world.state is State.STALLED, "not DEAD: no server could help"
    assert world.warnings().count("no set of messages fits for 0.5 s, requests wait: ") == 1
    sets = world.engine.cycle.sets
    assert " are 0.015 s apart, " in sets.find_problem(world.now_ns)
    assert sets.refused > 100
    world.offset = 1
    world.run(1)
    assert len(world.sent) > sent
    assert world.state is State.STREAMING
    assert sets.find_problem(world.now_ns) == ""


def test_what_was_seen_before_an_episode_is_in_no_set_of_it():
    world = streaming(Robot(two_cameras(front=0.016, top=0.016)))
    begun_ns = world.now_ns
    world.reset()
    sent = len(world.sent)
    world.run(0.5)
    assert min(world.capture_ns[sent:]) > begun_ns


def test_the_skew_of_a_request_is_known_without_a_bound():
    world = streaming(Robot(two_cameras()))
    assert world.sent[-1].capture_skew_s > 0.0
    assert all(not steps for steps in world.shown), "the newest messages are shown, as they came"
