# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference check`: what a contract or a manifest says, and whether a robot and a server fit."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from remote_inference.base.admission import judge, make_offer
from remote_inference.base.contract.contract import Contract, find_name_clash, load_contract
from remote_inference.base.documents.document import DocumentError, read_yaml
from remote_inference.base.policy import DeviceError, Float32Array, PolicySpec
from remote_inference.base.ros_parameters import find_sections
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.requests.timing import Timing, find_timing_problem, find_timing_warnings
from remote_inference.server.admission import terms_of
from remote_inference.server.manifest.manifest import Manifest, ModelSource, load_manifest
from remote_inference.server.policies import load_policy
from remote_inference.server.policy_error import explain_policy_error
from remote_inference.server.requests.request_decoder import RequestDecoder, sample_requests
from remote_inference.server.warmup import (
    Rehearsal,
    Speed,
    find_policy_notes,
    find_speed,
    find_unkept_promises,
    make_ready,
)
from remote_inference.tools.deployment.serving.check_contract import (
    describe_inputs,
    describe_mapping,
    describe_sources,
    find_controller_warnings,
    find_limit_warnings,
    find_message_warnings,
    find_parameter_problem,
    find_rate_warning,
    read_parameters,
)
from remote_inference.tools.deployment.serving.check_units import (
    find_odd_answers,
    find_outside_data,
    find_steep_rows,
    find_unit_doubts,
    find_unit_problem,
)
from remote_inference.tools.tables import Table

# -- Tries a manifest's policy as its server would, without ROS ------------------------------------------


@dataclass(frozen=True)
class Trial:
    """The outcome of trying a policy, with its chunk for a sample request."""

    spec: PolicySpec  # with the serving mode that was found
    speed: Speed
    warnings: tuple[str, ...]  # of the preparation, and promises that the policy cannot keep
    chunk: Float32Array  # [chunk_size, action_dim] in robot space

    def lines(self) -> Iterator[str]:
        """Yield a description in lines of at most 80 columns."""
        speed, mode = self.speed, self.spec.serving_mode.value
        yield f"  answers in {speed.request_s * 1e3:.1f} ms with images as in training, {mode}"
        yield f"  fast enough for {speed.robots} robots at {speed.request_rate_hz:.2g} requests/s each"
        yield f"  a chunk for a state of zeros, {len(self.chunk)} rows:"
        numbers = ("first", "last", "min", "max")
        columns = ((column[0], column[-1], column.min(), column.max()) for column in self.chunk.T)
        rows = [
            (name, *(f"{number:.4g}" for number in column))
            for name, column in zip(self.spec.action_names, columns, strict=True)
        ]
        table = Table("", ("action", *numbers), rows, numbers).to_text()
        yield from textwrap.indent(table, "    ").splitlines()

    def to_json(self) -> dict[str, Any]:
        return {
            "request_ms": self.speed.request_s * 1e3,
            "request_rate_hz": self.speed.request_rate_hz,
            "robots": self.speed.robots,
            "serving_mode": self.spec.serving_mode.value,
            "action_names": list(self.spec.action_names),
            "chunk": np.asarray(self.chunk, float).tolist(),
        }


def try_policy(manifest: Manifest) -> Trial:
    """Load a policy, prepare it as its server does, and serve one more request. Raises what these raise."""
    with closing(load_policy(manifest.model)) as policy:
        decoder = RequestDecoder(manifest, policy.spec)
        samples = sample_requests(policy.spec, manifest)
        rehearsal, *others = [Rehearsal(policy, decoder, *sample) for sample in samples]
        readiness = make_ready(policy, rehearsal, manifest, time.monotonic_ns, others)
        speed = find_speed(policy.spec, readiness.request_s)
        (chunk,) = rehearsal.run()
        warnings = (*readiness.warnings, *find_unkept_promises(manifest, policy.spec, speed.robots))
        return Trial(policy.spec, speed, warnings, chunk)


