# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The server dies, freezes, changes, drains or is taken away; the arm stays safe and is commanded again."""

from __future__ import annotations

import signal
import time

import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState

from remote_inference.base.wire.qos import LATCHED_QOS, STATE_TOPIC
from remote_inference.msg import ServerStatus
from remote_inference.srv import GetStatus, OpenSession
from remote_inference.tools.deployment import bringup
from support.faults.arm import GAP_S, NAMES, PARAMETERS, POLICY, Arm, write_arm_contract
from support.faults.fault import Fault
from support.faults.scripted_server import ScriptedServer
from support.nodes.faulty_server import PolicyFault
from support.nodes.rig import DEADLINE_S, write_manifest

OUTAGE_S = 30.0
WRONG_ANSWER_FIRST_MS = 200.0  # added to the right server's answers


def open_session(arm: Arm, server: str, client: str) -> OpenSession.Response:
    """Ask for the session of the arm's robot as a node with the name `client`."""
    return arm.open_session(server, joints=NAMES, client=client)


@pytest.fixture
def streaming(arm: Arm) -> Arm:
    arm.start_arm_server()
    arm.start_arm()
    return arm


@pytest.mark.fault("no server for 30 s, then it is back")
def test_a_robot_holds_during_a_long_outage(streaming: Arm, fault: Fault) -> None:
    fault.begins()
    streaming.server.send_signal(signal.SIGINT)
    streaming.wait_until_held()
    time.sleep(OUTAGE_S)  # the outage is the fault
    assert streaming.robot.poll() is None
    streaming.start_arm_server()
    fault.ends()
    fault.wait_for_recovery()
    assert fault.longest_gap_s > OUTAGE_S


@pytest.mark.fault("server back while the robot pauses for a minute between attempts")
def test_a_server_that_returns_ends_the_pause(arm: Arm, fault: Fault) -> None:
    """The pause is longer than any deadline of this test."""
    arm.start_arm_server()
    arm.start_arm(reconnect_initial_backoff_s=60.0, reconnect_max_backoff_s=60.0)
    fault.begins()
    arm.server.send_signal(signal.SIGINT)  # the robot is told, asks again at once, and begins to wait
    arm.server.wait(DEADLINE_S)
    arm.wait_until_held()
    arm.start_arm_server()
    fault.ends()
    fault.wait_for_recovery()


@pytest.mark.fault("server killed (SIGKILL) and started again")
def test_a_killed_server_is_found_again(streaming: Arm, fault: Fault) -> None:
    fault.begins()
    streaming.server.kill()
    streaming.wait_until_held()
    streaming.start_arm_server()
    fault.ends()
    fault.wait_for_recovery()


@pytest.mark.fault("server frozen (SIGSTOP) and thawed")
def test_a_frozen_server_is_used_again_when_it_thaws(streaming: Arm, fault: Fault) -> None:
    fault.begins()
    streaming.server.send_signal(signal.SIGSTOP)
    streaming.wait_until_held()
    streaming.wait_for_state("RECONNECTING", len(streaming.states))
    streaming.server.send_signal(signal.SIGCONT)
    fault.ends()
    fault.wait_for_recovery()


@pytest.mark.fault("server restarted with the same policy")
def test_a_clean_restart_with_the_same_policy_is_accepted(streaming: Arm, fault: Fault) -> None:
    fault.begins()
    streaming.server.send_signal(signal.SIGINT)
    streaming.server.wait(DEADLINE_S)
    streaming.start_arm_server()
    fault.ends()
    fault.wait_for_recovery()


@pytest.mark.fault("server restarted with another policy")
def test_another_policy_stops_the_robot(streaming: Arm, fault: Fault) -> None:
    fault.begins()
    streaming.server.send_signal(signal.SIGINT)
    streaming.server.wait(DEADLINE_S)
    streaming.start_arm_server(revision="2")
    fault.ends()
    fault.wait_for_death()


@pytest.mark.fault("server restarted with another policy, accept_new_policy set")
def test_another_policy_is_accepted_where_the_robot_allows_it(arm: Arm, fault: Fault) -> None:
    arm.start_arm_server()
    arm.start_arm(accept_new_policy=True)
    fault.begins()
    arm.server.send_signal(signal.SIGINT)
    arm.server.wait(DEADLINE_S)
    arm.start_arm_server(revision="2")
    fault.ends()
    fault.wait_for_recovery()


@pytest.mark.fault("server restarted with another order of the actions")
def test_another_action_order_stops_the_robot(arm: Arm, fault: Fault) -> None:
    """This holds even where the robot accepts another policy."""
    arm.start_arm_server()
    arm.start_arm(accept_new_policy=True)
    fault.begins()
    arm.server.send_signal(signal.SIGINT)
    arm.server.wait(DEADLINE_S)
    arm.start_arm_server(action_names=list(reversed(NAMES)))
    fault.ends()
    fault.wait_for_death()


@pytest.mark.fault("server drained (deactivated), another one in the list")
def test_a_drained_server_hands_over_without_a_gap(arm: Arm, fault: Fault) -> None:
    arm.start_arm_server()
    arm.start_arm(servers=["/policy_server", "/second_server"])
    arm.start_arm_server(name="second_server")  # only now: a robot takes the first that answers
    assert arm.call(GetStatus, "/second_server/get_status").status.accepting
    fault.begins()
    drain = Transition(id=Transition.TRANSITION_DEACTIVATE)
    assert arm.call(ChangeState, "/policy_server/change_state", transition=drain).success
    arm.wait_for(lambda: arm.states[-1].server == "/second_server", "the second server in use")
    fault.ends()
    fault.wait_for_recovery()
    assert "STALLED" not in fault.trail()
    assert fault.longest_measured_gap_s < GAP_S


