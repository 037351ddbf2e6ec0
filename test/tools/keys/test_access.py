# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Messages that a real router passes on."""

from __future__ import annotations

import pytest
from keys_rig import FleetRig, Inbox, ask_until, put_until, token, topic
from router_topics import (
    CHUNK_1,
    LINK_1,
    REPLIES_1,
    ROBOT_1,
    ROBOT_TOPICS,
    WEIGHTS_1,
    advanced_publisher,
    advanced_subscriber,
    answers,
    declare_querier,
    tokens_for,
)

from support.waiting import wait_until


@pytest.mark.parametrize("name", ROBOT_TOPICS)
@pytest.mark.parametrize("reader", ["gpu_1", "alice"])
def test_a_robot_s_topics_reach_its_server_and_operators(rig: FleetRig, name: str, reader: str):
    key = topic(f"robot_1/remote_inference/{name}")
    inbox = Inbox(rig.connect(reader)).subscribe(key)
    put_until(rig.connect("robot_1"), key, "mine", inbox)


def test_a_server_s_chunks_reach_its_robot(rig: FleetRig):
    inbox = Inbox(rig.connect("robot_1")).subscribe(CHUNK_1)
    put_until(rig.connect("gpu_1"), CHUNK_1, "chunk", inbox)


@pytest.mark.parametrize("service", ["open_session", "close_session", "reset_session", "get_status"])
def test_a_robot_calls_its_server(rig: FleetRig, service: str):
    key = topic(f"gpu_1/{service}", "srv")
    Inbox(rig.connect("gpu_1")).serve(key)
    assert ask_until(rig.connect("robot_1"), key) == ["ok"]


def test_a_trainer_sends_weights_to_its_server_and_hears_it(rig: FleetRig):
    trainer, server = rig.connect("trainer_1"), rig.connect("gpu_1")
    put_until(trainer, WEIGHTS_1, "piece", Inbox(server).subscribe(WEIGHTS_1))
    put_until(server, REPLIES_1, "taken", Inbox(trainer).subscribe(REPLIES_1))
    Inbox(server).serve(LINK_1)
    assert ask_until(trainer, LINK_1) == ["ok"]


def test_a_trainer_and_its_server_see_each_other_s_tokens(rig: FleetRig):
    trainer, server = Inbox(rig.connect("trainer_1")), Inbox(rig.connect("gpu_1"))
    node = "/trainer_1/weights_trainer_5f0c2ab4"
    of_trainer = [
        token("NN", node),
        token("MP", node, "/gpu_1/weights"),
        token("MS", node, "/gpu_1/weights_replies"),
        token("SC", node, "/gpu_1/open_weights_link"),
    ]
    of_server = [
        token("MS", "/gpu_1", "/gpu_1/weights"),
        token("MP", "/gpu_1", "/gpu_1/weights_replies"),
        token("SS", "/gpu_1", "/gpu_1/open_weights_link"),
    ]
    trainer.watch_tokens().show(*of_trainer)
    server.watch_tokens().show(*of_server)
    wait_until(lambda: set(of_server) <= set(trainer.got), f"the server's tokens; got {trainer.got}")
    wait_until(lambda: set(of_trainer) <= set(server.got), f"the trainer's tokens; got {server.got}")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("robot_1", "robot_1/remote_inference/resume"),
        ("robot_1", "robot_1/remote_inference/set_parameters"),
        ("gpu_1", "gpu_1/change_state"),
        ("gpu_1", "gpu_1/rollback_weights"),
    ],
)
def test_an_operator_calls_every_service(rig: FleetRig, owner: str, name: str):
    key = topic(name, "srv")
    Inbox(rig.connect(owner)).serve(key)
    assert ask_until(rig.connect("alice"), key) == ["ok"]


