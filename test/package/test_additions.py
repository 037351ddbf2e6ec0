# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An addition is one module and one line: each test writes a module elsewhere and adds it by that line.

`contrib` stands for the module that somebody adds; nothing else of the package is touched.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from weight_links import in_process

from remote_inference.bags.decisions.run import SinkStops
from remote_inference.bags.provenance.motion import find_reasons
from remote_inference.bags.provenance.page.page_reader import make_thumbnail
from remote_inference.bags.provenance.run_reader import describe_image, read_command
from remote_inference.bags.timeline.timeline import WatchdogStops
from remote_inference.base.contract.commands.sink import COMMAND_INTERFACES
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE, IMAGE, ImageSource
from remote_inference.base.contract.state_source import MESSAGE_READERS
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.base.documents.registry import Registry
from remote_inference.base.exchange import ImageFeature
from remote_inference.base.wire.commands import make_command_writer, make_sink_reader
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.base.wire.observation import EncodedImage, announced_pixels, decode_images
from remote_inference.base.wire.sensors.state_readers import CameraReader, make_state_readers
from remote_inference.base.wire.session import offer_from_request, offer_to_request
from remote_inference.learn.environments import ENVIRONMENTS, make_environment
from remote_inference.learn.weights import COMPRESSIONS, SenderConfig, WeightsError, WeightSyncer
from remote_inference.learn.weights.changes import STRATEGIES
from remote_inference.msg import ExecutedAction, WatchdogState
from remote_inference.robot.command import CommandSource
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.fallbacks import FALLBACKS
from remote_inference.robot.queue.action_queue import MergeMode
from remote_inference.server.manifest.manifest import load_manifest
from remote_inference.server.manifest.sections import BACK_ENDS
from remote_inference.server.policies import load_policy
from remote_inference.server.schedulers import SCHEDULERS
from remote_inference.server.sessions import Session
from remote_inference.server.warmup import largest_batch, make_scheduler
from support.builders import (
    JOINTS,
    PERIOD_NS,
    ShiftProcessors,
    contract_document,
    make_contract,
    make_offer,
    make_source,
    make_spec,
)
from support.entry_point_files import install
from support.robot.playbacks import make_playback, make_queue
from support.waiting import wait_until

REGISTRIES: tuple[Registry[Any], ...] = (
    BACK_ENDS,
    COMMAND_INTERFACES,
    COMPRESSIONS,
    ENVIRONMENTS,
    FALLBACKS,
    IMAGE_ENCODINGS,
    MESSAGE_READERS,
    SCHEDULERS,
    STRATEGIES,
)

Add = Callable[[Registry[Any], str, str], None]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    """Add an entry `contrib` to a registry, taken away after the test; code: what its module holds."""
    monkeypatch.syspath_prepend(tmp_path)

    def add(registry: Registry[Any], attribute: str, code: str) -> None:
        module = f"contrib_{attribute.lower()}"
        (tmp_path / f"{module}.py").write_text(dedent(code))
        monkeypatch.delitem(sys.modules, module, raising=False)  # that of another test
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
        registry.add("contrib", f"{module}:{attribute}")

    return add


def write_manifest(folder: Path, **changes: Any) -> Path:
    path = folder / "manifest.yaml"
    path.write_text(json.dumps({"model": {"backend": "hold", "path": "policy.json"}, **changes}))
    return path


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_every_entry_can_be_imported_and_its_name_is_taken(registry: Registry[Any]):
    for name in registry.names:
        assert registry.get(name)
        with pytest.raises(ValueError, match=f"^{registry.kind} '{name}' is there already"):
            registry.add(name, "contrib:Other")


def test_a_policy_back_end_is_added(add: Add, tmp_path: Path):
    model = {"backend": "contrib", "path": "weights", "device": "npu:1", "dtype": "float16"}
    path = write_manifest(tmp_path, model=model)
    with pytest.raises(DocumentError, match=r"model\.backend: found 'contrib', expected 'chunk_network'"):
        load_manifest(path)
    add(
        BACK_ENDS,
        "StillPolicy",
        """
        from support.builders import SteadyPolicy

        class StillPolicy(SteadyPolicy):
            def __init__(self, source):
                super().__init__(name=f"still {source.device} {source.dtype}")
                self.path = source.path
        """,
    )
    policy: Any = load_policy(load_manifest(path).model)
    assert (policy.spec.name, policy.path) == ("still npu:1 float16", str(tmp_path / "weights"))


