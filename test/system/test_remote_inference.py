# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's node against a real server, judged by the commands that the robot received."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path

import pytest
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import SetParameters
from sensor_msgs.msg import Image

from remote_inference.base.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, OBSERVATION_TOPIC, SENSOR_QOS
from remote_inference.msg import ActionChunk, ExecutedAction, Observation
from remote_inference.srv import StartEpisode
from remote_inference.tools.deployment import bringup
from support.nodes.rig import CONTRACT, DEADLINE_S, FEATURE, JOINTS, Rig, write_contract, write_manifest
from support.nodes.stillness import count_when_still


@pytest.fixture
def streaming(rig: Rig, tmp_path: Path) -> Rig:
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path), request_timeout_s=1.0, merge_mode="replace")
    rig.wait_for_state("STREAMING")
    rig.wait_for_commands(5)
    return rig


def test_the_policy_s_actions_reach_the_controller_in_its_own_order(streaming: Rig) -> None:
    """The hold policy answers with the measured joints; the sink lists them in reverse."""
    for _, command in streaming.commands:
        assert command == pytest.approx((-0.5, 0.25))
    chunked = [tick for tick in streaming.executed if tick.source == ExecutedAction.CHUNK]
    assert {tuple(tick.joint_names) for tick in chunked} == {JOINTS}
    assert all(tick.session_id and tick.policy_version and tick.action_age_s >= 0.0 for tick in chunked)


@pytest.mark.parametrize("mode", ["live", "shadow"])
def test_joints_have_the_policy_s_names_for_the_server_alone(rig: Rig, tmp_path: Path, mode: str) -> None:
    names = [f"{name}.pos" for name in JOINTS]
    rename = {"images.camera": FEATURE} | {f"joints.{name}": f"{name}.pos" for name in JOINTS}
    rig.start_server(write_manifest(tmp_path, {"state_names": names, "action_names": names}))
    rig.start_robot(write_contract(tmp_path, rename=rename), command_mode=mode)
    rig.wait_for_state("STREAMING")
    if mode == "live":
        rig.wait_for_commands(5)
        assert rig.commands[-1][1] == pytest.approx((-0.5, 0.25))
        assert {tuple(tick.joint_names) for tick in rig.executed if tick.joint_names} == {JOINTS}
    else:
        rig.wait_for(lambda: rig.states[-1].shadow_ticks > 0, "a comparison")
        assert tuple(rig.states[-1].shadow_names) == JOINTS


def test_a_robot_without_autostart_waits_for_resume(rig: Rig, tmp_path: Path) -> None:
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path), autostart=False)
    rig.wait_for(lambda: rig.states and rig.states[-1].session_id, "session")
    rig.wait_for(lambda: len(rig.executed) > 30, "a second of ticks")
    assert not rig.commands
    assert rig.states[-1].paused
    assert rig.trigger("resume").success
    rig.wait_for_commands(5)


def test_pause_stops_commands_and_resume_continues(streaming: Rig) -> None:
    assert streaming.trigger("pause").success
    streaming.wait_for(lambda: streaming.states[-1].paused, "paused state")
    commands = count_when_still(streaming)
    streaming.wait_for_executed(20)
    assert len(streaming.commands) == commands
    assert streaming.trigger("resume").success
    streaming.wait_for_commands(10)


def test_a_call_that_rclpy_cannot_take_neither_stops_nor_pauses_the_robot(streaming: Rig) -> None:
    unknown = [Parameter(name="fallback", value=ParameterValue(type=99))]
    begun = len(streaming.states)
    results = streaming.call(SetParameters, "remote_inference/set_parameters", parameters=unknown).results
    assert not results[0].successful
    streaming.wait_for_commands(10)
    streaming.wait_for(lambda: len(streaming.states) > begun + 1, "two more states")
    assert not any(state.paused for state in streaming.states[begun:])
    assert {state.state_name for state in streaming.states[begun:]} == {"STREAMING"}


def test_after_a_reset_no_action_of_the_old_episode_follows(streaming: Rig) -> None:
    response = streaming.trigger("reset")
    assert response.success, response.message
    streaming.wait_for(lambda: streaming.states[-1].episode_id == 1, "episode 1")
    started = streaming.call(StartEpisode, "remote_inference/start_episode", task="wave")
    assert (started.success, started.episode_id) == (True, 2)
    streaming.wait_for(lambda: streaming.states[-1].task == "wave", "new task")
    streaming.wait_for(
        lambda: any(t.episode_id == 2 and t.source == ExecutedAction.CHUNK for t in streaming.executed),
        "actions of episode 2",
    )
    seq_ids = [
        {tick.seq_id for tick in streaming.executed if tick.episode_id == episode and tick.seq_id}
        for episode in (0, 1, 2)
    ]
    assert not seq_ids[0] & seq_ids[1]
    assert not seq_ids[1] & seq_ids[2]


