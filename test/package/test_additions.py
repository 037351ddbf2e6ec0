# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An addition is one module and one line: each test writes a module elsewhere and adds it by that line.

`contrib` stands for the module that somebody adds; nothing else of the package is touched.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from builders import JOINTS, ShiftProcessors, contract_document, make_offer, make_spec
from builtin_interfaces.msg import Time

from remote_inference.core.command_interfaces import COMMAND_INTERFACES
from remote_inference.core.contract import Contract
from remote_inference.core.document import DocumentError, parse_document
from remote_inference.core.registry import Registry
from remote_inference.core.server.backends import BACK_ENDS
from remote_inference.core.server.batching import largest_batch, make_scheduler
from remote_inference.core.server.manifest import load_manifest
from remote_inference.core.server.schedulers import SCHEDULERS
from remote_inference.core.server.session import Session
from remote_inference.policies import load_policy
from remote_inference.wire import make_command_writer

REGISTRIES: tuple[Registry[Any], ...] = (BACK_ENDS, COMMAND_INTERFACES, SCHEDULERS)

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
    path = write_manifest(tmp_path, model={"backend": "contrib", "path": "weights", "device": "npu:1"})
    with pytest.raises(
        DocumentError, match=r"model\.backend: found 'contrib', expected one of 'chunk_network'"
    ):
        load_manifest(path)
    add(
        BACK_ENDS,
        "StillPolicy",
        """
        from builders import SteadyPolicy

        class StillPolicy(SteadyPolicy):
            def __init__(self, path, device, dtype):
                super().__init__(name=f"still {device} {dtype}")
                self.path = path
        """,
    )
    policy: Any = load_policy(load_manifest(path).model)
    assert (policy.spec.name, policy.path) == ("still npu:1 float32", str(tmp_path / "weights"))


def test_a_command_interface_is_added(add: Add):
    document = contract_document("effort")
    document["commands"][0]["type"] = "contrib"
    with pytest.raises(DocumentError, match=r"commands\.0\.type: found 'contrib', expected one of 'std_msgs"):
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
    with pytest.raises(DocumentError, match="scheduler: found 'contrib', expected one of 'round_robin'"):
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

            def select(self, ready, open_sessions, now_ns):
                return Selection(ready[: -1 - self.max_batch : -1])
        """,
    )
    manifest = load_manifest(path)
    sessions = [Session(f"s{index}", make_offer(), ShiftProcessors()) for index in range(5)]
    selection = make_scheduler(manifest, policy_max_batch=2).select(sessions, 5, 0)
    assert [session.session_id for session in selection.batch] == ["s4", "s3"]
    assert largest_batch(manifest, make_spec(max_batch=2)) == 2
