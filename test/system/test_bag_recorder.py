# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The recorder's process writes what was published, and finishes its bag when it is told to stop."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import rclpy
from mcap.exceptions import EndOfFile, InvalidMagic
from mcap.reader import make_reader
from mcap.records import Message
from mcap.stream_reader import StreamReader
from rcl_interfaces.srv import GetParameters
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from rosbags.interfaces import QosDurability, QosReliability
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from remote_inference import __version__
from remote_inference.bags.checks.check import Level
from remote_inference.bags.checks.repair import repair
from remote_inference.bags.checks.verification import verify
from remote_inference.bags.nodes.bag_recorder import SUBSCRIPTION_DEPTH, subscription_qos
from remote_inference.bags.nodes.recorder_config import RecorderError, message_class, parse_topics
from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_metadata import METADATA_NAME
from remote_inference.bags.storage.bag_records import DROPPED, END, LOSSES, NODE, POLICY, RUN, BagError
from remote_inference.bags.storage.mcap_records import file_number
from remote_inference.bags.storage.mcap_scan import Messages, scan_file
from remote_inference.msg import ClientState, ExecutedAction, ServerStatus
from support.nodes.rig import write_contract
from support.waiting import wait_until

DEADLINE_S = 30.0
KILLS = int(os.environ.get("RECORDER_KILLS", "3"))

BUDGET = 8_400_000  # bytes of a bag

STATE, EXECUTED, JOINTS, LATCHED, TYPED = (
    "/arm/remote_inference/state",
    "/arm/executed",
    "/arm/joint_states",
    "/arm/latched",
    "/arm/latched_with_its_type",
)
RELIABLE = QoSProfile(depth=50, reliability=ReliabilityPolicy.RELIABLE)
BEST_EFFORT = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
TRANSIENT = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Recorder:
    """The recorder's process, with its log collected line by line."""

    def __init__(self, *parameters: str) -> None:
        arguments = [word for parameter in parameters for word in ("-p", parameter)]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "remote_inference.base.nodes.start",
                "bag_recorder",
                "--ros-args",
                *arguments,
            ],
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


