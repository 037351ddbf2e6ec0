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
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from builders import (
    JOINTS,
    PERIOD_NS,
    ShiftProcessors,
    contract_document,
    make_contract,
    make_offer,
    make_source,
    make_spec,
)
from builtin_interfaces.msg import Time
from waiting import wait_until

from remote_inference.core.command_interfaces import COMMAND_INTERFACES
from remote_inference.core.contract import Contract
from remote_inference.core.document import DocumentError, parse_document
from remote_inference.core.registry import Registry
from remote_inference.core.robot.action_queue import ActionQueue, MergeMode
from remote_inference.core.robot.config import RobotConfig
from remote_inference.core.robot.fallbacks import FALLBACKS
from remote_inference.core.robot.guard import Guard
from remote_inference.core.robot.playback import Playback
from remote_inference.core.robot.tick import CommandSource
from remote_inference.core.server.backends import BACK_ENDS
from remote_inference.core.server.batching import largest_batch, make_scheduler
from remote_inference.core.server.manifest import load_manifest
from remote_inference.core.server.schedulers import SCHEDULERS
from remote_inference.core.server.session import Session
from remote_inference.environments import ENVIRONMENTS
from remote_inference.environments.make import make_environment
from remote_inference.policies import load_policy
from remote_inference.weights import COMPRESSIONS, TRANSPORTS, SenderConfig, WeightsError, WeightSyncer
from remote_inference.weights.changes import STRATEGIES
from remote_inference.wire import make_command_writer

REGISTRIES: tuple[Registry[Any], ...] = (
    BACK_ENDS,
    COMMAND_INTERFACES,
    COMPRESSIONS,
    ENVIRONMENTS,
    FALLBACKS,
    SCHEDULERS,
    STRATEGIES,
    TRANSPORTS,
)

Add = Callable[[Registry[Any], str, str], None]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    """Add an entry `contrib` to a registry, taken away after the test; code: what its module holds."""
    monkeypatch.syspath_prepend(tmp_path)

    def add(registry: Registry[Any], attribute: str, code: str) -> None:
        module = f"contrib_{attribute.lower()}"
        (tmp_path / f"{module}.py").write_text(dedent(code))
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
        from builders import SteadyPolicy

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
    with pytest.raises(DocumentError, match=r"commands\.0\.type: found 'contrib', expected 'std_msgs"):
        parse_document(document, Contract, "arm.contract.yaml")
    add(
        COMMAND_INTERFACES,
        "INTERFACE",
        """
        from std_msgs.msg import Float32MultiArray

        from remote_inference.core.command_interfaces import CommandInterface
        from remote_inference.wire import CommandWriter

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
    assert writer.takes_horizon
    document["actions"]["kind"] = "position"
    with pytest.raises(DocumentError, match=r"takes a contrib, expected actions\.kind effort"):
        parse_document(document, Contract, "arm.contract.yaml")


def test_a_scheduler_is_added(add: Add, tmp_path: Path):
    path = write_manifest(tmp_path, scheduler="contrib", max_batch=3, max_sessions=9)
    with pytest.raises(DocumentError, match="scheduler: found 'contrib', expected 'round_robin'"):
        load_manifest(path)
    add(
        SCHEDULERS,
        "LastFirst",
        """
        from remote_inference.core.server.scheduler import Selection

        class LastFirst:
            batches = True

            def __init__(self, max_batch, window_ns):
                self.max_batch = max_batch

            def select(self, ready, joinable, now_ns, chosen=0):
                return Selection(ready[: -1 - self.max_batch + chosen : -1])
        """,
    )
    manifest = load_manifest(path)
    sessions = [Session(f"s{index}", make_offer(), ShiftProcessors()) for index in range(5)]
    selection = make_scheduler(manifest, policy_max_batch=2).select(sessions, 5, 0)
    assert [session.session_id for session in selection.batch] == ["s4", "s3"]
    assert largest_batch(manifest, make_spec(max_batch=2)) == 2


def test_a_fallback_is_added(add: Add):
    with pytest.raises(DocumentError, match="fallback: found 'contrib', expected 'hold'"):
        parse_document({"fallback": "contrib"}, RobotConfig, "parameters")
    add(
        FALLBACKS,
        "SlowDown",
        """
        from remote_inference.core.robot.tick import CommandSource

        class SlowDown:
            action_kinds = ("velocity",)
            source = CommandSource.REPEAT_LAST

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
    queue = ActionQueue()
    guard = Guard(contract.actions, contract.period_s)
    playback = Playback(
        queue,
        guard,
        contract,
        fallback=config.fallback,
        max_action_age_ns=20 * PERIOD_NS,
        max_sensor_age_ns=20 * PERIOD_NS,
        given_up_after_ns=20 * PERIOD_NS,
    )
    playback.control.change(paused=False)
    assert playback.tick(0).command is None, "before the first action another node may drive the robot"
    rows = np.full((1, len(JOINTS)), 0.1, np.float32)
    queue.merge(make_source(), rows, rows, MergeMode.APPEND, latency_steps=0, executed_before=0)
    ticks = [playback.tick(index * PERIOD_NS) for index in range(1, 4)]
    assert [tick.source for tick in ticks] == [CommandSource.CHUNK] + [CommandSource.REPEAT_LAST] * 2
    assert np.stack([tick.command for tick in ticks])[:, 0] == pytest.approx([0.1, 0.05, 0.025])
    playback.control.change(paused=True)
    assert playback.tick(4 * PERIOD_NS).command == pytest.approx(np.zeros(len(JOINTS)))


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
        ("environments", {"mujoco"}),
        ("policies", {"torch"}),
        ("core.contract", {"rclpy", "std_msgs"}),
        ("core.server.manifest", {"torch"}),
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
    here, there = TRANSPORTS.get("in_process")()
    server.pump.add(there)
    syncer.init_sender(lambda: model, {"server": lambda: here})
    wait_until(lambda: server.apply() == 1, "the weights are there")
    syncer.close()
    server.close()
    assert (served["head"] == 1.0).all()
