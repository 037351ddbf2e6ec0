# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether a robot and a policy fit: the server's admission rules and the robot's check of the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from remote_inference.base.contract.actions import RELATIVE
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.image_source import IMAGE_ENCODINGS
from remote_inference.base.exchange import (
    ImageFeature,
    SessionKind,
    SessionOffer,
    SessionReply,
    find_schema_problem,
)
from remote_inference.base.limits import (
    DEFAULT_LIMITS,
    MAX_OBSERVATION_STEPS,
    RequestLimits,
    find_size_problem,
)
from remote_inference.base.policy import PolicySpec, ServingMode, find_task_problem

# Rejections that violate the robot's contract; after any other, the next server may accept.
CAMERAS_REJECTION = "cameras"
FATAL_REJECTIONS = frozenset({"actions", CAMERAS_REJECTION, "state", "kinds", "units", "history", "schema"})
NAME_REJECTION = "name"  # another process has the robot's session
CAPACITY_REJECTION = "capacity"  # other robots have all places
OCCUPIED_REJECTIONS = frozenset({NAME_REJECTION, CAPACITY_REJECTION})  # they may pass when a session ends
LOADING_REJECTION = "loading"  # the policy was released, and is being loaded for this robot
INTERNAL_REJECTION = "internal"  # not a rule: the server itself failed
# After these, the same server may accept the same offer later.
PASSING_REJECTIONS = frozenset(
    {"draining", "failing", LOADING_REJECTION, *OCCUPIED_REJECTIONS, INTERNAL_REJECTION}
)
ASPECT_RATIO_TOLERANCE = 0.05  # relative


@dataclass(frozen=True)
class ServerTerms:
    """What the manifest and the server's present state add to the policy's own requirements."""

    default_task: str
    pin_task: bool
    strict_fps: bool
    max_sessions: int
    active_sessions: int
    load: float  # worker's busy fraction, 0 to 1
    accepting: bool
    failing: str = ""  # why the policy cannot answer; empty when it can
    name_taken: bool = False  # another live process drives the robot of this name
    limits: RequestLimits = DEFAULT_LIMITS
    yielding_sessions: int = 0  # of the active ones, those that make room for a robot
    updates_weights: bool = False  # trainers may change the policy while it is served

    def capacity(self, spec: PolicySpec) -> int:
        return 1 if spec.serving_mode is ServingMode.EXCLUSIVE else self.max_sessions


@dataclass(frozen=True)
class Verdict:
    """The first failing rule with its reason, or warnings."""

    rejection: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        return not self.rejection


class FatalMismatch(Exception):  # noqa: N818  what the robot found out, not a bug
    """The server's answer violates the robot's contract; no retry can mend it."""


def make_offer(
    contract: Contract,
    *,
    client: str = "",
    client_instance_id: str = "",
    robot_namespace: str = "",
    wants_rtc: bool = True,
    tags: Mapping[str, str] | None = None,
    accepts_weight_updates: bool = True,
) -> SessionOffer:
    """Return the offer of a robot of this contract, as it is before the first session.

    Actions that are relative to one observation continue no chunk of another: such a robot wants no RTC, and
    shows the present tick alone, at which they begin.
    """
    is_relative = contract.actions.is_relative
    return SessionOffer(
        action_names=contract.policy_action_names,
        state_names=contract.policy_state_names,
        images=contract.image_features,
        fps=contract.row_fps,
        task=contract.task,
        wants_rtc=wants_rtc and not is_relative,
        robot_type=contract.robot_type,
        robot_namespace=robot_namespace,
        client=client,
        client_instance_id=client_instance_id,
        max_observation_steps=1 if is_relative else MAX_OBSERVATION_STEPS,
        tags=tags or {},
        state_units=contract.policy_state_units,
        action_units=contract.policy_action_units,
        action_kinds=contract.policy_action_kinds,
        accepts_weight_updates=accepts_weight_updates,
    )


def choose_images(images: Sequence[ImageFeature], needed: Collection[str]) -> tuple[ImageFeature, ...]:
    """Return the cameras that a robot offers to a policy: those that the policy needs.

    All of them when one that the policy needs is missing: the server's refusal then names them.
    """
    chosen = tuple(image for image in images if image.name in needed)
    return chosen if len(chosen) == len(set(needed)) else tuple(images)


Rule = Callable[[SessionOffer, PolicySpec, ServerTerms], str]


def judge(offer: SessionOffer, spec: PolicySpec, terms: ServerTerms) -> Verdict:
    """Return the verdict on a robot: the first failing rule, or acceptance with warnings."""
    for name, rule in RULES.items():
        if reason := rule(offer, spec, terms):
            return Verdict(name, reason)
    return Verdict(warnings=_warnings(offer, spec))