@pytest.mark.fault("another server, frozen while it had the robot's session (SIGSTOP), thaws")
def test_a_server_that_still_holds_the_robot_s_old_session_disturbs_nothing(arm: Arm, fault: Fault) -> None:
    """The robot has moved on and its close was lost: both servers hear its requests."""
    arm.start_arm_server(name="second_server")
    second = arm.server
    stale = open_session(arm, "/second_server", client=f"{arm.namespace}/remote_inference")
    assert stale.accepted, stale.message
    second.send_signal(signal.SIGSTOP)
    slow = write_manifest(arm.folder, policy=POLICY, inject_latency_ms=WRONG_ANSWER_FIRST_MS)
    arm.start_server(slow, name="policy_server")
    arm.start_arm(servers=["/policy_server", "/second_server"])
    seen: list[ServerStatus] = []
    arm.subscribe(ServerStatus, "/second_server/status", seen.append, LATCHED_QOS)
    fault.begins()
    second.send_signal(signal.SIGCONT)
    arm.wait_for(
        lambda: stale.session_id in list(seen[-1].sessions) if seen else False, "it has the session yet"
    )
    arm.wait_for(lambda: not seen[-1].sessions, "the end of the session that nobody uses")
    fault.ends()
    fault.wait_for_recovery()
    assert arm.states[-1].server == "/policy_server"
    assert arm.states[-1].chunks_rejected == 0
    assert fault.longest_measured_gap_s < GAP_S
    assert fault.trail() == ["STREAMING"]


@pytest.mark.fault("server gives the robot's place away and refuses (capacity), another one in the list")
def test_a_server_without_capacity_makes_room_for_the_next(
    arm: Arm, scripted: ScriptedServer, fault: Fault
) -> None:
    servers = {server.name: server for server in (scripted, ScriptedServer(arm, "second_server"))}
    arm.start_arm(servers=list(servers))
    used = servers.pop(arm.states[-1].server)  # a robot takes the first that answers
    (other,) = servers.values()
    fault.begins()
    used.expel("capacity")
    arm.wait_for(lambda: other.observations, "a request to the other server")
    fault.ends()
    fault.wait_for_recovery()
    assert fault.longest_measured_gap_s < GAP_S


@pytest.mark.fault("server's policy fails every request, another server in the list")
def test_a_server_whose_policy_fails_hands_over_without_a_gap(arm: Arm, fault: Fault) -> None:
    policy_fault = PolicyFault(arm.folder)
    manifest = write_manifest(arm.folder, policy=POLICY, max_consecutive_failures=2)
    arm.server = arm.group.start(policy_fault.server(manifest))
    arm.start_arm(servers=["/policy_server", "/second_server"])
    arm.start_arm_server(name="second_server")  # only now: a robot takes the first that answers
    assert arm.call(GetStatus, "/second_server/get_status").status.accepting
    fault.begins()
    policy_fault.begin("nan")
    arm.wait_for(lambda: arm.states[-1].server == "/second_server", "the second server in use")
    fault.ends()
    fault.wait_for_recovery()
    assert "STALLED" not in fault.trail()
    assert fault.longest_measured_gap_s < GAP_S


@pytest.mark.fault("server alive, but no observation reaches it for a while")
def test_a_server_that_hears_nothing_is_asked_again(arm: Arm, scripted: ScriptedServer, fault: Fault) -> None:
    arm.start_arm(servers=[scripted.name])
    answer = scripted.behaviour
    fault.begins()
    scripted.behaviour = lambda _: []
    arm.wait_until_held()
    arm.wait_for_state("RECONNECTING", len(arm.states))
    scripted.behaviour = answer
    fault.ends()
    fault.wait_for_recovery()


@pytest.mark.fault("a stranger opens a session under the robot's name")
def test_another_process_of_the_robot_s_name_does_not_get_its_session(streaming: Arm, fault: Fault) -> None:
    statuses: list[ServerStatus] = []
    streaming.subscribe(ServerStatus, "/policy_server/status", statuses.append, LATCHED_QOS)
    # Before each new one the server looks up the publishers; the first one may be an old one.
    streaming.wait_for(lambda: len(statuses) > 2, "two more statuses of the server")
    fault.begins()
    stray = open_session(streaming, "/policy_server", client="/stranger")
    assert (stray.accepted, stray.rejection) == (False, "name")
    fault.ends()
    fault.wait_for_recovery()
    assert fault.longest_measured_gap_s < GAP_S
    assert fault.trail() == ["STREAMING"]


@pytest.mark.fault("a second process is started under the robot's name")
def test_a_newcomer_with_the_robot_s_name_disturbs_nothing(streaming: Arm, fault: Fault) -> None:
    fault.begins()
    streaming.has_namesake = True
    states = len(streaming.states)
    newcomer = streaming.group.start(
        bringup.robot(
            write_arm_contract(streaming.folder, streaming.record.max_following_error),
            namespace=streaming.namespace,
            parameters={**PARAMETERS, "autostart": True},
        )
    )
    topic = streaming.node.resolve_topic_name(STATE_TOPIC)
    streaming.wait_for(lambda: streaming.node.count_publishers(topic) == 2, "the newcomer")
    log = streaming.folder / "logs" / "remote_inference.log"
    streaming.wait_for(lambda: "waiting until it is gone" in log.read_text(), "the newcomer has noticed")
    streaming.wait_for_commands(60)  # meanwhile the newcomer could do harm
    assert newcomer.poll() is None
    fault.ends()
    fault.wait_for_recovery()
    assert fault.longest_measured_gap_s < GAP_S
    assert fault.trail() == ["STREAMING"]
    streaming.wait_for_state("CONNECTING", states)  # the newcomer's
