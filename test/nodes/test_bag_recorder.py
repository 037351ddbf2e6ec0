# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The recorder's process writes what was published, and finishes its bag when it is told to stop."""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rcl_interfaces.srv import GetParameters
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rig import write_contract
from rosbags.interfaces import QosDurability, QosReliability
from sensor_msgs.msg import JointState
from waiting import wait_until

from remote_inference.msg import ClientState, ExecutedAction
from remote_inference.nodes.bag_recorder import RecorderError, message_class, parse_topics, subscription_qos
from remote_inference.recording.bag import open_bag

DEADLINE_S = 30.0

STATE, EXECUTED, JOINTS, LATCHED = (
    "/arm/remote_inference/state",
    "/arm/executed",
    "/arm/joint_states",
    "/arm/latched",
)
RELIABLE = QoSProfile(depth=50, reliability=ReliabilityPolicy.RELIABLE)
BEST_EFFORT = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
TRANSIENT = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Recorder:
    """The recorder's process, with its log collected line by line."""

    def __init__(self, *parameters: str) -> None:
        arguments = [word for parameter in parameters for word in ("-p", parameter)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "remote_inference.nodes.start", "bag_recorder", "--ros-args", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log += line

    def wait(self) -> int:
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return code

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        return self.wait()


@pytest.fixture
def start() -> Iterator[Callable[..., Recorder]]:
    recorders: list[Recorder] = []

    def begin(*parameters: str) -> Recorder:
        recorders.append(Recorder(*parameters))
        return recorders[-1]

    yield begin
    for recorder in recorders:
        if recorder.process.poll() is None:
            recorder.stop(signal.SIGTERM)


def wait_for_subscriber(publisher: Publisher) -> None:
    wait_until(lambda: publisher.get_subscription_count() > 0, f"subscription of {publisher.topic_name}")


def wait_for_arrival(node: Node, *publishers: Publisher) -> None:
    """Wait until every published message has reached the recorder.

    rmw_zenoh acknowledges nothing and says yes at once; there, a request that is sent later arrives later.
    """
    assert all(publisher.wait_for_all_acked(Duration(seconds=DEADLINE_S)) for publisher in publishers)
    client = node.create_client(GetParameters, "/bag_recorder/get_parameters")
    assert client.wait_for_service(DEADLINE_S)
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)

    def answered() -> bool:
        future = client.call_async(GetParameters.Request())  # again when the answer is lost: it only reads
        executor.spin_until_future_complete(future, timeout_sec=2.0)
        return future.done()

    wait_until(answered, "the recorder's answer")
    executor.shutdown()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_messages_are_in_the_bag_after_a_signal(
    number: int, node: Node, start: Callable[..., Recorder], tmp_path: Path
) -> None:
    latched = node.create_publisher(JointState, LATCHED, TRANSIENT)
    latched.publish(JointState(name=["latched"]))
    joints = node.create_publisher(JointState, JOINTS, RELIABLE)
    recorder = start(
        f"path:={tmp_path / 'bags' / 'run'}",
        f"topics:=['{STATE}:remote_inference/msg/ClientState', '{JOINTS}', '{LATCHED}', '/arm/never']",
    )
    state = node.create_publisher(ClientState, STATE, TRANSIENT)
    state.publish(ClientState(cause="start-up"))
    wait_for_subscriber(joints)
    wait_for_subscriber(latched)
    wait_for_subscriber(state)
    for i in range(20):
        joints.publish(JointState(name=["pan"], position=[float(i)]))
    wait_for_arrival(node, joints, latched, state)
    assert recorder.stop(number) == 0

    assert recorder.log.count(f"recording 4 topics to {tmp_path / 'bags' / 'run'}") == 1
    assert f"{JOINTS}: 20 messages" in recorder.log
    assert "/arm/never: 0 messages" in recorder.log
    with open_bag(tmp_path / "bags" / "run") as bag:
        assert set(bag.topics) == {STATE, JOINTS, LATCHED}
        assert [m.position[0] for _, _, m in bag.messages([JOINTS])] == list(range(20))
        assert [m.cause for _, _, m in bag.messages([STATE])] == ["start-up"]
        assert [m.name for _, _, m in bag.messages([LATCHED])] == [["latched"]]
        offered = {name: topic.offered_qos[0].durability for name, topic in bag.topics.items()}
        assert offered == {
            STATE: QosDurability.TRANSIENT_LOCAL,
            LATCHED: QosDurability.TRANSIENT_LOCAL,
            JOINTS: QosDurability.VOLATILE,
        }
        assert abs(bag.end_ns - time.time_ns()) < 10 * DEADLINE_S * 1e9


