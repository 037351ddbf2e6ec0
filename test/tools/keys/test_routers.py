# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which sessions real routers accept, and how fleets with two routers work."""

from __future__ import annotations

import datetime
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import zenoh
from keys_rig import (
    DEADLINE_S,
    FleetRig,
    Inbox,
    ask_until,
    now,
    put_until,
    token,
    topic,
)

from remote_inference.base.paths import share_path
from remote_inference.tools.keys import authority as ca, verbs
from support.free_ports import free_port
from support.waiting import wait_until

OBSERVATION_1 = topic("robot_1/remote_inference/observation")
OBSERVATION_2 = topic("robot_2/remote_inference/observation")
CHUNK_1 = topic("robot_1/remote_inference/chunk")
OPEN_1 = topic("gpu_1/open_session", "srv")
A_DAY = datetime.timedelta(days=1)


@pytest.fixture
def two_routers(tmp_path: Path) -> Any:
    made = FleetRig(tmp_path / "fleet", routers=("hub", "hub_2"))
    first, second = made.routers = [made.start_router("hub"), made.start_router("hub_2")]
    wait_until(lambda: list(second.info.routers_zid()) == [first.zid()], "the routers' link")
    yield made
    made.close_sessions()


def must_not_connect(rig: FleetRig, configuration: dict[str, Any], dialled: str = "tls/localhost") -> None:
    configuration["connect"]["endpoints"] = [f"{dialled}:{rig.ports['hub']}"]
    with pytest.raises(zenoh.ZError):
        rig.start(configuration)


# -- which sessions connect ----------------------------------------------------------------------------------


def test_nobody_connects_without_a_certificate(rig: FleetRig):
    configuration = rig.configuration("robot_1")
    for key in ("connect_private_key", "connect_certificate"):
        del configuration["transport"]["link"]["tls"][key]
    configuration["transport"]["link"]["tls"]["enable_mtls"] = False
    must_not_connect(rig, configuration)


def test_nobody_connects_without_tls(rig: FleetRig):
    configuration = rig.configuration("robot_1")
    configuration["transport"]["link"]["protocols"] = ["tcp"]
    must_not_connect(rig, configuration, "tcp/localhost")


def test_a_certificate_of_another_authority_does_not_connect(own_rig: FleetRig):
    own_rig.start_router()
    foreign = ca.create_authority("remote_inference fleet", now(), A_DAY)
    own_rig.reissue("robot_1", foreign, now(), 3600.0)
    must_not_connect(own_rig, own_rig.configuration("robot_1"))


def test_an_expired_certificate_does_not_connect(own_rig: FleetRig):
    own_rig.start_router()
    own_rig.reissue("robot_1", own_rig.authority(), now() - A_DAY, 3600.0)
    must_not_connect(own_rig, own_rig.configuration("robot_1"))


def test_a_link_ends_when_its_certificate_expires(own_rig: FleetRig):
    own_rig.start_router()
    own_rig.reissue("robot_1", own_rig.authority(), now(), 15.0)  # long enough to connect first
    session = own_rig.connect("robot_1")
    wait_until(lambda: not list(session.info.routers_zid()), "the link's end")


def test_a_member_does_not_connect_to_a_router_of_another_authority(own_rig: FleetRig):
    authority = ca.create_authority("remote_inference fleet", now(), A_DAY)
    own_rig.start_router()
    (own_rig.folder / "members" / "robot_1" / verbs.CA_FILE).write_bytes(authority.certificate_pem)
    must_not_connect(own_rig, own_rig.configuration("robot_1"))


@pytest.mark.parametrize("impostor", ["robot_2", "gpu_1"])
def test_a_member_cannot_pose_as_a_router(own_rig: FleetRig, impostor: str):
    def exchange_identity(configuration: dict[str, Any]) -> None:
        place = own_rig.folder / "members" / impostor
        configuration["transport"]["link"]["tls"] |= {
            "listen_private_key": str(place / verbs.KEY_FILE),
            "listen_certificate": str(place / verbs.CERTIFICATE_FILE),
        }

    own_rig.start_router(change=exchange_identity)
    configuration = own_rig.configuration("robot_1")
    # The certificate's usage must suffice to refuse it.
    configuration["transport"]["link"]["tls"]["verify_name_on_connect"] = False
    must_not_connect(own_rig, configuration)


def test_a_router_under_another_host_name_is_refused(own_rig: FleetRig):
    own_rig.start_router()
    must_not_connect(own_rig, own_rig.configuration("robot_1"), "tls/127.0.0.1")  # issued for localhost


def test_a_revoked_robot_has_no_rights_once_the_routers_restart(own_rig: FleetRig):
    configuration = own_rig.configuration("robot_1")
    place = own_rig.folder / "members" / "robot_1"
    kept = {path: path.read_bytes() for path in place.iterdir()}
    verbs.revoke(own_rig.folder, "robot_1")
    verbs.render_all(own_rig.folder)
    place.mkdir()
    for path, content in kept.items():  # a thief of the robot's disk has the files
        path.write_bytes(content)
    own_rig.start_router()
    server = (
        Inbox(own_rig.connect("gpu_1")).subscribe(OBSERVATION_1, OBSERVATION_2).watch_tokens().serve(OPEN_1)
    )
    thief = own_rig.start(configuration)
    wait_until(lambda: list(thief.info.routers_zid()), "the thief connected")
    put_until(own_rig.connect("robot_2"), OBSERVATION_2, "ready", server)
    Inbox(thief).show(token("NN", "/robot_1/remote_inference"))
    thief.put(OBSERVATION_1, "forged")
    thief.get(OPEN_1, payload="forged", timeout=1.0)
    spy = Inbox(thief).subscribe(CHUNK_1).watch_tokens()
    robot_2 = own_rig.connect("robot_2")
    server.session.put(CHUNK_1, "secret")
    put_until(robot_2, OBSERVATION_2, "marker", server)
    ask_until(robot_2, OPEN_1)
    assert {item.split()[0] for item in server.got} == {OBSERVATION_2, OPEN_1}
    assert not set(spy.got) - {token("NN", "/robot_1/remote_inference")}  # the spy's own token


