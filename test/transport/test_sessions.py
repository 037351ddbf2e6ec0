# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The configurations at work in real Zenoh sessions: priorities, lost hosts, returning routers, topology."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest
import zenoh
from zenoh import CongestionControl, Priority

from remote_inference.base.paths import share_path
from remote_inference.base.wire.qos import CHUNK_TOPIC, EXECUTED_TOPIC, OBSERVATION_TOPIC
from remote_inference.tools.deployment import zenoh_config
from support.free_ports import free_port
from support.transport.engine import (
    ROUTER,
    SESSION,
    beside,
    client,
    endpoints,
    listener,
    opened,
    peer,
    process,
    put_until,
    router,
)
from support.waiting import wait_until

LEASE_DEADLINE_S = 20.0  # a lease of 2 s ends well before, rmw_zenoh's of 60 s well after
SILENCE_DEADLINE_S = 20.0  # the same of open_timeout, 5 s against 60 s


def data_key(namespace: str, topic: str, message: str) -> str:
    """Write the key that rmw_zenoh publishes a topic of ours on."""
    generated = json.loads(share_path("msg", f"{message}.json").read_text())
    hashes = {entry["type_name"]: entry["hash_string"] for entry in generated["type_hashes"]}
    type_hash = hashes[f"remote_inference/msg/{message}"]
    name = f"{namespace}/{topic}".strip("/")
    return f"{os.environ['ROS_DOMAIN_ID']}/{name}/remote_inference::msg::dds_::{message}_/{type_hash}"


def has_arrived(payload: bytes, samples: list[zenoh.Sample]) -> bool:
    return any(sample.payload.to_bytes() == payload for sample in samples)


@pytest.mark.parametrize("open_node", [peer, client])
@pytest.mark.parametrize("namespace", ["/robot_1", "/site_2/line_3/robot_1", "/"])
def test_a_chunk_overtakes_and_an_observation_does_not(open_node: Any, namespace: str) -> None:
    expected = {
        (CHUNK_TOPIC, "ActionChunk"): (Priority.INTERACTIVE_HIGH, False),
        (OBSERVATION_TOPIC, "Observation"): (Priority.DATA, False),
        (EXECUTED_TOPIC, "ExecutedAction"): (Priority.DATA, False),
    }
    port = free_port()
    with router(port), open_node(port) as sender, client(port) as receiver:
        for (topic, message), (priority, is_express) in expected.items():
            samples: list[zenoh.Sample] = []
            key = data_key(namespace, topic, message)
            subscriber = receiver.declare_subscriber(key, samples.append)
            # As rmw_zenoh declares a publisher of KEEP_LAST: neither priority nor express.
            publisher = sender.declare_publisher(key, congestion_control=CongestionControl.DROP)
            put_until(lambda publisher=publisher: publisher.put(b"cdr"), lambda s=samples: s, topic)
            assert (samples[0].priority, samples[0].express) == (priority, is_express), topic
            assert samples[0].congestion_control == CongestionControl.DROP
            subscriber.undeclare()


def test_a_peer_that_freezes_is_gone_for_the_others_when_its_lease_ends() -> None:
    port = free_port()
    with router(port), peer(port) as observer:
        tokens: list[zenoh.Sample] = []
        subscriber = observer.liveliness().declare_subscriber("@ros2_lv/**", tokens.append, history=True)
        with process(SESSION, token="@ros2_lv/frozen", **beside(port)) as frozen:
            wait_until(lambda: tokens, "the token")
            frozen.send_signal(signal.SIGSTOP)
            wait_until(lambda: len(tokens) == 2, "the end of the lease", LEASE_DEADLINE_S)
            assert tokens[1].kind == zenoh.SampleKind.DELETE
        subscriber.undeclare()


def test_peers_that_lost_only_their_link_to_each_other_meet_again() -> None:
    """As after a freeze of about the lease, which ends some links of a node and not others.

    The router tells peers of each other when they come. While both keep their links to it, it has no news.
    """
    port = free_port()
    relayed: list[zenoh.Sample] = []
    direct: list[zenoh.Sample] = []
    with router(port, **{"transport/link/tx/lease": "60000"}), peer(port) as lost, client(port) as other:
        # The router hears the node all the time, the peer each 500 ms: its lease of the node ends first.
        subscribers = [other.declare_subscriber("a/b", relayed.append)]
        with process(SESSION, publish="a/b", **beside(port)) as frozen:
            wait_until(lambda: relayed and lost.info.peers_zid(), "samples, and a link of the peers")
            frozen.send_signal(signal.SIGSTOP)
            wait_until(lambda: not lost.info.peers_zid(), "the end of the lease", LEASE_DEADLINE_S)
            frozen.send_signal(signal.SIGCONT)
            subscribers.append(lost.declare_subscriber("a/b", direct.append))
            wait_until(lambda: direct, "a sample after the thaw")
        for subscriber in subscribers:
            subscriber.undeclare()