TIMING_REJECTION = "timing"  # by the robot itself, when the session opens
UNITS_REJECTION = "units"  # by the policy's training data
PARAMETER_REJECTION = "parameters"  # by the robot's node, when it starts
INJECTED = ("inject_latency_ms", "inject_jitter_ms", "inject_loss")  # of a manifest
WIDTH = 80  # columns of a description; words that are longer are not cut


@dataclass
class FileReport:
    """The findings on one file: a problem, a contract, a robot's parameters, or a manifest and its policy."""

    path: Path
    kind: str = ""  # "contract", "parameters" or "manifest"; empty: unknown
    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problem: str = ""
    contract: Contract | None = None
    parameters: tuple[RobotConfig, ...] = ()  # of each robot that a file of parameters names
    manifest: Manifest | None = None
    spec: PolicySpec | None = None
    trial: Trial | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "kind": self.kind,
            "problem": self.problem,
            "warnings": self.warnings,
            "trial": self.trial.to_json() if self.trial else None,
        }


@dataclass(frozen=True)
class Fit:
    """The verdict on a robot of a server's admission rules, then of the robot's own timing."""

    contract: str
    manifest: str
    accepted: bool
    rejection: str
    reason: str
    warnings: tuple[str, ...]
    merging: str  # how chunks join the robot's queue, and why

    def lines(self) -> Iterator[str]:
        yield f"{self.contract} on {self.manifest}:"
        yield f"  refused ({self.rejection}): {self.reason}" if self.rejection else "  fits"
        yield f"  {self.merging}"
        yield from (f"  warning: {warning}" for warning in self.warnings)


@dataclass(frozen=True)
class Report:
    """The findings on all files together."""

    files: tuple[FileReport, ...]
    fits: tuple[Fit, ...]
    unjudged: tuple[str, ...]  # pairs of a contract and a manifest, of which one has a problem

    @property
    def exit_code(self) -> int:
        """2 when a file has a problem, 1 when a robot is refused, else 0."""
        if any(file.problem for file in self.files):
            return 2
        return 0 if all(fit.accepted for fit in self.fits) else 1

    def to_json(self) -> dict[str, Any]:
        return {
            "exit_code": self.exit_code,
            "files": [file.to_json() for file in self.files],
            "fits": [asdict(fit) for fit in self.fits],
            "unjudged": list(self.unjudged),
        }


def check(paths: Sequence[Path], *, run: bool = False) -> Report:
    """Judge every file, and each robot by each server's admission rules.

    run: try each policy as its server would. Otherwise each policy is only loaded, and a device that this
    machine lacks is a warning.
    """
    files = tuple(_check_file(path, run=run) for path in paths)
    fits: list[Fit] = []
    unjudged = []
    parameters = [one for file in files for one in file.parameters]
    for robot in (file for file in files if file.kind == "contract"):
        if robot.contract is not None:  # its report says which parameters its node would refuse
            problems = dict.fromkeys(find_parameter_problem(robot.contract, one) for one in parameters)
            warnings = [f"{problem}: the robot's node does not start" for problem in problems if problem]
            robot.warnings += warnings
            robot.lines += _wrap(f"  warning: {warning}" for warning in warnings)
        for server in (file for file in files if file.kind == "manifest"):
            if robot.contract is None or server.manifest is None or server.spec is None:
                unjudged.append(f"{robot.path.name} on {server.path.name}")
            else:
                fits += [_judge(robot, server, of) for of in parameters] or [_judge(robot, server)]
    return Report(files, tuple(fits), tuple(unjudged))


