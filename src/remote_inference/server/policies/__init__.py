# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Policy back ends; each implements `base.policy.Policy`."""

from __future__ import annotations

import importlib
import sys
import threading
from dataclasses import dataclass
from functools import cache

from remote_inference.base.policy import DeviceError, Policy, PolicyError, PolicySpec
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.manifest.sections import BACK_ENDS, BackEnd
from remote_inference.server.policies.replicas import ReplicatedPolicy

# One file and one line each. A module and its libraries are imported when a manifest names the back end.
BACK_ENDS.add("chunk_network", f"{__name__}.networks.torch_chunk:load", needs=("torch", "safetensors"))
BACK_ENDS.add("gr00t", f"{__name__}.remote.gr00t:load", needs=("zmq",))
BACK_ENDS.add("hold", f"{__name__}.hold:load")
BACK_ENDS.add("lerobot", f"{__name__}.lerobot:load", needs=("lerobot", "torch"))
BACK_ENDS.add("onnx", f"{__name__}.onnx.policy:load", needs=("onnx", "onnxruntime"))
BACK_ENDS.add("openpi", f"{__name__}.remote.openpi:load", needs=("websockets",))

_RECOMPILE_LIMIT = 8  # torch's own: how often it compiles a function before it computes without

METHODS = ("make_processors", "predict", "reset", "close")
"""What every policy has besides its `spec`."""


@dataclass(frozen=True)
class PlacedPolicy:
    """A loaded policy, the device that it is on, and why the devices before it in the list are not used."""

    policy: Policy
    device: str
    passed_over: tuple[str, ...] = ()


def load_policy(model: ModelSource) -> Policy:
    """Load what a manifest names, on the first of its devices that this machine has.

    A back end's libraries are imported only when it is asked for. Raises PolicyError or DocumentError naming
    the file and the key; DeviceError, a PolicyError, when this machine cannot use the device.
    """
    return load_on_first_device(model).policy


def load_on_first_device(model: ModelSource) -> PlacedPolicy:
    """Load as `load_policy` does; say also on which device. Raises what `load_policy` raises."""
    back_end = import_back_end(model.backend)
    if _compiles_with_torch(model):
        _keep_cuda_guard()
    if model.replicas:
        return PlacedPolicy(_load_replicas(back_end, model), ", ".join(model.replicas))
    problems: list[str] = []
    for choice in model.choices:
        loaded = _try_to_load(back_end, choice)
        if not isinstance(loaded, str):
            return PlacedPolicy(loaded, choice.device, tuple(problems))
        problems.append(loaded)
    raise DeviceError("; ".join(problems))


def _load_replicas(back_end: BackEnd, model: ModelSource) -> ReplicatedPolicy:
    def load(device: str) -> Policy:
        if _compiles_with_torch(model):
            _let_torch_compile(len(model.replicas))
        loaded = _try_to_load(back_end, model.model_copy(update={"device": device, "replicas": ()}))
        if isinstance(loaded, str):
            raise DeviceError(loaded)
        return loaded

    return ReplicatedPolicy(load, model.replicas)


def _compiles_with_torch(model: ModelSource) -> bool:
    """Return whether a model of a back end that has been imported will compile."""
    return bool(model.options.get("compile")) and "torch" in sys.modules


@cache
def _keep_cuda_guard() -> None:
    """Have torch make its CUDA device guard on a thread that never ends, on a machine without a GPU.

    A torch that was built for CUDA makes the guard when it first compiles. It belongs to that thread, and is
    read after the thread's end: the next backward pass, as in real-time chunking, crashed the process.
    """
    make = getattr(importlib.import_module("torch._C"), "_ensureCUDADeviceGuardSet", None)
    if make is None:
        return
    made = threading.Event()

    def keep() -> None:
        make()
        made.set()
        threading.Event().wait()

    threading.Thread(target=keep, name="cuda-guard", daemon=True).start()
    made.wait(timeout=10.0)


def _let_torch_compile(replicas: int) -> None:
    """Raise torch's limit of compilations by the number of replicas.

    The limit counts per function, which all replicas share, and per thread: call it on each replica's.
    """
    config = importlib.import_module("torch._dynamo.config")
    name = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # once its name
    setattr(config, name, max(getattr(config, name), _RECOMPILE_LIMIT * replicas))


def _try_to_load(back_end: BackEnd, model: ModelSource) -> Policy | str:
    """Return the policy, or why this machine cannot use the device: the error would hold what was loaded."""
    try:
        policy = back_end(model)
    except DeviceError as error:
        return " ".join(str(error).split())
    except SystemExit as error:  # it would end the thread, and the server would wait for the policy
        raise PolicyError(f"model.backend: {BACK_ENDS.describe(model.backend)} {_exit_of(error)}") from error
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:  # within the back end
            raise
        place = f"model.backend: {BACK_ENDS.describe(model.backend)}: {error}"
        raise PolicyError(
            f"{place}; expected a callable that takes the manifest's section `model`"
        ) from error
    _check(policy, model)
    return policy


def _check(policy: Policy, model: ModelSource) -> None:
    """Raise PolicyError when a back end has made no policy, or another revision than the manifest's."""
    lacks = "" if isinstance(getattr(policy, "spec", None), PolicySpec) else "a PolicySpec as `spec`"
    missing = [name for name in METHODS if not callable(getattr(policy, name, None))]
    if lacks := lacks or ", ".join(f"`{name}()`" for name in missing):
        found = f"{type(policy).__name__} without {lacks}"
        raise PolicyError(f"model.backend: {BACK_ENDS.describe(model.backend)} returned {found}")
    if model.revision and policy.spec.revision != model.revision:
        found = policy.spec.revision
        policy.close()
        raise PolicyError(f"{model.path}: revision: found {found!r}, expected {model.revision!r}")


def import_back_end(name: str) -> BackEnd:
    """Return the back end of a name. Raises PolicyError when its module fails, or it is none."""
    try:
        back_end = BACK_ENDS.get(name)
    except (Exception, SystemExit) as error:  # a module may raise anything while it is imported
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        if isinstance(error, SystemExit):
            reason = f"it {_exit_of(error)}"
        place = f"model.backend: {BACK_ENDS.describe(name)}"
        raise PolicyError(f"{place} cannot be imported: {reason}") from error
    if not callable(back_end):
        found = type(back_end).__name__
        expected = "a callable that takes the manifest's section `model`"
        raise PolicyError(f"model.backend: {BACK_ENDS.describe(name)}: found {found}, expected {expected}")
    return back_end


def _exit_of(error: SystemExit) -> str:
    return f"called sys.exit({error.code!r})"