def test_a_command_interface_is_added(add: Add):
    document = contract_document("effort")
    document["commands"][0]["type"] = "contrib"
    with pytest.raises(DocumentError, match=r"commands\.0: type: found 'contrib', expected 'std_msgs"):
        parse_document(document, Contract, "arm.contract.yaml")
    add(
        COMMAND_INTERFACES,
        "INTERFACE",
        """
        from std_msgs.msg import Float32MultiArray

        from remote_inference.base.contract.commands.sink import CommandInterface
        from remote_inference.base.wire.commands.writer import CommandWriter

        class HalfWriter(CommandWriter):
            message_type = Float32MultiArray

            def _write(self, rows, stamp):
                return Float32MultiArray(data=rows.ravel().astype("float32").tolist())

        INTERFACE = CommandInterface(f"{__name__}:HalfWriter", kinds=("effort",), takes_horizon=True)
        """,
    )
    contract = parse_document(document, Contract, "arm.contract.yaml")
    writer = make_command_writer(contract.commands[0], contract)
    message = writer.message(np.arange(2.0 * len(JOINTS)).reshape(2, -1), Time())
    assert isinstance(message, writer.message_type)
    assert list(message.data) == [0.0, 1.0, 2.0, 3.0]
    assert contract.commands[0].interface.takes_horizon
    document["actions"]["kind"] = "position"
    with pytest.raises(DocumentError, match=r"takes a contrib, expected actions of kind effort"):
        parse_document(document, Contract, "arm.contract.yaml")


@pytest.mark.parametrize(("kind", "is_told"), [("effort", True), ("position", False)])
def test_a_bag_is_replayed_whose_commands_nobody_reads(add: Add, kind: str, is_told: bool):
    """Which messages stop an effort is known; where a position was held nobody can read."""
    add(
        COMMAND_INTERFACES,
        "INTERFACE",
        f"""
        from remote_inference.base.contract.commands.sink import CommandInterface

        WRITER = "remote_inference.base.wire.commands:ArrayWriter"
        INTERFACE = CommandInterface(WRITER, kinds=("{kind}",), takes_horizon=True)
        """,
    )
    document = contract_document(kind)
    document["commands"][0]["type"] = "contrib"
    contract = parse_document(document, Contract, "arm.contract.yaml")
    (sink,) = contract.commands
    told, writer = WatchdogStops(), make_command_writer(sink, contract)
    for trips in (0, 1):
        told.append(float(trips), WatchdogState(trips=trips))
    stop = writer.message(np.zeros((1, len(JOINTS))), Time())
    assert SinkStops(sink, writer, contract, told).match(1.0, stop) == is_told


def test_a_command_interface_is_found_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_commands.py").write_text(
        dedent(
            """
            from std_msgs.msg import Float32

            from remote_inference.base.contract.commands.sink import CommandInterface
            from remote_inference.base.wire.commands.writer import CommandReader, CommandWriter

            class Writer(CommandWriter):
                message_type = Float32

                def _write(self, rows, stamp):
                    return Float32(data=float(rows[0, 0]))

            class Reader(CommandReader):
                message_type = Float32

                def read(self, message):
                    return [message.data]

            FLOAT = CommandInterface(f"{__name__}:Writer", f"{__name__}:Reader", kinds=("velocity",))
            """
        )
    )
    declared = "std_msgs/msg/Float32 = my_commands:FLOAT"
    install(tmp_path, "my-commands", declared, group="remote_inference.command_interfaces")
    document = contract_document("velocity")
    document["commands"][0]["type"] = "std_msgs/msg/Float32"
    contract = parse_document(document, Contract, "arm.contract.yaml")
    sink = contract.commands[0]
    message = make_command_writer(sink, contract).message(np.full((1, len(JOINTS)), 0.5), Time())
    assert make_sink_reader(sink, contract).read(message) == [0.5]
    assert "std_msgs/msg/Float32" in COMMAND_INTERFACES.every_name
    document["actions"]["kind"] = "effort"
    with pytest.raises(
        DocumentError, match=r"takes a Float32, expected actions of kind velocity, found effort"
    ):
        parse_document(document, Contract, "arm.contract.yaml")