def test_best_effort_topics_are_recorded(node: Node, start: Callable[..., Recorder], tmp_path: Path) -> None:
    executed = node.create_publisher(ExecutedAction, EXECUTED, BEST_EFFORT)
    joints = node.create_publisher(JointState, JOINTS, BEST_EFFORT)
    recorder = start(
        f"path:={tmp_path / 'run'}", f"topics:=['{EXECUTED}:remote_inference/msg/ExecutedAction', '{JOINTS}']"
    )
    wait_for_subscriber(executed)
    wait_for_subscriber(joints)
    recorded = tmp_path / "run" / "run.mcap"

    def publish_until_on_disk() -> bool:
        # The writer flushes a chunk of the file per MiB.
        executed.publish(ExecutedAction(joint_names=["x" * 100_000]))
        joints.publish(JointState(name=["pan"]))
        return recorded.stat().st_size > 2**20

    wait_until(publish_until_on_disk, "a megabyte recorded")
    assert recorder.stop(signal.SIGINT) == 0
    with open_bag(tmp_path / "run") as bag:
        assert {topic for topic, _, _ in bag.raw_messages()} == {EXECUTED, JOINTS}
        assert bag.topics[EXECUTED].offered_qos[0].reliability == QosReliability.BEST_EFFORT
        assert bag.topics[JOINTS].offered_qos[0].reliability == QosReliability.BEST_EFFORT


def test_a_recording_ends_at_the_first_failed_write_and_says_so(
    node: Node, start: Callable[..., Recorder], tmp_path: Path
) -> None:
    joints = node.create_publisher(JointState, JOINTS, RELIABLE)
    recorder = start(f"path:={tmp_path / 'run'}", f"topics:=['{JOINTS}:sensor_msgs/msg/JointState']")
    wait_for_subscriber(joints)
    # No file of the recorder's may grow beyond a megabyte: to it, that is a full disk.
    resource.prlimit(recorder.process.pid, resource.RLIMIT_FSIZE, (2**20, 2**20))

    def publish_until_it_ends() -> bool:
        joints.publish(JointState(name=["x" * 100_000]))
        return recorder.process.poll() is not None

    wait_until(publish_until_it_ends, "the recorder's end")
    assert recorder.wait() == 1
    assert f"recording to {tmp_path / 'run'} ended early: [Errno 27] File too large" in recorder.log
    assert re.search(rf"{JOINTS}: \d+ messages, \d+ dropped", recorder.log)
    assert "Traceback" not in recorder.log


@pytest.mark.parametrize(
    ("path", "topics", "reason"),
    [
        ("there", f"[{JOINTS}]", "there: exists already, a bag is never overwritten"),
        ("run", "[joint_states]", "parameter topics: found 'joint_states', expected an absolute name"),
        ("run", f"[{JOINTS}, {JOINTS}]", f"parameter topics: {JOINTS} is named twice"),
        (
            "run",
            f"['{JOINTS}:sensor_msgs/msg/Joints']",
            "type 'sensor_msgs/msg/Joints' is not installed",
        ),
        ("run", "5", "topics"),
    ],
)
def test_topics_that_cannot_be_recorded_are_refused(
    path: str, topics: str, reason: str, start: Callable[..., Recorder], tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    recorder = start(f"path:={tmp_path / path}", f"topics:={topics}")
    assert recorder.wait() == 2
    assert "Traceback" not in recorder.log
    assert re.search(f"^cannot start: .*{re.escape(reason)}", recorder.log, re.MULTILINE)
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]
    assert not list((tmp_path / "there").iterdir())


def test_the_bag_carries_the_robot_s_contract(start: Callable[..., Recorder], tmp_path: Path) -> None:
    contract = write_contract(tmp_path)
    recorder = start(f"path:={tmp_path / 'bag'}", f"topics:=['{JOINTS}']", f"contract:={contract}")
    wait_until(lambda: "recording 1 topics" in recorder.log, "the recorder")
    assert recorder.stop(signal.SIGINT) == 0
    with open_bag(tmp_path / "bag") as bag:
        assert bag.contract == contract.read_text()


def test_a_bad_contract_is_refused(start: Callable[..., Recorder], tmp_path: Path) -> None:
    contract = write_contract(tmp_path, fps=-1)
    recorder = start(f"path:={tmp_path / 'bag'}", f"topics:=['{JOINTS}']", f"contract:={contract}")
    assert recorder.wait() == 2
    assert f"parameter contract: {contract}: fps: found -1" in recorder.log
    assert not (tmp_path / "bag").exists()


def test_topic_entries_may_carry_a_type() -> None:
    assert parse_topics(["/a", "/b:std_msgs/msg/Header"]) == {"/a": "", "/b": "std_msgs/msg/Header"}
    with pytest.raises(RecorderError, match="no topic named"):
        parse_topics([])
    assert message_class("sensor_msgs/msg/JointState") is JointState
    for wrong in ("JointState", "/msg/", "nowhere/msg/Type", "sensor_msgs/msg/"):
        with pytest.raises(RecorderError, match="is not installed"):
            message_class(wrong)


def test_subscriptions_are_compatible_with_every_publisher() -> None:
    unknown = subscription_qos([])
    assert unknown.reliability == ReliabilityPolicy.BEST_EFFORT
    assert unknown.durability == DurabilityPolicy.VOLATILE
    assert subscription_qos([RELIABLE]).reliability == ReliabilityPolicy.RELIABLE
    assert subscription_qos([RELIABLE, BEST_EFFORT]).reliability == ReliabilityPolicy.BEST_EFFORT
    assert subscription_qos([TRANSIENT]).durability == DurabilityPolicy.TRANSIENT_LOCAL
    assert subscription_qos([TRANSIENT, RELIABLE]).durability == DurabilityPolicy.VOLATILE