def _check_file(path: Path, *, run: bool) -> FileReport:
    report = FileReport(path)
    try:
        content = read_yaml(path)
        keys = content.keys() if isinstance(content, dict) else ()
        if "actions" in keys:
            report.kind = "contract"
            report.contract = load_contract(path)
            report.warnings += find_message_warnings(path, report.contract)
            report.lines += _fold(_describe_contract(path, report.contract))
            report.lines += describe_mapping(report.contract)
            report.warnings += find_controller_warnings(report.contract)
            report.warnings += find_limit_warnings(report.contract)
            if problem := find_name_clash(report.contract, "/"):
                report.warnings.append(f"in a robot without a namespace its node does not start: {problem}")
            report.lines += _wrap(f"  warning: {warning}" for warning in report.warnings)
        elif sections := dict(find_sections(content)):
            report.kind = "parameters"
            report.parameters = read_parameters(path, content, sections)
            whose = "a robot" if report.parameters else f"{', '.join(sections)}, not of a robot: not judged"
            report.lines.append(f"{path}: parameters of {whose}")
        elif "model" in keys:
            report.kind = "manifest"
            _check_manifest(report, load_manifest(path, os.environ), run=run)
        else:
            raise DocumentError(
                f"{path}: found neither actions, model nor ros__parameters, "
                "expected a contract, a manifest or a robot's parameters"
            )
    except DocumentError as error:
        report.problem = str(error)
    return report


def _check_manifest(report: FileReport, manifest: Manifest, *, run: bool) -> None:
    report.manifest = manifest
    try:
        if run:
            report.trial = try_policy(manifest)
            report.spec = report.trial.spec
            report.warnings += report.trial.warnings
        else:
            report.spec, warnings = _load_spec(manifest.model)
            report.warnings += warnings
        report.warnings += find_policy_notes(report.spec)
        if manifest.openpi is not None:
            manifest.openpi.keys_for(report.spec)
        if manifest.lerobot_async is not None:
            manifest.lerobot_async.require_servable(report.spec)
    except (Exception, SystemExit) as error:  # an author's code may raise anything
        report.problem = f"{report.path}: {explain_policy_error(error)}"
        return
    report.lines += _fold(_describe_manifest(report.path, manifest, report.spec))
    report.lines += report.trial.lines() if report.trial else ()
    report.lines += _wrap(f"  warning: {warning}" for warning in report.warnings)


def _judge(robot: FileReport, server: FileReport, given: RobotConfig | None = None) -> Fit:
    """given: the robot's parameters; None: it has the default ones, or others that are not known here."""
    contract, manifest, spec = robot.contract, server.manifest, server.spec
    parameters = given or RobotConfig()
    assert contract is not None, "both files were read"
    assert manifest is not None, "both files were read"
    assert spec is not None, "the policy was loaded"
    offer = make_offer(
        contract, wants_rtc=not parameters.appends, accepts_weight_updates=parameters.accept_weight_updates
    )
    verdict = judge(offer, spec, terms_of(manifest))
    latency_s = server.trial.speed.request_s if server.trial else None
    rtc = offer.wants_rtc and spec.supports_rtc
    timing = Timing(parameters, contract.row_fps, spec.chunk_size, latency_s, rtc)
    rejection, reason = verdict.rejection, verdict.reason
    if verdict.accepted and (reason := find_unit_problem(contract, spec)):
        rejection = UNITS_REJECTION
    elif verdict.accepted and (reason := find_timing_problem(timing)):
        rejection = TIMING_REJECTION
    warnings = [*verdict.warnings, *find_unit_doubts(contract, spec), *find_timing_warnings(timing)]
    if server.trial and verdict.accepted:
        warnings += find_odd_answers(contract, spec, server.trial.chunk)
        rows = contract.action_units.to_robot(server.trial.chunk)
        warnings += [f"in the chunk for a state of zeros: {one}" for one in find_steep_rows(contract, rows)]
    warnings += () if rejection else find_outside_data(contract, spec)
    if late := find_rate_warning(contract, parameters, spec.chunk_size):
        warnings.append(late)
    if problem := find_parameter_problem(contract, parameters):
        if given is None:
            warnings.append(f"with the default parameters the robot's node does not start: {problem}")
        elif verdict.accepted:
            rejection, reason = PARAMETER_REJECTION, problem
    contract_name, manifest_name, said = robot.path.name, server.path.name, tuple(warnings)
    return Fit(contract_name, manifest_name, not rejection, rejection, reason, said, parameters.merging)