def incompressible(size: int) -> str:
    return os.urandom(size).hex()


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
    typed = node.create_publisher(JointState, TYPED, TRANSIENT)
    typed.publish(JointState(name=["typed"]))
    joints = node.create_publisher(JointState, JOINTS, RELIABLE)
    recorder = start(
        f"path:={tmp_path / 'bags' / 'run'}",
        f"topics:=['{STATE}:remote_inference/msg/ClientState', '{JOINTS}', '{LATCHED}', '/arm/never', "
        f"'{TYPED}:sensor_msgs/msg/JointState']",
    )
    state = node.create_publisher(ClientState, STATE, TRANSIENT)
    state.publish(ClientState(cause="start-up"))
    wait_for_subscriber(joints)
    wait_for_subscriber(latched)
    wait_for_subscriber(typed)
    wait_for_subscriber(state)
    for i in range(20):
        joints.publish(JointState(name=["pan"], position=[float(i)]))
    wait_for_arrival(node, joints, latched, typed, state)
    assert recorder.stop(number) == 0

    assert recorder.log.count(f"recording 5 topics to {tmp_path / 'bags' / 'run'}") == 1
    assert f"{JOINTS}: 20 messages" in recorder.log
    assert "/arm/never: 0 messages" in recorder.log
    with BagReader(tmp_path / "bags" / "run") as bag:
        assert set(bag.topics) == {STATE, JOINTS, LATCHED, TYPED}
        assert [m.position[0] for _, _, m in bag.messages([JOINTS])] == list(range(20))
        assert [m.cause for _, _, m in bag.messages([STATE])] == ["start-up"]
        assert [m.name for _, _, m in bag.messages([LATCHED])] == [["latched"]]
        assert [m.name for _, _, m in bag.messages([TYPED])] == [["typed"]]
        offered = {name: topic.offered_qos[0].durability for name, topic in bag.topics.items()}
        assert offered == {
            STATE: QosDurability.TRANSIENT_LOCAL,
            LATCHED: QosDurability.TRANSIENT_LOCAL,
            TYPED: QosDurability.TRANSIENT_LOCAL,
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
    recorded = tmp_path / "run" / "run_0.mcap"

    def publish_until_on_disk() -> bool:
        executed.publish(ExecutedAction(joint_names=[incompressible(50_000)]))
        joints.publish(JointState(name=["pan"]))
        return recorded.stat().st_size > 2**17

    wait_until(publish_until_on_disk, "two messages of each topic recorded")
    assert recorder.stop(signal.SIGINT) == 0
    with BagReader(tmp_path / "run") as bag:
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
        joints.publish(JointState(name=[incompressible(50_000)]))
        return recorder.process.poll() is not None

    wait_until(publish_until_it_ends, "the recorder's end")
    assert recorder.wait() == 1
    assert f"recording to {tmp_path / 'run'} ended early: [Errno 27] File too large" in recorder.log
    assert (
        f"`remote-inference verify {tmp_path / 'run'} --repair NEW_FOLDER` recovers what is whole"
        in recorder.log
    )
    assert re.search(rf"{JOINTS}: \d+ messages, \d+ lost", recorder.log)
    assert not (tmp_path / "run" / "metadata.yaml").exists()
    repair(tmp_path / "run", tmp_path / "repaired")
    assert verify(tmp_path / "repaired").is_intact


def test_a_recorder_that_is_killed_at_random_moments_costs_no_more_than_its_last_chunk(
    node: Node, start: Callable[..., Recorder], tmp_path: Path
) -> None:
    """RECORDER_KILLS says how many are killed. Chunks and files end each second: some die between two."""
    rng = random.Random(7)
    for kill in range(KILLS):
        topic = f"{JOINTS}_{kill}"  # of the one before the middleware may not know yet that it is dead
        joints = node.create_publisher(JointState, topic, RELIABLE)
        run, repaired = tmp_path / f"run_{kill}", tmp_path / f"repaired_{kill}"
        recorder = start(
            f"path:={run}",
            f"topics:=['{topic}:sensor_msgs/msg/JointState']",
            f"max_split_duration_s:={rng.choice([0.0, 1.0])}",
        )
        wait_for_subscriber(joints)
        published = publish_for(joints, rng.uniform(0.0, 4.0))
        assert recorder.stop(signal.SIGKILL) == -signal.SIGKILL
        assert "Traceback" not in recorder.log
        whole = positions_in_whole_chunks(run)
        with pytest.raises(BagError, match="its recorder was killed; `remote-inference verify"):
            BagReader(run)
        unfinished = verify(run)
        assert not unfinished.is_intact
        assert any(
            f"`remote-inference verify {run} --repair NEW_FOLDER` recovers" in one.text
            for one in unfinished.findings
        )
        if not whole:
            with pytest.raises(BagError, match="nothing can be recovered"):
                repair(run, repaired)
            continue
        told = repair(run, repaired)
        with BagReader(repaired) as bag:
            found = [int(message.position[0]) for _, _, message in bag.messages([topic])]
        assert found == whole, "all but what the last chunk would have held"
        assert found == sorted(set(found))
        assert found[-1] < published
        result = verify(repaired)
        assert result.is_intact
        if told.lost != [f"{METADATA_NAME} was absent: written anew"]:
            assert "lost" in " ".join(one.text for one in result.of(Level.MISSING))


def publish_for(publisher: Publisher, seconds: float) -> int:
    """Publish numbers for a time; return how many."""
    end_s = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end_s:
        publisher.publish(JointState(name=[incompressible(500)], position=[float(number)]))
        number += 1
        time.sleep(0.002)  # a robot's sensors do not publish as fast as they can
    return number


def positions_in_whole_chunks(run: Path) -> list[int]:
    """Return what the MCAP library finds in the files of a killed recorder, up to where each is cut off."""
    found: list[bytes] = []
    for file in sorted(run.glob("*.mcap"), key=file_number):
        with suppress(EndOfFile, InvalidMagic), file.open("rb") as data:
            found.extend(one.data for one in StreamReader(data).records if isinstance(one, Message))
    return [int(deserialize_message(message, JointState).position[0]) for message in found]


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


def test_a_topic_that_is_published_with_another_type_is_named_and_recorded_once_it_has_its_own(
    node: Node, start: Callable[..., Recorder], tmp_path: Path
) -> None:
    context = rclpy.Context()  # a process with Fast DDS has one type for a topic
    rclpy.init(context=context)
    stranger = rclpy.create_node("stranger", context=context)
    stranger.create_publisher(String, TYPED, RELIABLE)
    recorder = start(
        f"path:={tmp_path / 'run'}",
        f"topics:=['{TYPED}:sensor_msgs/msg/JointState', '/rosout:std_msgs/msg/String']",
    )
    own = "published as rcl_interfaces/msg/Log, expected std_msgs/msg/String"
    for said in (
        f"not recording {TYPED} yet: published as std_msgs/msg/String, expected sensor_msgs/msg/JointState",
        f"not recording /rosout yet: {own}",
    ):
        wait_until(lambda said=said: said in recorder.log, said)
    stranger.destroy_node()
    rclpy.shutdown(context=context)
    typed = node.create_publisher(JointState, TYPED, RELIABLE)
    wait_for_subscriber(typed)
    typed.publish(JointState(name=["typed"]))
    wait_for_arrival(node, typed)
    assert recorder.stop(signal.SIGINT) == 0
    assert recorder.log.count("not recording") == 2
    with BagReader(tmp_path / "run") as bag:
        assert [m.name for _, _, m in bag.messages([TYPED])] == [["typed"]]


def test_the_bag_carries_the_robot_s_contract(start: Callable[..., Recorder], tmp_path: Path) -> None:
    contract = write_contract(tmp_path)
    recorder = start(f"path:={tmp_path / 'bag'}", f"topics:=['{JOINTS}']", f"contract:={contract}")
    wait_until(lambda: "recording 1 topics" in recorder.log, "the recorder")
    assert recorder.stop(signal.SIGINT) == 0
    with BagReader(tmp_path / "bag") as bag:
        assert bag.contract == contract.read_text()


def test_a_bad_contract_is_refused(start: Callable[..., Recorder], tmp_path: Path) -> None:
    contract = write_contract(tmp_path, fps=-1)
    recorder = start(f"path:={tmp_path / 'bag'}", f"topics:=['{JOINTS}']", f"contract:={contract}")
    assert recorder.wait() == 2
    assert f"parameter contract: {contract}: fps: found -1" in recorder.log
    assert not (tmp_path / "bag").exists()


def records_of(bag: Path) -> dict[str, dict[str, str]]:
    """Return the newest metadata record of each name in a bag's last file."""
    with max(bag.glob("*.mcap")).open("rb") as file:
        return {record.name: record.metadata for record in make_reader(file).iter_metadata()}


def test_the_bag_says_how_many_messages_of_which_topic_were_lost(
    node: Node, start: Callable[..., Recorder], tmp_path: Path
) -> None:
    """A stopped recorder takes nothing; its middleware keeps the newest messages of each topic only."""
    joints = node.create_publisher(JointState, JOINTS, BEST_EFFORT)
    recorder = start(f"path:={tmp_path / 'run'}", f"topics:=['{JOINTS}:sensor_msgs/msg/JointState']")
    wait_for_subscriber(joints)
    file = tmp_path / "run" / "run_0.mcap"
    size = file.stat().st_size

    def publish_until_one_is_recorded() -> bool:
        joints.publish(JointState(name=["before"]))
        return file.stat().st_size > size

    wait_until(publish_until_one_is_recorded, "a message in the file")
    recorder.process.send_signal(signal.SIGSTOP)
    for _ in range(50 * SUBSCRIPTION_DEPTH):
        joints.publish(JointState(name=["while it stands"]))
    recorder.process.send_signal(signal.SIGCONT)

    def publish_until_it_is_said() -> bool:
        joints.publish(JointState(name=["after"]))
        return "messages lost so far" in recorder.log

    wait_until(publish_until_it_is_said, "the loss in the log")
    wait_for_arrival(node, joints)
    assert recorder.stop(signal.SIGINT) == 0
    numbers = [
        message.sequence
        for part in scan_file(file)
        if isinstance(part, Messages)
        for message in part.messages
    ]
    recorded = len(numbers)
    # What was published before the first one or after the last one is not known to be lost.
    lost = numbers[-1] - (numbers[0] - 1) - recorded
    assert lost > 0
    records = records_of(tmp_path / "run")
    assert json.loads(records[LOSSES]["before"]) == {JOINTS: lost}
    assert json.loads(records[END]["lost"]) == {JOINTS: lost}
    assert (records[END]["reason"], json.loads(records[END]["messages"])) == (
        "told to stop",
        {JOINTS: recorded},
    )


def test_a_topic_of_two_publishers_is_uncounted_and_no_loss_is_claimed(
    node: Node, start: Callable[..., Recorder], tmp_path: Path
) -> None:
    publishers = [node.create_publisher(JointState, JOINTS, BEST_EFFORT) for _ in range(2)]
    recorder = start(f"path:={tmp_path / 'run'}", f"topics:=['{JOINTS}:sensor_msgs/msg/JointState']")
    for publisher in publishers:
        wait_for_subscriber(publisher)
    file = tmp_path / "run" / "run_0.mcap"

    def publish_until_the_record() -> bool:
        for publisher in publishers:
            publisher.publish(JointState(name=["one of two"]))
        return b"uncounted" in file.read_bytes()

    wait_until(publish_until_the_record, "the record of what is not counted")
    assert recorder.stop(signal.SIGINT) == 0
    assert json.loads(records_of(tmp_path / "run")[LOSSES]["uncounted"]) == [JOINTS]
    assert "lost" not in recorder.log


def test_the_bag_carries_the_parameters_of_the_robot_s_node_and_the_server_s_policy(
    node: Node, start: Callable[..., Recorder], tmp_path: Path
) -> None:
    node.declare_parameter("buffer_time_s", 0.25)
    node.declare_parameter("servers", ["/gpu"])
    status = node.create_publisher(ServerStatus, "/gpu/status", TRANSIENT)
    policy = {"policy_name": "pick", "policy_revision": "3", "policy_fingerprint": "f"}
    status.publish(ServerStatus(server="/gpu", manifest_digest="d", **policy))
    name = node.get_fully_qualified_name()
    recorder = start(
        f"path:={tmp_path / 'run'}",
        "topics:=['/gpu/status:remote_inference/msg/ServerStatus']",
        f"robot:={name}",
    )
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)

    def recorded() -> bool:
        executor.spin_once(timeout_sec=0.1)
        data = (
            (tmp_path / "run" / "run_0.mcap").read_bytes()
            if (tmp_path / "run" / "run_0.mcap").exists()
            else b""
        )
        return NODE.encode() in data and POLICY.encode() in data

    wait_until(recorded, "the records")
    executor.shutdown()
    assert recorder.stop(signal.SIGINT) == 0
    records = records_of(tmp_path / "run")
    parameters = json.loads(records[NODE]["parameters"])
    assert records[NODE]["node"] == name
    assert (parameters["buffer_time_s"], parameters["servers"]) == (0.25, ["/gpu"])
    assert records[POLICY] == {
        "server": "/gpu", "name": "pick", "revision": "3", "fingerprint": "f", "manifest_digest": "d",
    }  # fmt: skip
    assert records[RUN]["package_version"] == __version__
    assert json.loads(records[RUN]["recorder"])["robot"] == name