@pytest.mark.parametrize(
    ("caller", "name"),
    [
        ("robot_1", "gpu_1/open_session"),
        ("alice", "gpu_1/change_state"),
        ("alice", "robot_1/remote_inference/resume"),
    ],
)
def test_a_service_can_be_called_through_a_querier(rig: FleetRig, caller: str, name: str):
    """rmw_zenoh's clients call services this way."""
    key = topic(name, "srv")
    Inbox(rig.connect(name.split("/", maxsplit=1)[0])).serve(key)
    querier = declare_querier(rig.connect(caller), key)
    wait_until(lambda: answers(querier) == ["ok"], f"an answer to {key}")


@pytest.mark.parametrize(
    ("publisher", "reader", "name"),
    [
        ("gpu_1", "robot_1", "gpu_1/status"),
        ("gpu_1", "alice", "gpu_1/status"),
        ("gpu_1", "trainer_1", "gpu_1/status"),
        ("robot_1", "alice", "robot_1/remote_inference/state"),
        ("trainer_1", "gpu_1", "trainer_1/weights"),
    ],
)
def test_late_readers_get_the_latched_message_and_later_ones(
    rig: FleetRig, publisher: str, reader: str, name: str
):
    key = topic(name)
    latched = advanced_publisher(rig.connect(publisher), key)
    latched.put("early")
    got: list[str] = []
    session = rig.connect(reader)
    subscriber = advanced_subscriber(session, key, got)
    wait_until(lambda: "early" in got, f"the latched message of {key}")
    latched.put("late")
    wait_until(lambda: "late" in got, f"the next message of {key}")
    assert got == ["early", "late"]
    subscriber.undeclare()


def test_a_publisher_that_starts_late_is_discovered(rig: FleetRig):
    key, got = topic("gpu_1/status"), list[str]()
    subscriber = advanced_subscriber(rig.connect("robot_1"), key, got)
    latched = advanced_publisher(rig.connect("gpu_1"), key)
    latched.put("first")
    wait_until(lambda: got == ["first"], "the first message")
    subscriber.undeclare()


def test_a_robot_and_its_server_see_each_other_s_tokens(rig: FleetRig):
    robot, server = Inbox(rig.connect("robot_1")), Inbox(rig.connect("gpu_1"))
    of_robot = [
        token("NN", ROBOT_1),
        *(token("MP", ROBOT_1, f"{ROBOT_1}/{name}") for name in ROBOT_TOPICS),
        token("MS", ROBOT_1, f"{ROBOT_1}/chunk"),
        token("MS", ROBOT_1, "/gpu_1/status"),
        token("SC", ROBOT_1, "/gpu_1/open_session"),
    ]
    of_server = [
        token("NN", "/gpu_1"),
        token("MP", "/gpu_1", "/gpu_1/status"),
        token("SS", "/gpu_1", "/gpu_1/open_session"),
        token("MP", "/gpu_1", f"{ROBOT_1}/chunk"),
        token("MS", "/gpu_1", f"{ROBOT_1}/observation"),
    ]
    robot.watch_tokens().show(*of_robot)
    server.watch_tokens().show(*of_server)
    wait_until(lambda: set(of_server) <= set(robot.got), f"the server's tokens; got {robot.got}")
    wait_until(lambda: set(of_robot) <= set(server.got), f"the robot's tokens; got {server.got}")
    wait_until(lambda: set(of_robot) <= tokens_for(server.session), "the robot's tokens on request")


def test_the_loss_of_a_robot_s_token_is_seen(rig: FleetRig):
    server = Inbox(rig.connect("gpu_1")).watch_tokens()
    session = rig.connect("robot_1")
    Inbox(session).show(token("NN", ROBOT_1))
    server.wait_for(token("NN", ROBOT_1))
    rig.stop(session)
    server.wait_for("gone " + token("NN", ROBOT_1))


def test_a_second_robot_of_the_same_name_is_discovered(rig: FleetRig):
    """Two machines hold the same certificate: each must see the other's publisher."""
    first = Inbox(rig.connect("robot_1")).watch_tokens()
    publisher = token("MP", ROBOT_1, f"{ROBOT_1}/observation").replace("c0ffee", "decaf")
    Inbox(rig.connect("robot_1")).show(publisher)
    first.wait_for(publisher)