def test_nodes_behind_a_frozen_router_are_gone_for_the_others_when_its_lease_ends() -> None:
    """The whole host freezes, or its network ends without closing connections."""
    near, far = free_port(), free_port()
    with router(near), client(near) as observer:
        tokens: list[zenoh.Sample] = []
        subscriber = observer.liveliness().declare_subscriber("@ros2_lv/**", tokens.append, history=True)
        dialling = {"listen/endpoints": endpoints(far), "connect/endpoints": endpoints(near)}
        with process(ROUTER, **dialling) as frozen, peer(far) as behind:
            token = behind.liveliness().declare_token("@ros2_lv/behind")
            wait_until(lambda: tokens, "the token")
            frozen.send_signal(signal.SIGSTOP)
            wait_until(lambda: len(tokens) == 2, "the end of the lease", LEASE_DEADLINE_S)
            assert tokens[1].kind == zenoh.SampleKind.DELETE
            frozen.send_signal(signal.SIGCONT)
            token.undeclare()
        subscriber.undeclare()


def test_sessions_resume_when_their_router_returns() -> None:
    port = free_port()
    listening = {"listen/endpoints": endpoints(port)}
    samples: list[zenoh.Sample] = []
    with process(ROUTER, **listening) as first, client(port) as sender, client(port) as receiver:
        subscriber = receiver.declare_subscriber("a/b", samples.append)
        publisher = sender.declare_publisher("a/b", congestion_control=CongestionControl.DROP)
        put_until(lambda: publisher.put(b"before"), lambda: samples, "a sample")
        first.kill()
        first.wait()
        with process(ROUTER, **listening):
            put_until(
                lambda: publisher.put(b"after"),
                lambda: has_arrived(b"after", samples),
                "a sample through the new router",
            )
        subscriber.undeclare()


def test_nodes_of_one_host_go_on_without_their_router() -> None:
    port = free_port()
    samples: list[zenoh.Sample] = []
    listening = {"listen/endpoints": endpoints(port)}
    with process(ROUTER, **listening) as only, peer(port) as sender, peer(port) as receiver:
        subscriber = receiver.declare_subscriber("a/b", samples.append)
        publisher = sender.declare_publisher("a/b", congestion_control=CongestionControl.DROP)
        put_until(lambda: publisher.put(b"before"), lambda: samples, "a sample")
        assert sender.info.routers_zid()
        only.kill()
        only.wait()
        wait_until(lambda: not sender.info.routers_zid(), "the end of the router's session")
        put_until(
            lambda: publisher.put(b"after"),
            lambda: has_arrived(b"after", samples),
            "a sample from peer to peer",
        )
        subscriber.undeclare()


def test_a_client_passes_over_a_router_that_is_silent() -> None:
    port = free_port()
    with listener() as silent, router(port) as answering:
        both = endpoints(silent.getsockname()[1], port)
        begin_s = time.monotonic()
        with client(port, **{"connect/endpoints": both}) as node:
            assert node.info.routers_zid() == [answering.zid()]
            assert time.monotonic() - begin_s < SILENCE_DEADLINE_S


def test_a_router_dials_again_when_the_other_one_was_silent() -> None:
    with listener() as silent, router(free_port(), port := silent.getsockname()[1]) as dialling:
        connection, _ = silent.accept()
        silent.close()
        with connection, router(port) as returned:
            wait_until(
                lambda: dialling.info.routers_zid() == [returned.zid()], "the link", SILENCE_DEADLINE_S
            )


def test_a_robot_behind_nat_and_a_server_meet_through_routers_that_only_the_robot_dials() -> None:
    robot_port, gateway_port, server_port = free_port(), free_port(), free_port()
    chunk = data_key("/robot_1", CHUNK_TOPIC, "ActionChunk")
    observation = data_key("/robot_1", OBSERVATION_TOPIC, "Observation")
    at_server: list[zenoh.Sample] = []
    at_robot: list[zenoh.Sample] = []
    with (
        router(gateway_port),
        router(server_port, gateway_port),
        router(robot_port, gateway_port),
        peer(robot_port, **{"listen/endpoints": "[]"}) as robot,  # nothing of the robot can be dialled
        peer(server_port, **{"scouting/gossip/autoconnect": "{}"}) as server,
    ):
        subscribers = [
            server.declare_subscriber(observation, at_server.append),
            robot.declare_subscriber(chunk, at_robot.append),
        ]
        put_until(lambda: robot.put(observation, b"o"), lambda: at_server, "an observation")
        put_until(lambda: server.put(chunk, b"c"), lambda: at_robot, "a chunk")
        assert at_robot[0].priority == Priority.INTERACTIVE_HIGH  # on the last hop too
        for subscriber in subscribers:
            subscriber.undeclare()


def test_nodes_of_different_hosts_meet_at_the_router_that_a_launch_names() -> None:
    port = free_port()
    settings = zenoh_config.router_settings(zenoh_config.Endpoint("tcp", "gateway", port))
    settings |= {"connect/endpoints": endpoints(port), "listen/endpoints": "[]"}  # no way to dial each other
    samples: list[zenoh.Sample] = []
    with router(port), opened(SESSION, settings) as robot, opened(SESSION, settings) as server:
        subscriber = server.declare_subscriber("a/b", samples.append)
        put_until(lambda: robot.put("a/b", b"x"), lambda: samples, "a sample")
        subscriber.undeclare()
