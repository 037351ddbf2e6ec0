# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a server refuses to configure: it says why in one line, keeps nothing, and configures once mended.

One server meets every manifest. How each back end words its refusals: test/policies.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState

from remote_inference.base.paths import share_path
from remote_inference.srv import GetStatus
from support.entry_point_files import install
from support.nodes.rig import Rig, write_manifest

SERVER = "/policy_server"


def write_hold(folder: Path) -> dict[str, Any]:
    names = {"state_names": ["elbow"], "action_names": ["elbow", "wrist"]}
    shape = {"name": "hold", "revision": "1", "chunk_size": 4, "trained_fps": 30.0}
    (folder / "policy.json").write_text(json.dumps({**names, **shape}))
    return {"backend": "hold", "path": str(folder)}


def write_chunk_network(folder: Path, **config: Any) -> dict[str, Any]:
    """Write a shipped policy with a changed configuration."""
    shipped = share_path("config", "models", "belt_arm")
    shutil.copy(shipped / "model.safetensors", folder)
    content = json.loads((shipped / "policy.json").read_text())
    (folder / "policy.json").write_text(json.dumps({**content, **config}))
    return {"backend": "chunk_network", "path": str(folder)}


def write_lerobot(folder: Path) -> dict[str, Any]:
    (folder / "config.json").write_text('{"type": "act"}')
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return {"backend": "lerobot", "path": str(folder)}


def write_onnx(folder: Path, **options: Any) -> dict[str, Any]:
    pytest.importorskip("onnxruntime", reason="found no onnxruntime, which requirements/server.txt lists")
    from support.policies.onnx_models import save_model

    save_model(folder, **options)
    return {"backend": "onnx", "path": str(folder)}


def rename_input(model: Any) -> None:
    model.graph.input[0].name = "joints"
    model.graph.node[0].input[0] = "joints"


def move_outside(model: Any) -> None:
    from support.policies.onnx_models import move_weights_out

    move_weights_out(model, "../weights.data")


# What is wrong, the manifest's `model` for a folder, and what the line must say after the manifest's name.
BAD: dict[str, tuple[Callable[[Path], dict[str, Any]], list[str]]] = {
    "a missing folder": (
        lambda folder: {"backend": "chunk_network", "path": str(folder / "nowhere")},
        ["model.path: found nothing at ", "/nowhere, expected a folder or a file on this machine"],
    ),
    "a name on a hub": (
        lambda _: {"backend": "lerobot", "path": "lerobot/act_aloha_sim_transfer_cube_human"},
        ["model.path: ", "found no folder, expected a LeRobot checkpoint", "nothing is fetched from a hub"],
    ),
    "weights that do not fit": (
        lambda folder: write_chunk_network(folder, hidden_units=7),
        ["/model.safetensors: head.", "expected shape (7, ", ", found ("],
    ),
    "missing processors": (
        write_lerobot,
        ["/policy_preprocessor.json: missing, expected the processor that LeRobot saves with a policy"],
    ),
    "names that do not match": (
        write_hold,
        ["/policy.json: action_names: found 'wrist', expected names of state_names or of zeros: elbow"],
    ),
    "a device that is not there": (
        lambda folder: {**write_chunk_network(folder), "device": "cuda:99"},
        ["model.device: found 'cuda:99', expected a device of this machine: "],
    ),
    "an entry point that fails to import": (
        lambda folder: {"backend": "broken", "path": str(folder)},
        ["model.backend: 'broken' of broken-policies 1.0 cannot be imported: RuntimeError: no licence"],
    ),
    "two back ends of one name": (
        lambda folder: {"backend": "twice", "path": str(folder)},
        ["model.backend: found 'twice', which is declared by ", "one-policies 1.0", "two-policies 1.0"],
    ),
    "an ONNX file with other inputs": (
        lambda folder: write_onnx(folder, edit=rename_input),
        ["/model.onnx: inputs: found joints, ", ", expected state, observation.images.front"],
    ),
    "external data outside its folder": (
        lambda folder: write_onnx(folder, edit=move_outside),
        ["/model.onnx: external data of 'weights': found the location '../weights.data', expected a path"],
    ),
    "settings that contradict each other": (
        lambda folder: {**write_onnx(folder), "dtype": "bfloat16"},
        ["model.dtype: found 'bfloat16', expected 'float32': an ONNX file has its own precision"],
    ),
    "devices after one that every machine has": (
        lambda folder: {**write_hold(folder), "device": ["cpu", "cuda:0"]},
        ["model.device: found 'cuda:0' after 'cpu', which every machine has; expected 'cpu' at the end"],
    ),
    "an option that nobody knows": (
        lambda folder: {**write_chunk_network(folder), "options": {"comple": True}},
        ["model.options: comple: unknown key, did you mean 'compile'"],
    ),
}


class Server:
    """A server's process, unconfigured between the manifests that it is given."""

    def __init__(self, folder: Path) -> None:
        self.rig = Rig(folder)
        self.manifest = write_manifest(folder)
        self.good = self.manifest.read_text()
        self._log = folder / "logs" / "policy_server.log"
        self.rig.start_server(self.manifest, autostart=False)
        assert self.state == "unconfigured"  # what the middleware logs at the start is in the log

    def change(self, transition: int) -> bool:
        request = Transition(id=transition)
        return bool(self.rig.call(ChangeState, f"{SERVER}/change_state", transition=request).success)

    def configure(self, manifest: str) -> tuple[bool, list[str]]:
        """Return whether a manifest is taken, and what the server logs meanwhile."""
        self.manifest.write_text(manifest)
        before = len(self._log.read_text().splitlines())
        done = self.change(Transition.TRANSITION_CONFIGURE)
        return done, self._log.read_text().splitlines()[before:]

    @property
    def state(self) -> str:
        return str(self.rig.call(GetState, f"{SERVER}/get_state").current_state.label)

    @property
    def policy(self) -> str:
        return str(self.rig.call(GetStatus, f"{SERVER}/get_status").status.policy_name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    site = tmp_path_factory.mktemp("site")
    install(site, "broken-policies", "broken = broken_policies:load")
    (site / "broken_policies.py").write_text("raise RuntimeError('no licence')")
    for name in ("one", "two"):
        install(site, f"{name}-policies", f"twice = {name}_policies:load")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{site}:{os.environ.get('PYTHONPATH', '')}".rstrip(":"))
        made = Server(tmp_path_factory.mktemp("server"))
        try:
            yield made
        finally:
            made.rig.close()


@pytest.mark.parametrize("what", BAD)
def test_a_bad_manifest_is_refused_in_one_line_and_leaves_nothing(
    server: Server, tmp_path: Path, what: str
) -> None:
    make, words = BAD[what]
    taken, said = server.configure(yaml.safe_dump({"model": make(tmp_path)}))
    assert (taken, server.state, server.policy) == (False, "unconfigured", "")
    (line,) = said
    assert f"cannot configure: {server.manifest}: " in line
    for word in words:
        assert word in line
    assert server.configure(server.good)[0], "the server takes a right manifest afterwards"
    assert server.policy == "hold"
    assert server.change(Transition.TRANSITION_CLEANUP)
