# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Run policies on a GPU server and drive robots with them over a network.

What other packages may import from here stands in `FACE`; everything else may move.
"""

__version__ = "0.2.0"

# The names by the module that defines them, which is imported when one of them is asked for.
FACE = {
    "base.policy": (
        "Continuation",
        "DeviceError",
        "DeviceLostError",
        "Float32Array",
        "PastStep",
        "Policy",
        "PolicyError",
        "PolicyObservation",
        "PolicySpec",
        "Processors",
        "ServingMode",
        "UpdatablePolicy",
    ),
    "base.exchange": ("Chunk", "ChunkStatus"),
    "base.errors": ("UserError",),
    "base.documents.document": ("Document", "DocumentError", "load_document"),
    "base.fingerprint": ("make_fingerprint",),
    "base.contract.commands.sink": ("CommandInterface",),
    "base.wire.commands.writer": ("CommandReader", "CommandWriter"),
    "server.manifest.manifest": ("ModelSource",),
    "server.schedulers": ("Scheduler",),
    "learn.environment": (
        "ActionSpec",
        "EnvError",
        "EnvLostError",
        "Environment",
        "EnvironmentObservation",
        "EnvironmentSpec",
        "Feature",
        "FeatureKind",
        "Metrics",
        "Moment",
        "RealTimeEnvironment",
        "Step",
    ),
    "learn.rollouts": (
        "BlockingRolloutPool",
        "Curriculum",
        "Group",
        "GroupPolicy",
        "LocalPolicy",
        "LocalTransport",
        "RayTransport",
        "RolloutError",
        "RolloutPool",
        "Sampling",
        "Trajectory",
    ),
    "learn.rollouts.saving": ("save_lerobot", "save_parquet"),
    "learn.weights": ("SenderConfig", "WeightSender", "WeightSyncer", "WeightsError"),
    "learn.weights.shared_memory": ("SharedMemoryListener",),
}
_MODULES = {name: module for module, names in FACE.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  a program that starts waits for none of it

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