def check_reply(offer: SessionOffer, reply: SessionReply, fingerprint: str | None) -> None:
    """Check a server's answer on the robot. `fingerprint`: the first session's policy, None for any.

    Raises FatalMismatch when the answer, or the reason of a refusal, violates the contract.
    """
    if not reply.accepted:
        if reply.rejection in FATAL_REJECTIONS:
            raise FatalMismatch(f"refuses ({reply.rejection}): {reply.message}")
        return
    if problem := _compare_names("action", offer.action_names, reply.action_names):
        raise FatalMismatch(problem)
    if problem := find_schema_problem(reply.schema_version):
        raise FatalMismatch(problem)
    if reply.chunk_size < 1:
        raise FatalMismatch(f"chunk_size: found {reply.chunk_size}, expected at least 1 action")
    if not 1 <= reply.observation_steps <= offer.max_observation_steps:
        expected = f"expected 1 to {offer.max_observation_steps}"
        raise FatalMismatch(f"observation_steps: found {reply.observation_steps}, {expected}")
    if fingerprint is not None and reply.policy_fingerprint != fingerprint:
        raise FatalMismatch(
            f"policy fingerprint is {reply.policy_fingerprint}, expected {fingerprint} of the first session; "
            "to accept it once, start this robot's node again; to accept any, set accept_new_policy"
        )


def _check_cameras(offer: SessionOffer, spec: PolicySpec, _: ServerTerms) -> str:
    sent = {image.name for image in offer.images}
    if missing := [name for name in spec.image_shapes if name not in sent]:
        return f"policy needs {', '.join(missing)}, robot sends {', '.join(sorted(sent)) or 'no images'}"
    for image in offer.images:
        channels = spec.image_shapes.get(image.name, (0, 0, 0))[2]
        known = image.encoding in IMAGE_ENCODINGS.names  # a raw image may be either
        if channels == 3 and known and IMAGE_ENCODINGS.get(image.encoding).colours == ("depth",):
            return f"{image.name} is depth on the robot, colour in the policy"
        height, width = spec.image_shapes.get(image.name, (0, 0, 0))[:2]
        if height and (problem := find_size_problem(image.height * image.width, height, width)):
            return f"{image.name}: {problem}"
    return ""


def _check_kinds(offer: SessionOffer, spec: PolicySpec, _: ServerTerms) -> str:
    """Compare what the actions command, where both sides say it."""
    for name, found in zip(offer.action_names, offer.action_kinds, strict=False):
        expected = spec.kinds.get(name, ())
        if found and expected and found not in expected:
            added_twice = found.startswith(RELATIVE) and not any(
                kind.startswith(RELATIVE) for kind in expected
            )
            reason = f"action {name!r} is {found} on the robot, {' or '.join(expected)} in the policy"
            return f"{reason}: its answers have the robot's state in them already" if added_twice else reason
    return ""


def _check_units(offer: SessionOffer, spec: PolicySpec, _: ServerTerms) -> str:
    """Compare the units, where both sides say them."""
    sides = (
        ("state", offer.state_names, offer.state_units),
        ("action", offer.action_names, offer.action_units),
    )
    for what, names, units in sides:
        for name, found in zip(names, units, strict=False):
            expected = spec.units.get(name, "")
            if found and expected and found != expected:
                return f"{what} {name!r} is in {found} on the robot, in {expected} in the policy"
    return ""


def _check_history(offer: SessionOffer, spec: PolicySpec, _: ServerTerms) -> str:
    if offer.max_observation_steps >= spec.observation_steps:
        return ""
    most = offer.max_observation_steps
    return f"policy needs observations of {spec.observation_steps} control ticks, robot sends {most} at most"


def _check_limits(offer: SessionOffer, spec: PolicySpec, terms: ServerTerms) -> str:
    if len(offer.images) > (most := terms.limits.cameras):
        return f"robot offers {len(offer.images)} cameras, server takes {most} at most (max_cameras)"
    steps = spec.observation_steps
    pixels = steps * sum(image.height * image.width for image in offer.images)  # of unknown sizes: 0
    if pixels <= (most := terms.limits.pixels):
        return ""
    return (
        f"robot's images have {pixels} pixels in {steps} control ticks, server takes {most} at most "
        "(max_request_pixels)"
    )


def _check_name(offer: SessionOffer, _spec: PolicySpec, terms: ServerTerms) -> str:
    if not terms.name_taken:
        return ""
    return f"the session of {offer.robot_namespace} belongs to another process, which is alive"


def _check_weights(offer: SessionOffer, _spec: PolicySpec, terms: ServerTerms) -> str:
    if offer.accepts_weight_updates or not terms.updates_weights:
        return ""
    return (
        "robot wants a policy that stays as it was loaded, trainers may change the server's (weights.accept)"
    )


def _check_task(offer: SessionOffer, spec: PolicySpec, terms: ServerTerms) -> str:
    if not terms.pin_task or offer.task in {"", terms.default_task}:  # empty: the server's task
        return "" if offer.tasks_in_requests else find_task_problem(spec, offer.task or terms.default_task)
    return f"task is {offer.task!r} on the robot, pinned to {terms.default_task!r} on the server"


