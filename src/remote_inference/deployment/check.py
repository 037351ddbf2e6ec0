# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference check`: what a contract or a manifest says, and whether a robot and a server fit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from remote_inference.core.admission import ServerTerms, judge, make_offer
from remote_inference.core.contract import Contract, load_contract
from remote_inference.core.document import DocumentError, read_yaml
from remote_inference.core.policy import DeviceError, PolicySpec
from remote_inference.core.server.manifest import Manifest, ModelSource, load_manifest
from remote_inference.policies import load_policy


def check(paths: Sequence[Path]) -> tuple[list[str], bool]:
    """Return what there is to say of the files, line by line, and whether all is well.

    With contracts and manifests, each robot is judged by each server's admission rules. A device that this
    machine lacks is a warning. Raises DocumentError for an invalid file and PolicyError for a manifest whose
    policy cannot be loaded.
    """
    lines: list[str] = []
    contracts: dict[Path, Contract] = {}
    servers: dict[Path, tuple[Manifest, PolicySpec]] = {}
    for path in paths:
        content = read_yaml(path)
        keys = content.keys() if isinstance(content, dict) else ()
        if "actions" in keys:
            contracts[path] = load_contract(path)
            lines += _describe_contract(path, contracts[path])
        elif "model" in keys:
            manifest = load_manifest(path, os.environ)
            spec, warnings = _load_spec(manifest.model)
            servers[path] = (manifest, spec)
            lines += [*_describe_manifest(path, manifest, spec), *warnings]
        else:
            raise DocumentError(f"{path}: found neither actions nor model, expected a contract or a manifest")
    fits = True
    for contract_path, contract in contracts.items():
        for manifest_path, (manifest, spec) in servers.items():
            lines.append(f"{contract_path.name} on {manifest_path.name}:")
            verdict = judge(make_offer(contract), spec, _terms(manifest))
            fits &= verdict.accepted
            lines.append(
                f"  refused ({verdict.rejection}): {verdict.reason}" if verdict.rejection else "  fits"
            )
            lines += [f"  warning: {warning}" for warning in verdict.warnings]
    return lines, fits


def _load_spec(model: ModelSource) -> tuple[PolicySpec, list[str]]:
    """Load a policy and return what it says of itself, and a warning when this machine lacks its device."""
    warnings = []
    try:
        policy = load_policy(model)
    except DeviceError as error:
        warnings.append(f"  warning: {' '.join(str(error).split())}; its files were checked on the cpu")
        policy = load_policy(model.model_copy(update={"device": "cpu"}))
    policy.close()
    return policy.spec, warnings


def _describe_contract(path: Path, contract: Contract) -> Iterator[str]:
    yield f"{path}: contract of {contract.robot_type}, {contract.fps:g} Hz"
    yield f"  state: {', '.join(contract.state_names)}"
    for (name, source), feature in zip(contract.images.items(), contract.image_features, strict=True):
        yield f"  camera {name}: {source.topic}, travels as {feature.encoding}, to the policy {feature.name}"
    for name in contract.actions.names:
        limit = contract.actions.limits[name]
        yield (
            f"  action {name}: {contract.actions.kind} {limit.min:g} to {limit.max:g}, "
            f"at most {limit.max_velocity:g} per second"
        )
    for sink in contract.commands:
        yield f"  commands to {sink.topic} ({sink.type}): {', '.join(sink.names)}"
    if contract.home:
        yield f"  goes home in {contract.home.duration_s:g} s when it gives up"


def _describe_manifest(path: Path, manifest: Manifest, spec: PolicySpec) -> Iterator[str]:
    model = manifest.model
    yield f"{path}: manifest of {spec.name} {spec.revision} ({spec.fingerprint})"
    yield f"  backend {model.backend} on {model.device}, {model.dtype}, from {model.path}"
    yield f"  state: {', '.join(spec.state_names)}"
    for name, (height, width, channels) in spec.image_shapes.items():
        yield f"  camera {name}: trained at {width}x{height}, {channels} channels"
    yield f"  actions: {', '.join(spec.action_names)}"
    seconds = spec.chunk_size / spec.trained_fps
    yield f"  chunks of {spec.chunk_size} rows at {spec.trained_fps:g} Hz, {seconds:.2f} s"
    yield f"  {'continues' if spec.supports_rtc else 'does not continue'} prefixes (RTC)"
    yield f"  {manifest.scheduler}, at most {manifest.max_sessions} sessions"
    task = f"task {manifest.default_task!r}"
    yield f"  {task}, no other" if manifest.pin_task else f"  {task} by default"


def _terms(manifest: Manifest) -> ServerTerms:
    return ServerTerms(
        default_task=manifest.default_task,
        pin_task=manifest.pin_task,
        strict_fps=manifest.strict_fps,
        max_sessions=manifest.max_sessions,
        active_sessions=0,
        load=0.0,
        accepting=True,
    )