def test_a_reset_that_waits_for_its_server_is_answered_when_the_node_ends(rig: Rig, tmp_path: Path) -> None:
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path), reset_timeout_s=60.0, service_timeout_s=60.0)
    rig.wait_for_commands(5)
    episode = rig.states[-1].episode_id
    rig.server.send_signal(signal.SIGSTOP)
    answers: list[str] = []
    call = threading.Thread(target=lambda: answers.append(rig.trigger("reset").message))
    call.start()
    rig.wait_for(lambda: rig.states[-1].episode_id == episode + 1, "the next episode")
    rig.robot.send_signal(signal.SIGINT)
    call.join(DEADLINE_S)
    rig.server.send_signal(signal.SIGCONT)
    assert answers == [f"episode {episode + 1} began; the node stops"]


def test_a_malformed_chunk_is_dropped_and_counted(streaming: Rig) -> None:
    publisher = streaming.node.create_publisher(ActionChunk, CHUNK_TOPIC, EXCHANGE_QOS)
    streaming.wait_for(lambda: publisher.get_subscription_count() > 0, "the robot's subscription")

    def counts(counter: str, message: ActionChunk | bytes) -> None:
        before = getattr(streaming.states[-1], counter)
        streaming.publish_until(
            publisher, message, lambda: getattr(streaming.states[-1], counter) > before, counter
        )

    counts("chunks_rejected", ActionChunk(schema_version=1, horizon=5, action_dim=2, chunk_robot=[1.0]))
    counts("chunks_rejected", b"no CDR at all")
    counts("chunks_dropped", ActionChunk(schema_version=1, session_id="stranger", seq_id=10**9))
    streaming.wait_for_commands(10)
    assert streaming.robot.poll() is None


def test_a_camera_that_the_policy_does_not_use_is_neither_awaited_nor_sent(rig: Rig, tmp_path: Path) -> None:
    observations: list[Observation] = []
    rig.subscribe(Observation, OBSERVATION_TOPIC, observations.append, EXCHANGE_QOS)
    rig.start_server(write_manifest(tmp_path))
    top = {"topic": "top/image_raw", "type": "sensor_msgs/msg/Image"}
    images = {"top": top, **CONTRACT["images"]}
    rig.start_robot(write_contract(tmp_path, images=images))
    rig.wait_for_state("STREAMING")
    rig.wait_for(lambda: observations, "observation")
    rig.publish_until(
        rig.node.create_publisher(Image, "top/image_raw", SENSOR_QOS),
        Image(height=1, width=1, encoding="no such encoding"),
        lambda: len(observations) > 3,
        "observations while the unused camera delivers",
    )
    assert {len(observation.images) + len(observation.raw_images) for observation in observations} == {1}
    rig.wait_for(lambda: not rig.states[-1].stale_sources, "the sensors that are used deliver")
    log = (tmp_path / "logs" / "remote_inference.log").read_text()
    unused = "the policy does not use images.top: nothing of top/image_raw is sent or waited for"
    assert log.count(f"server /policy_server: {unused}") == 1


def test_a_policy_with_another_action_order_stops_the_robot(rig: Rig, tmp_path: Path) -> None:
    names = list(reversed(JOINTS))
    rig.start_server(write_manifest(tmp_path, policy={"action_names": names}))
    rig.start_robot(write_contract(tmp_path))
    assert rig.robot.wait(30) == 1
    assert not rig.commands
    log = (tmp_path / "logs" / "remote_inference.log").read_text()
    assert "action 0 is 'shoulder' on the robot, 'elbow' in the policy" in log


@pytest.mark.parametrize(
    ("contract", "parameters", "expected"),
    [
        ({"fps": "fast"}, {}, "contract.yaml: fps: found 'fast', expected a number"),
        ({"speed": 1}, {}, "contract.yaml: speed: unknown key"),
        ({}, {"fallback": "zero"}, "fallback: found 'zero' for position actions, expected"),
        ({}, {"servers": ["policy_server"]}, "servers: found 'policy_server', expected a full name"),
        ({}, {"fallback": "jump"}, "fallback: found 'jump', expected 'hold', 'repeat_last' or 'zero'"),
        ({}, {"request_timeout_s": -1.0}, "request_timeout_s"),
    ],
)
def test_a_bad_contract_or_parameter_stops_the_node_at_start_up(
    tmp_path: Path, contract: dict, parameters: dict, expected: str
) -> None:
    path = write_contract(tmp_path, **contract)
    process = bringup.robot(path, namespace="/rig", parameters=parameters)
    ended = subprocess.run(process.command(), capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    assert expected in ended.stderr
    assert "Traceback" not in ended.stderr