def _check_capacity(offer: SessionOffer, spec: PolicySpec, terms: ServerTerms) -> str:
    capacity = terms.capacity(spec)
    blocking = terms.active_sessions
    if offer.kind is SessionKind.ROBOT:
        blocking -= terms.yielding_sessions
    if blocking < capacity:
        return ""
    return f"{terms.active_sessions} of {capacity} sessions are open, load {terms.load:.0%}"


# In the order in which they are applied.
RULES: dict[str, Rule] = {
    "draining": lambda _offer, _spec, terms: "" if terms.accepting else "server is not active",
    "failing": lambda _offer, _spec, terms: terms.failing,
    "actions": lambda offer, spec, _: _compare_names("action", offer.action_names, spec.action_names),
    CAMERAS_REJECTION: _check_cameras,
    "state": lambda offer, spec, _: _compare_names("state", offer.state_names, spec.state_names),
    "kinds": _check_kinds,
    "units": _check_units,
    "history": _check_history,
    "schema": lambda offer, _spec, _terms: find_schema_problem(offer.schema_version),
    "limits": _check_limits,
    NAME_REJECTION: _check_name,
    "weights": _check_weights,
    "task": _check_task,
    CAPACITY_REJECTION: _check_capacity,
    "fps": lambda offer, spec, terms: _check_fps(offer, spec, strict=terms.strict_fps),
}


def _warnings(offer: SessionOffer, spec: PolicySpec) -> tuple[str, ...]:
    warnings = []
    if problem := _fps_problem(offer, spec):
        warnings.append(problem)
    for image in offer.images:
        shape = spec.image_shapes.get(image.name)
        if shape is None:
            warnings.append(f"policy does not use {image.name}")
        elif image.height and image.width and _aspects_differ(image.height, image.width, shape):
            sizes = f"{image.width}x{image.height} on the robot differs from {shape[1]}x{shape[0]}"
            warnings.append(f"{image.name}: aspect ratio of {sizes} in training")
    seen = dict(zip(offer.state_names, offer.state_units, strict=False))
    for name, unit in zip(offer.action_names, offer.action_units, strict=False):
        if unit and seen.get(name) and seen[name] != unit:
            differ = f"the robot sends its state in {seen[name]} and takes actions in {unit}"
            warnings.append(f"{name!r}: {differ}")
    if offer.wants_rtc and not spec.supports_rtc:
        warnings.append("policy does not continue prefixes (no RTC)")
    if spec.supports_rtc and any(kind.startswith(RELATIVE) for kind in offer.action_kinds):
        warnings.append("the robot's actions are relative: no chunk continues another (no RTC)")
    return (*warnings, *_find_unsaid_units(offer, spec))


def _find_unsaid_units(offer: SessionOffer, spec: PolicySpec) -> Iterator[str]:
    """Yield what is taken for granted where one side says a unit and the other none."""
    said = list(zip(offer.state_names, offer.state_units, strict=False))
    said += zip(offer.action_names, offer.action_units, strict=False)
    by_robot = {name for name, unit in said if unit}
    unknown = set(spec.without_unit)
    for side, pairs in (
        ("policy", [(name, unit) for name, unit in said if unit and name in unknown]),
        ("robot", [(name, spec.units.get(name, "")) for name, _ in said if name not in by_robot]),
    ):
        taken: dict[str, dict[str, None]] = {}
        for name, unit in pairs:
            taken.setdefault(unit, {})[name] = None
        parts = [
            f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} taken as {unit}"
            for unit, names in taken.items()
            if unit
        ]
        if parts:
            yield f"the {side} does not say units; {'; '.join(parts)}"


def _check_fps(offer: SessionOffer, spec: PolicySpec, *, strict: bool) -> str:
    if not 0.0 < offer.fps < math.inf:
        return f"fps: found {offer.fps:g}, expected a rate above 0 Hz"
    return _fps_problem(offer, spec) if strict else ""


def _fps_problem(offer: SessionOffer, spec: PolicySpec) -> str:
    if abs(offer.fps - spec.trained_fps) <= 1e-3 * spec.trained_fps:
        return ""
    return f"the policy's rate is {offer.fps:g} Hz on the robot, {spec.trained_fps:g} Hz in training"


def _aspects_differ(height: int, width: int, shape: tuple[int, int, int]) -> bool:
    trained = shape[1] / shape[0]
    return abs(width / height - trained) > ASPECT_RATIO_TOLERANCE * trained


def _compare_names(what: str, robot: Sequence[str], policy: Sequence[str]) -> str:
    """Return the first difference between the names that robot and policy have, or an empty string."""
    for index, (name, other) in enumerate(zip(robot, policy, strict=False)):
        if name != other:
            return f"{what} {index} is {name!r} on the robot, {other!r} in the policy"
    if len(robot) != len(policy):
        return f"{what} has {len(robot)} entries on the robot, {len(policy)} in the policy"
    return ""