def test_a_status_of_another_release_is_recorded_and_ends_nothing(
    node: Node, start: Callable[..., Recorder], tmp_path: Path
) -> None:
    """The recorder reads a status only to learn of the policy."""
    latched = QoSProfile(depth=3, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    publisher = node.create_publisher(ServerStatus, "/gpu/status", latched)
    status = serialize_message(ServerStatus(server="/gpu", policy_name="pick"))
    topic = "/gpu/status:remote_inference/msg/ServerStatus"
    recorder = start(f"path:={tmp_path / 'run'}", f"topics:=['{topic}']")
    wait_for_subscriber(publisher)
    for data in (status[:-40], status[:-40], status):
        publisher.publish(data)
    wait_for_arrival(node, publisher)
    assert recorder.stop(signal.SIGINT) == 0
    assert "/gpu/status: 3 messages" in recorder.log
    assert records_of(tmp_path / "run")[POLICY]["name"] == "pick"
    assert recorder.log.count("expected a serialized ServerStatus: its server's policy is not known") == 1


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        (
            ["when_full:=drop_oldest", "min_free_bytes:=0"],
            "when_full: found drop_oldest, expected max_bytes",
        ),
        (
            ["when_full:=drop_oldest", "max_bytes:=9000000", "max_split_bytes:=6000000"],
            "expected at least twice",
        ),
        (["max_split_bytes:=5"], "max_split_bytes: found 5, expected 0 or at least"),
        (["max_bytse:=5"], "max_bytse"),
    ],
)
def test_budgets_that_cannot_work_are_refused(
    parameters: list[str], reason: str, start: Callable[..., Recorder], tmp_path: Path
) -> None:
    recorder = start(f"path:={tmp_path / 'run'}", f"topics:=[{JOINTS}]", *parameters)
    assert recorder.wait() == 2
    assert reason in recorder.log
    assert not (tmp_path / "run").exists()


