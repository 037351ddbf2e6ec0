# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Cameras that the policy does not use: a robot neither offers them nor waits for them, and says so once."""

from __future__ import annotations

from typing import Any

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import SessionReply, StatusReply
from remote_inference.robot.requests.handshake import Phase
from remote_inference.robot.safety.effects import Inform, OpenSession
from remote_inference.robot.safety.state_machine import State
from support.builders import CAMERA, contract_document, make_config, make_spec, ns
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, stopped, streaming

FRONT, TOP = "front/image_raw", "top/image_raw"
TOP_FEATURE = "images.top"
BOTH = {CAMERA: (48, 64, 3), TOP_FEATURE: (48, 64, 3)}
LEFT_OUT = "the policy does not use images.top: nothing of top/image_raw is sent or waited for"


def two_cameras() -> Contract:
    document = contract_document()
    document["images"]["top"] = {"topic": TOP, "type": "sensor_msgs/msg/Image"}
    return parse_document(document, Contract, "test.contract.yaml")


def make_world(*servers: SimulatedServer, top: bool = False, **config: Any) -> World:
    """Return a robot with two cameras. top: whether the second one delivers."""
    names = [server.name for server in servers] or ["/server_a"]
    world = World(make_config(servers=tuple(names), **config), servers, contract=two_cameras())
    world.sensors[TOP] = top
    return world


def offered(world: World) -> list[tuple[str, ...]]:
    return [tuple(image.name for image in call.offer.images) for call in world.all(OpenSession)]


def notes(world: World) -> list[str]:
    """Return what a robot says of its cameras."""
    return [note.text for note in world.all(Inform) if "merge_mode" not in note.text]


def test_a_robot_streams_while_a_camera_that_the_policy_does_not_use_is_silent():
    world = streaming(make_world())
    assert offered(world) == [(CAMERA,)]
    assert world.engine.cycle.stale_sources == ()
    assert world.engine.cycle.sources == ("joint_states", FRONT)


def test_a_frozen_camera_that_the_policy_does_not_use_neither_blocks_nor_is_told_nor_counted():
    world = streaming(make_world(top=True))
    world.sensors[TOP] = False
    merged = world.engine.counters.chunks_merged
    world.run(3)
    assert world.state is State.STREAMING
    assert world.engine.counters.chunks_merged > merged
    assert TOP not in world.warnings()
    assert world.engine.guard.counts["sensor_age"] == 0


def test_the_capture_is_the_oldest_source_in_use():
    """An old image that is not sent would make each chunk look older than it is, and drop its rows."""
    world = streaming(make_world(top=True))
    world.sensors[TOP] = False
    world.run(10)
    ages_ns = [tick.queued and at_ns - tick.queued.source.capture_ns for at_ns, tick in world.ticks[-20:]]
    assert all(age_ns is not None and age_ns <= ns(2) for age_ns in ages_ns)


def test_a_policy_without_images_is_offered_none():
    world = make_world(SimulatedServer("/server_a", make_spec(image_shapes={})))
    world.sensors[FRONT] = False
    streaming(world)
    assert offered(world) == [()]


def test_a_camera_in_use_still_blocks_when_it_falls_silent():
    world = streaming(make_world(top=True))
    world.sensors[FRONT] = False
    world.run(1)
    assert world.engine.cycle.stale_sources == (FRONT,)


def test_what_is_left_out_is_told_once_and_is_no_warning():
    world = streaming(make_world(top=True))
    assert notes(world) == [f"server /server_a: {LEFT_OUT}"]
    for _ in range(2):  # sessions with the same instance
        world.carry_out(world.engine._lose_session("test", world.now_ns))
        world.run_until(lambda: world.state is State.STREAMING)
    assert notes(world) == [f"server /server_a: {LEFT_OUT}"]
    assert "does not use" not in world.warnings()


def test_a_restarted_server_is_told_of_again():
    world = streaming(make_world(top=True))
    world.server.restart()
    world.run_until(lambda: world.state is State.RECONNECTING)
    world.run_until(lambda: world.state is State.STREAMING)
    assert len(notes(world)) == 2


def test_a_robot_whose_cameras_are_all_used_says_nothing():
    world = streaming(World())
    assert notes(world) == []


def test_the_next_server_s_policy_decides_anew():
    """Here it uses both cameras: the silent one is waited for, and that is told."""
    second = SimulatedServer("/server_b", make_spec(image_shapes=BOTH, fingerprint="f2"))
    world = streaming(make_world(SimulatedServer("/server_a"), second, accept_new_policy=True))
    world.server.up = False
    world.run_until(lambda: world.engine.handshake.server == "/server_b" and world.engine.handshake.open)
    assert offered(world)[-1] == (CAMERA, TOP_FEATURE)
    world.run(0.5)
    assert world.engine.cycle.stale_sources == (TOP,)
    assert f"{TOP}: nothing new for 0.5 s, requests wait for it" in world.warnings()
    sent = len(world.sent)
    world.run(1)
    assert len(world.sent) == sent
    world.sensors[TOP] = True
    world.run_until(lambda: world.state is State.STREAMING)


def test_without_a_session_the_last_one_s_sources_count():
    """Otherwise the camera would be missed at each reconnect."""
    world = streaming(make_world())
    world.server.up = False
    world.run_until(lambda: world.state is State.RECONNECTING)
    world.run(2)
    assert world.engine.cycle.stale_sources == ()
    assert TOP not in world.warnings()


def test_before_the_first_session_every_source_counts():
    world = make_world()
    world.server.up = False
    world.run(2)
    assert world.engine.cycle.stale_sources == (TOP,)


def test_a_server_that_needs_a_camera_that_the_robot_lacks_is_told_of_all_the_robot_s():
    """The refusal names what the robot could send, and is the end."""
    world = make_world(SimulatedServer("/server_a", make_spec(image_shapes={"images.wrist": (48, 64, 3)})))
    world.run_until(lambda: stopped(world))
    assert offered(world) == [(CAMERA, TOP_FEATURE)]
    assert "policy needs images.wrist, robot sends images.top, observation" in world.engine.machine.cause


def test_a_policy_that_is_exchanged_within_the_handshake_is_asked_again():
    """The cameras were chosen for the one before it: the refusal is no violation of the contract."""
    world = make_world(SimulatedServer("/server_a", make_spec(image_shapes=BOTH)), top=True)
    world.run_until(lambda: world.engine.handshake.phase is Phase.CHECKING)
    world.carry_out(
        world.engine.take_status_reply("/server_a", StatusReply(True, image_features=(CAMERA,)), world.now_ns)
    )
    world.run_until(lambda: world.state is State.STREAMING)
    assert offered(world) == [(CAMERA,), (CAMERA, TOP_FEATURE)]
    assert "refuses (cameras)" in world.warnings()


def test_a_refused_offer_changes_no_source():
    world = streaming(make_world())
    reply = SessionReply(accepted=False, rejection="capacity")
    world.server.spec = make_spec(image_shapes=BOTH)
    world.server.alter_reply = lambda _: reply
    world.carry_out(world.engine._lose_session("test", world.now_ns))
    world.run_until(lambda: "capacity" in world.warnings())
    assert offered(world)[-1] == (CAMERA, TOP_FEATURE)
    assert world.engine.cycle.sources == ("joint_states", FRONT)