def _load_spec(model: ModelSource) -> tuple[PolicySpec, list[str]]:
    """Load a policy; return its specification, and a warning when this machine lacks its device."""
    warnings = []
    try:
        policy = load_policy(model)
    except DeviceError as error:
        warnings.append(f"{' '.join(str(error).split())}; its files were checked on the cpu")
        policy = load_policy(model.choices[0].model_copy(update={"device": "cpu", "replicas": ()}))
    policy.close()
    return policy.spec, warnings


def _fold(lines: Iterator[str]) -> Iterator[str]:
    """Keep the first line, which names the file, and wrap the others."""
    yield next(lines)
    yield from _wrap(lines)


def _wrap(lines: Iterable[str]) -> Iterator[str]:
    """Fold lines at spaces."""
    for line in lines:
        yield from textwrap.wrap(
            line, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )


def _describe_contract(path: Path, contract: Contract) -> Iterator[str]:
    rates = f"{contract.fps:g} Hz"
    if contract.policy_fps is not None:
        between = "linear between rows" if contract.interpolation == "linear" else "each row repeated"
        per_row = f"{contract.ticks_per_row} commands for each row, {between}"
        rates = f"control at {rates}, policy at {contract.row_fps:g} Hz: {per_row}"
    yield f"{path}: contract of {contract.robot_type}, {rates}"
    yield f"  state: {', '.join(contract.state_names)}"
    yield from describe_sources(contract)
    for (name, source), feature in zip(contract.images.items(), contract.image_features, strict=True):
        yield f"  camera {name}: {source.topic}, travels as {feature.encoding}, to the policy {feature.name}"
    for sink in contract.commands:
        how = "commands to" if sink.action is None else "goals to"
        yield f"  {how} {sink.destination} ({sink.type}): {', '.join(sink.names)}"
    yield from describe_inputs(contract)
    if contract.actions.is_relative:
        joints = contract.actions.relative
        parts = [f"{', '.join(joints.names)} to {joints.to}"] if joints else []
        parts += [
            f"the pose {title} to {pose.relative.to} in the frame of the {pose.relative.frame}"
            for title, pose in contract.actions.poses.items()
            if pose.relative is not None
        ]
        yield f"  relative: {', '.join(parts)}: no chunk continues another (no RTC)"
    if contract.home:
        yield f"  goes home in {contract.home.duration_s:g} s when it gives up"


def _describe_manifest(path: Path, manifest: Manifest, spec: PolicySpec) -> Iterator[str]:
    model = manifest.model
    yield f"{path}: manifest of {spec.name} {spec.revision} ({spec.fingerprint})"
    devices = " or ".join(choice.device for choice in model.choices)
    yield f"  backend {model.backend} on {devices}, {model.dtype or spec.dtype}, from {model.path}"
    yield f"  state: {', '.join(spec.state_names)}"
    for name, (height, width, channels) in spec.image_shapes.items():
        yield f"  camera {name}: trained at {width}x{height}, {channels} channels"
    yield f"  actions: {', '.join(spec.action_names)}"
    for name, unit in spec.units.items():
        yield f"  {name}: in {unit}"
    if spec.observation_steps > 1:
        yield f"  each observation shows {spec.observation_steps} control ticks"
    seconds = spec.chunk_size / spec.trained_fps
    yield f"  chunks of {spec.chunk_size} rows at {spec.trained_fps:g} Hz, {seconds:.2f} s"
    yield f"  {'continues' if spec.supports_rtc else 'does not continue'} prefixes (RTC)"
    yield f"  {manifest.scheduler}, at most {manifest.max_sessions} sessions"
    task = f"task {manifest.default_task!r}"
    yield f"  {task}, no other" if manifest.pin_task else f"  {task} by default"
    if spoiled := [key for key in INJECTED if getattr(manifest, key)]:
        yield f"  warning: {', '.join(spoiled)}: chunks are delayed or lost on purpose, as in a demo"