def test_a_bag_that_may_not_grow_is_finished_and_readable(
    node: Node, start: Callable[..., Recorder], tmp_path: Path
) -> None:
    joints = node.create_publisher(JointState, JOINTS, RELIABLE)
    recorder = start(
        f"path:={tmp_path / 'run'}", f"topics:=['{JOINTS}:sensor_msgs/msg/JointState']", "max_bytes:=8400000"
    )
    wait_for_subscriber(joints)

    def publish_until_it_ends() -> bool:
        joints.publish(JointState(name=[incompressible(50_000)]))
        return recorder.process.poll() is not None

    wait_until(publish_until_it_ends, "the recorder's end")
    assert recorder.wait() == 1
    assert "ended early: " in recorder.log
    assert "the bag has reached max_bytes, 8400000 bytes" in recorder.log
    assert sum(file.stat().st_size for file in (tmp_path / "run").glob("*.mcap")) <= 8_400_000
    with BagReader(tmp_path / "run") as bag:
        assert len(list(bag.messages())) == bag.message_count > 0


def test_a_bag_that_drops_its_oldest_file_goes_on_within_its_budget(
    node: Node, start: Callable[..., Recorder], tmp_path: Path
) -> None:
    joints = node.create_publisher(JointState, JOINTS, RELIABLE)
    recorder = start(
        f"path:={tmp_path / 'run'}",
        f"topics:=['{JOINTS}:sensor_msgs/msg/JointState']",
        "when_full:=drop_oldest",
        f"max_bytes:={BUDGET}",
        "max_split_bytes:=2000000",
    )
    wait_for_subscriber(joints)
    number = 0
    sizes = []

    def publish_until_two_are_dropped() -> bool:
        nonlocal number
        joints.publish(JointState(name=[incompressible(50_000)], position=[float(number)]))
        number += 1
        sizes.append(size_of(tmp_path / "run"))
        return (tmp_path / "run" / "run_5.mcap").exists() and not (tmp_path / "run" / "run_1.mcap").exists()

    wait_until(publish_until_two_are_dropped, "the second file is dropped", 3 * DEADLINE_S)
    wait_for_arrival(node, joints)
    assert recorder.stop(signal.SIGINT) == 0
    assert max([*sizes, size_of(tmp_path / "run")]) <= BUDGET
    records = records_of(tmp_path / "run")
    dropped = json.loads(records[DROPPED]["files"])
    assert dropped[:2] == ["run_0.mcap", "run_1.mcap"]
    with BagReader(tmp_path / "run") as bag:
        found = [int(message.position[0]) for _, _, message in bag.messages([JOINTS])]
    assert found[-1] == number - 1
    assert found == sorted(set(found))
    # On a busy machine some are lost on the way. Of those before the oldest that is left nobody knows.
    lost = json.loads(records[END]["lost"]).get(JOINTS, 0)
    missing = number - found[0] - len(found)
    assert missing <= lost, "what was dropped is the oldest, and nothing else"
    result = verify(tmp_path / "run")
    assert result.is_intact
    assert f"{len(dropped)} files dropped by the disk budget" in [
        one.text for one in result.of(Level.MISSING)
    ]


def size_of(bag: Path) -> int:
    """Return the bytes of a bag's files, one of which may be dropped this moment."""
    sizes = []
    for file in bag.glob("*.mcap"):
        with suppress(FileNotFoundError):
            sizes.append(file.stat().st_size)
    return sum(sizes)


def test_topic_entries_may_carry_a_type() -> None:
    assert parse_topics(["/a", "/b:std_msgs/msg/Header"]) == {"/a": "", "/b": "std_msgs/msg/Header"}
    with pytest.raises(RecorderError, match="no topic named"):
        parse_topics([])
    with pytest.raises(RecorderError, match="parameter topics: found ' ' in '/arm/joint states'"):
        parse_topics(["/arm/joint states"])
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