# -- more than one router ------------------------------------------------------------------------------------


def test_members_of_different_routers_work_together(two_routers: FleetRig):
    robot, server = two_routers.connect("robot_1", router="hub_2"), two_routers.connect("gpu_1")
    put_until(robot, OBSERVATION_1, "mine", Inbox(server).subscribe(OBSERVATION_1))
    put_until(server, CHUNK_1, "chunk", Inbox(robot).subscribe(CHUNK_1))
    Inbox(server).serve(OPEN_1)
    assert ask_until(robot, OPEN_1) == ["ok"]
    watch = Inbox(server).watch_tokens()
    Inbox(robot).show(token("NN", "/robot_1/remote_inference"))
    watch.wait_for(token("NN", "/robot_1/remote_inference"))


def test_a_member_moves_to_another_router_when_its_own_stops(two_routers: FleetRig):
    robot, server = (two_routers.start(two_routers.configuration(name)) for name in ("robot_1", "gpu_1"))
    inbox = Inbox(server).subscribe(OBSERVATION_1)
    put_until(robot, OBSERVATION_1, "before", inbox)
    routers = {router.zid(): router for router in two_routers.routers}
    (dialled,) = robot.info.routers_zid()
    two_routers.stop(routers[dialled])
    put_until(robot, OBSERVATION_1, "after", inbox)


def test_a_member_passes_over_a_router_that_is_silent(rig: FleetRig):
    configuration = rig.configuration("robot_1")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        ports = (silent.getsockname()[1], rig.ports["hub"])
        configuration["connect"]["endpoints"] = [f"tls/localhost:{port}" for port in ports]
        begin_s = time.monotonic()
        session = rig.start(configuration)
        wait_until(lambda: list(session.info.routers_zid()), "the second router")
    assert time.monotonic() - begin_s < DEADLINE_S


@pytest.mark.parametrize("mode", ["client", "router"])
def test_a_second_router_does_not_bypass_the_rules(two_routers: FleetRig, mode: str):
    pause = topic("robot_2/remote_inference/pause", "srv")
    server = Inbox(two_routers.connect("gpu_1")).subscribe(OBSERVATION_1, OBSERVATION_2).watch_tokens()
    victim = Inbox(two_routers.connect("robot_2")).serve(pause)
    attacker = two_routers.connect("robot_1", mode, router="hub_2")
    put_until(attacker, OBSERVATION_1, "ready", server)
    Inbox(attacker).serve("**", answer="forged").show(token("NN", "/robot_2/remote_inference"))
    attacker.put(OBSERVATION_2, "forged")
    attacker.get(pause, payload="forged", timeout=1.0)
    spy = Inbox(attacker).subscribe("**", OBSERVATION_2).watch_tokens()
    put_until(victim.session, OBSERVATION_2, "secret", server)
    put_until(attacker, OBSERVATION_1, "marker", server)
    assert ask_until(two_routers.connect("alice"), pause) == ["ok"]
    assert {item.split()[0] for item in server.got} == {OBSERVATION_1, OBSERVATION_2}
    assert not [item for item in [*server.got, *victim.got, *spy.got] if "forged" in item]
    assert not [item for item in spy.got if "secret" in item]


@pytest.mark.parametrize("mode", ["client", "peer"])
def test_nodes_without_keys_reach_the_fleet_through_their_machine_s_router(rig: FleetRig, mode: str):
    machine = start_machine_router(rig, "robot_1")
    configuration = verbs.load_base(share_path("config", "zenoh", "session.json5"))
    configuration["mode"] = mode
    configuration["connect"]["endpoints"] = [machine]
    node, server = rig.start(configuration), rig.connect("gpu_1")
    put_until(node, OBSERVATION_1, "mine", Inbox(server).subscribe(OBSERVATION_1))
    put_until(server, CHUNK_1, "chunk", Inbox(node).subscribe(CHUNK_1))
    Inbox(server).serve(OPEN_1)
    assert ask_until(node, OPEN_1) == ["ok"]
    watch = Inbox(node).watch_tokens()
    Inbox(server).show(token("NN", "/gpu_1"))
    watch.wait_for(token("NN", "/gpu_1"))


def test_a_machine_s_router_is_bound_by_its_member_s_rules(rig: FleetRig):
    configuration = verbs.load_base(share_path("config", "zenoh", "session.json5"))
    configuration["connect"]["endpoints"] = [start_machine_router(rig, "robot_1")]
    node, server = (
        rig.start(configuration),
        Inbox(rig.connect("gpu_1")).subscribe(OBSERVATION_1, OBSERVATION_2),
    )
    put_until(node, OBSERVATION_1, "ready", server)
    node.put(OBSERVATION_2, "forged")
    put_until(node, OBSERVATION_1, "marker", server)
    assert not [item for item in server.got if "forged" in item]


def start_machine_router(rig: FleetRig, name: str) -> str:
    """Run the router of a member's machine; return where it listens."""
    configuration = rig.configuration(name, verbs.ROUTER_FILE)
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    configuration["listen"]["endpoints"] = [endpoint]
    session = rig.start(configuration)
    wait_until(lambda: list(session.info.routers_zid()), f"{name}'s router connected")
    return endpoint