def test_a_message_reader_is_added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Its name is a message type: of a driver's own package, which is built with the robot's workspace."""
    document = contract_document()
    document["state"].append({"topic": "load", "type": "load_cell/msg/Load", "names": ["grip", "lift"]})
    with pytest.raises(DocumentError, match=r"state\.1: fields: missing, expected the numbers to read"):
        parse_document(document, Contract, "arm.contract.yaml")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "contrib_load.py").write_text(
        "def read(message):\n    return [cell.milligrams / 1e6 for cell in message.cells]\n"
    )
    monkeypatch.setattr(MESSAGE_READERS, "_entries", dict(MESSAGE_READERS._entries))
    MESSAGE_READERS.add("load_cell/msg/Load", "contrib_load:read")
    contract = parse_document(document, Contract, "arm.contract.yaml")
    topic, reader = make_state_readers(contract)[1]
    cells = [SimpleNamespace(milligrams=2_000_000), SimpleNamespace(milligrams=500_000)]
    assert topic == "load"
    assert reader.read(SimpleNamespace(cells=cells)).tolist() == [2.0, 0.5]


def test_a_scheduler_is_added(add: Add, tmp_path: Path):
    options = {"skipped": 1, "largest": 3}
    path = write_manifest(tmp_path, scheduler="contrib", max_sessions=9, **options)
    with pytest.raises(DocumentError, match="scheduler: found 'contrib', expected 'round_robin'"):
        load_manifest(path)
    add(
        SCHEDULERS,
        "LastFirst",
        """
        from remote_inference.server.schedulers import SchedulerOptions, Selection

        class Options(SchedulerOptions):
            skipped: int = 0
            largest: int = 1

            @property
            def most(self):
                return self.largest

        class LastFirst:
            batches = True
            options = Options

            @classmethod
            def make(cls, options, most):
                made = cls()
                made.max_batch, made.skipped = most, options.skipped
                return made

            def select(self, ready, joinable, now_ns, chosen=0):
                return Selection(ready[::-1][self.skipped : self.skipped + self.max_batch - chosen])
        """,
    )
    manifest = load_manifest(path)
    sessions = [Session(f"s{index}", make_offer(), ShiftProcessors()) for index in range(5)]
    selection = make_scheduler(manifest, policy_max_batch=2).select(sessions, 5, 0)
    assert [session.session_id for session in selection.batch] == ["s3", "s2"]
    assert largest_batch(manifest, make_spec(max_batch=2)) == 2
    other = load_manifest(write_manifest(tmp_path, scheduler="contrib", max_batch=3))
    assert other.scheduler_options.skipped == 0
    problems = {"skipped": "skipped: found 'two', expected a whole number", "skiped": "skiped: unknown"}
    for key, problem in problems.items():
        with pytest.raises(DocumentError, match=problem):
            load_manifest(write_manifest(tmp_path, scheduler="contrib", **{key: "two"}))


def test_a_scheduler_is_found_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_turns.py").write_text(
        "from remote_inference.server.schedulers import RoundRobin as Turns\n"
    )
    install(tmp_path, "my-turns", "turns = my_turns:Turns", group="remote_inference.schedulers")
    manifest = load_manifest(write_manifest(tmp_path, scheduler="turns"))
    assert make_scheduler(manifest, policy_max_batch=2).select([], 0, 0).wait_ns == 0
    install(tmp_path, "my-mistake", "mistake = my_turns:Nothing", group="remote_inference.schedulers")
    with pytest.raises(DocumentError, match=r"scheduler: 'mistake' of my-mistake 1.0 cannot be used: "):
        load_manifest(write_manifest(tmp_path, scheduler="mistake"))


def test_a_fallback_is_added(add: Add):
    with pytest.raises(DocumentError, match="fallback: found 'contrib', expected 'hold'"):
        parse_document({"fallback": "contrib"}, RobotConfig, "parameters")
    add(
        FALLBACKS,
        "SlowDown",
        """
        from remote_inference.robot.command import CommandSource

        class SlowDown:
            action_kinds = ("velocity",)
            source = CommandSource(120)

            def command(self, last, reference):
                return last / 2

            def stop(self, last):
                return last * 0
        """,
    )
    config = parse_document({"fallback": "contrib"}, RobotConfig, "parameters")
    contract = make_contract("velocity")
    config.check_fallback(contract.actions.kind)
    with pytest.raises(ValueError, match=r"'contrib' for effort actions, expected 'zero'$"):
        config.check_fallback("effort")
    queue = make_queue(contract)
    playback = make_playback(contract, queue, config.fallback)
    assert playback.tick(0).command is None, "before the first action another node may drive the robot"
    rows = np.full((1, len(JOINTS)), 0.1, np.float32)
    queue.merge(make_source(), rows, rows, MergeMode.APPEND, latency_steps=0, executed_before=0)
    ticks = [playback.tick(index * PERIOD_NS) for index in range(1, 4)]
    assert [tick.source for tick in ticks] == [CommandSource.CHUNK] + [CommandSource(120)] * 2
    assert ticks[1].source.name == "FALLBACK_120"
    assert CommandSource(120) not in list(CommandSource), "the message has no constant for it"
    told = read_command(0, ExecutedAction(source=ticks[1].source), 0)
    assert told.source == "FALLBACK_120"
    assert find_reasons(told, None, None)[0] == "the fallback commanded by a rule of its own (FALLBACK_120)"
    with pytest.raises(ValueError, match="99 is not a valid CommandSource"):
        CommandSource(99)
    assert np.stack([tick.command for tick in ticks])[:, 0] == pytest.approx([0.1, 0.05, 0.025])
    playback.control.change(paused=True)
    assert playback.tick(4 * PERIOD_NS).command == pytest.approx(np.zeros(len(JOINTS)))


def test_an_image_encoding_is_added(add: Add):
    camera = {"topic": "front", "type": IMAGE, "encoding": "contrib", "options": {"level": 3}}
    with pytest.raises(DocumentError, match="encoding: found 'contrib', expected 'jpeg' or 'png'"):
        parse_document(camera, ImageSource, "camera")
    add(
        IMAGE_ENCODINGS,
        "Deflated",
        """
        import zlib

        import numpy as np

        from remote_inference.base.documents.document import Document
        from remote_inference.base.wire.images.images import ImageError

        class Options(Document):
            level: int = 1

        class Deflated:
            colours = ("rgb",)
            formats = ("contrib",)
            options = Options

            @staticmethod
            def encode(image, options):
                header = bytes([options.level, *image.shape[:2]])
                return header + zlib.compress(image.tobytes(), options.level)

            @staticmethod
            def decode(data):
                height, width = Deflated.size(data)
                pixels = np.frombuffer(zlib.decompress(bytes(data)[3:]), np.uint8)
                return pixels.reshape(height, width, 3)

            @staticmethod
            def size(data):
                if len(data) < 3:
                    raise ImageError("too short")
                return data[1], data[2]
        """,
    )
    source = parse_document(camera, ImageSource, "camera")
    feature = ImageFeature("images.front", source.travels_as, 4, 5)
    picture = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    sent = CameraReader(source, feature).read(image_to_message(picture))
    assert (sent.format, sent.data[0]) == ("contrib", 3)
    request = offer_to_request(replace(make_offer(), images=[feature]))
    (offered,) = offer_from_request(request).images
    assert offered.encoding == "contrib"
    (decoded,) = decode_images([EncodedImage("front", offered.encoding, sent)])
    assert np.array_equal(decoded, picture)
    assert announced_pixels("contrib", sent) == 20
    seen = describe_image(sent, "front")
    assert (seen.encoding, seen.width, seen.height) == ("contrib", 5, 4)
    assert make_thumbnail(sent) is not None
    passed_on = source.model_copy(update={"type": COMPRESSED_IMAGE})
    assert CameraReader(passed_on, feature).read(sent).data == sent.data


def test_an_environment_is_added(add: Add):
    with pytest.raises(ValueError, match="found 'contrib', expected 'belt_arm', 'recording'"):
        ENVIRONMENTS.get("contrib")
    add(
        ENVIRONMENTS,
        "EmptyRoom",
        """
        class EmptyRoom:
            spec = "empty"
        """,
    )
    assert make_environment("contrib", {}).spec == "empty"


@pytest.mark.parametrize(
    ("name", "libraries"),
    [
        ("learn.environments", {"mujoco"}),
        ("server.policies", {"torch"}),
        ("base.contract.contract", {"rclpy", "std_msgs"}),
        ("server.manifest.manifest", {"torch"}),
    ],
)
def test_the_names_are_known_without_the_libraries_behind_them(name: str, libraries: set[str]):
    code = f"import sys, remote_inference.{name}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert not libraries & set(loaded.stdout.split())


def test_a_compression_of_weights_is_added(add: Add):
    with pytest.raises(WeightsError, match="compression: found 'contrib', expected 'none'"):
        SenderConfig(compression="contrib").check()
    add(
        COMPRESSIONS,
        "Zlib",
        """
        import zlib

        class Zlib:
            def compress(self, data):
                return zlib.compress(data)

            def decompress(self, data, size):
                return zlib.decompress(data, bufsize=size)
        """,
    )
    served, model = {"head": np.zeros(500, np.float32)}, {"head": np.ones(500, np.float32)}
    syncer, server = WeightSyncer(SenderConfig(compression="contrib")), WeightSyncer()
    server.init_receiver(served)
    here, there = in_process()
    server.pump.add(there)
    syncer.init_sender(lambda: model, {"server": lambda: here})
    wait_until(lambda: server.apply() == 1, "the weights are there")
    syncer.close()
    server.close()
    assert (served["head"] == 1.0).all()
