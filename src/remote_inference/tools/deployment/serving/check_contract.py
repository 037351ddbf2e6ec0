# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What `remote-inference check` says of a contract: mapping, messages, control rate, a robot's parameters.

Whether sources can be read and commands written is checked without the robot. A message type that is not
installed here may be installed there. A field that the type does not have is a mistake everywhere.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time

from remote_inference.base.contract.action_bounds import is_gripper
from remote_inference.base.contract.actions import Actions
from remote_inference.base.contract.commands.controller_facts import INTERPOLATE
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.operator_inputs import StopInput, TakeoverPart
from remote_inference.base.contract.policy_units import ConvertedQuaternion, scales_by_name
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.base.documents.problems import find_no_text, show_value
from remote_inference.base.ros_parameters import PARAMETERS_KEY, ExecutorName, is_rclpys_own
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.commands import make_command_writer
from remote_inference.base.wire.commands.fields import FieldCommandReader
from remote_inference.base.wire.message_types import command_class, find_remedy, message_class
from remote_inference.base.wire.sensors.content_time import is_stamped
from remote_inference.base.wire.sensors.state_readers import make_state_reader
from remote_inference.robot.command import Float64Array
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.motion.playback import Playback
from remote_inference.robot.motion.rules import MotionRules
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.robot.queue.plan import ChunkSource
from remote_inference.robot.safety.guard import Guard
from remote_inference.tools.tables import Table

# -- Tables: the policy's numbers as functions of the robot's, and the bounds of the actions --------------


INDENT = "  "
LEAST_OVERLAP = 0.2  # of a policy's range and an action's limits, as part of the larger one
MANY_TURNS = 4 * math.pi  # rad: limits beyond it may be meant in degrees


def describe_mapping(contract: Contract) -> Iterator[str]:
    """Yield the lines of both tables. Robot's numbers are in the contract's units, and so are limits."""
    for table in (_numbers(contract), _actions(contract)):
        yield ""
        yield from (f"{INDENT}{line}" for line in table.to_text().splitlines())
    for name, kind in zip(contract.actions.names, contract.actions.kinds, strict=True):
        if kind == "switch":
            limit = contract.actions.limits[name]
            levels = f"{limit.max:g} above {limit.closes_above:g}, {limit.min:g} below {limit.opens_below:g}"
            dwell = f", at most one change in {limit.dwell_s:g} s" if limit.dwell_s else ""
            yield f"{INDENT}switch {name}: {levels}{dwell}"
    for name, pose in contract.actions.poses.items():
        position, quaternion = ", ".join(pose.position), ", ".join(pose.quaternion)
        speeds = f"{pose.max_velocity:g} m/s and {pose.max_angular_velocity:g} rad/s along its way"
        yield f"{INDENT}pose {name}: position {position}; quaternion {quaternion}; {speeds}"
    for measurement in contract.measurements if contract.measured else ():
        source = measurement.source
        entries = source.joints if source.is_joints else source.entries
        pairs = zip(measurement.actions, entries, strict=True)
        found = ", ".join(f"{action} as {entry}" for action, entry in pairs if action)
        yield f"{INDENT}measured by {source.topic}: {found}"


def _numbers(contract: Contract) -> Table:
    """Return how the policy's numbers follow from the robot's: policy = robot x factor + offset."""
    state = contract.state_names, contract.policy_state_names, contract.state_units
    actions = contract.actions.names, contract.policy_action_names, contract.action_units
    uses: dict[tuple[str, ...], list[str]] = {}
    for use, (names, policy_names, units) in {"state": state, "action": actions}.items():
        own = zip(names, units.lines, units.units, strict=True)
        columns = [(name, f"{factor:g}", f"{offset:g}", unit) for name, (factor, offset), unit in own]
        rows = units.lay_out(columns, partial(_turned_columns, names))
        for policy_name, row in zip(policy_names, rows, strict=True):
            uses.setdefault((policy_name, *row), []).append(use)
    return Table(
        "",
        ("policy", "= robot", "x factor", "+ offset", "unit", "in"),
        [(*row, found[0] if len(found) == 1 else "both") for row, found in uses.items()],
        numbers=("x factor", "+ offset"),
    )


def _turned_columns(names: Sequence[str], turned: ConvertedQuaternion) -> list[tuple[str, str, str, str]]:
    """Return the columns of each number that the policy has in place of a quaternion."""
    quaternion = ", ".join(names[column] for column in turned.columns)
    shape = turned.rotation.shape
    return [(f"{turned.rotation.form} of {quaternion}", "", "", shape.unit)] * shape.width


def _actions(contract: Contract) -> Table:
    actions = contract.actions
    return Table(
        "",
        ("action", "kind", "min", "max", "per second", "unit"),
        [
            (name, kind, *_describe_bounds(actions, name), actions.unit(name))
            for name, kind in zip(actions.names, actions.kinds, strict=True)
        ],
        numbers=("min", "max", "per second"),
    )


def _describe_bounds(actions: Actions, name: str) -> tuple[str, str, str]:
    """Return lowest and highest command and the bound on its change; "-" for what has none of its own."""
    if name in actions.quaternions:
        return "-", "-", "-"
    limit, kind = actions.limit_of(name), actions.kind_of(name)
    return f"{limit.min:g}", f"{limit.max:g}", f"{limit.fastest:g}" if kind != "switch" else "-"


def find_limit_warnings(contract: Contract) -> list[str]:
    """Return what a contract's limits may not be meant to say."""
    actions = contract.actions
    warnings = [
        f"actions.limits.{name}: a gripper that closes on an object will count as a joint that does not "
        "follow, and stop the arm; expected max_following_error: off"
        for name in actions.watched_grippers
    ]
    for name in actions.positions:
        limit = actions.limits[name]
        if limit.max_following_error == "off" and not is_gripper(name):
            warnings.append(
                f"actions.limits.{name}: found max_following_error: off for what is no gripper by its name: "
                "nothing notices when it stops following"
            )
        if actions.unit(name) == "rad" and max(-limit.min, limit.max) > MANY_TURNS:
            warnings.append(
                f"actions.limits.{name}: found {limit.min:g} to {limit.max:g} rad, more than two turns; "
                "degrees are none of the robot's: the policy's stand in scale"
            )
    for name, scale in scales_by_name(actions.scale).items():
        limit = actions.limit_of(name)
        if scale.range is not None and _overlap(scale.range, (limit.min, limit.max)) < LEAST_OVERLAP:
            low, high = scale.range
            warnings.append(
                f"actions.scale: found a range of {low:g} to {high:g} for {name}, whose limits are "
                f"{limit.min:g} to {limit.max:g}: they have little in common"
            )
    return warnings


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return how much of the larger of two ranges both have, 0 to 1. The ends of the first may fall."""
    low, high = min(one), max(one)
    common = min(high, other[1]) - max(low, other[0])
    return max(0.0, common) / max(high - low, other[1] - other[0])


# -- Parameters of robots in ROS parameter files, and the messages of a contract -------------------------


ROBOT_NODE = "remote_inference"


class _RobotParameters(RobotConfig):
    """What a robot's section of a file may hold, besides the path of a contract."""

    executor: ExecutorName = "events"


def read_parameters(path: Path, content: Any, sections: Mapping[str, Any]) -> tuple[RobotConfig, ...]:
    """Return the parameters of each robot that a file names; with wildcards alone, of any robot.

    Those of other nodes and of rclpy do not count.
    """
    if problems := find_no_text(content):
        raise DocumentError("\n".join(f"{path}: {line}" for line in problems))
    general: dict[str, Any] = {}
    robots: dict[str, dict[str, Any]] = {}
    for node, section in sections.items():
        name = node.rpartition("/")[2]
        if name not in {ROBOT_NODE, "*", "**"}:
            if get_close_matches(name, [ROBOT_NODE], cutoff=0.8):
                raise DocumentError(
                    f"{path}: found a section of the node {name}, did you mean {ROBOT_NODE!r}?"
                )
            continue
        if not isinstance(section or {}, dict):
            found = f"found {show_value(section)}, expected a mapping of parameters"
            raise DocumentError(f"{path}: {node}: {PARAMETERS_KEY}: {found}")
        given = (section or {}).items()
        own = {key: value for key, value in given if key != "contract" and not is_rclpys_own(key)}
        if "*" in node:
            general |= own
        robots[node] = own
    named = {node: own for node, own in robots.items() if "*" not in node} or dict(list(robots.items())[:1])
    return tuple(
        parse_document({**general, **own}, _RobotParameters, f"{path}: {node}") for node, own in named.items()
    )


def find_parameter_problem(contract: Contract, parameters: RobotConfig) -> str:
    """Return why the robot's node refuses its parameters with this contract, or an empty string."""
    try:
        parameters.check_fallback(*contract.actions.kinds)
    except ValueError as error:
        return f"parameter {error}"
    return ""


def find_message_warnings(path: Path, contract: Contract) -> list[str]:
    """Return a warning for each source and command whose message type is not installed here.

    Raises DocumentError, naming the file and the key, for fields that a type does not have, and for a reader
    of a message type that cannot be used.
    """
    tries: dict[str, tuple[str, Callable[[], object]]] = {
        place: (source.type, partial(make_state_reader, source, place))
        for place, source in contract.state_sources.items()
    }
    for number, sink in enumerate(contract.commands):
        tries[f"commands.{number}"] = sink.type, partial(make_command_writer, sink, contract)
    for place, part in contract.operator_inputs.items():
        if isinstance(part, TakeoverPart) and part.fields:
            tries[place] = part.type, partial(FieldCommandReader, part, contract)
    warnings = []
    for place, (type_name, make) in tries.items():
        if not is_installed(type_name):
            remedy = find_remedy(type_name)
            hint = f"; to check it: {remedy}" if remedy else ""
            warnings.append(f"{place}.type: {type_name} is not installed here: not checked{hint}")
            continue
        try:
            make()
        except WireError as error:
            where = "" if str(error).startswith(place) else f"{place}."
            raise DocumentError(f"{path}: {where}{error}") from error
    return warnings


def find_controller_warnings(contract: Contract) -> list[str]:
    """Return what to set in trajectory controllers, whose parameters are not known here."""
    topics = [sink.topic for sink in contract.topic_commands if sink.interface.takes_horizon]
    if not topics:
        return []
    return [
        f"commands: {', '.join(topics)}: a joint_trajectory_controller without {INTERPOLATE} leads the arm "
        "faster than its limits (docs/reference/drivers.md): set it; doctor --contract looks whether it is"
    ]


def describe_sources(contract: Contract) -> Iterator[str]:
    """Yield a line for each source: its topic, its type, and how old the node takes a message for."""
    for place, source in contract.state_sources.items():
        use = "positions" if place == "measured" else "state"
        age = "by arrival: without a header, messages that a driver repeats count as new"
        if not is_installed(source.type):
            age = "unknown here"
        elif is_stamped(message_class(source.type)):
            age = "by the header's stamp"
        yield f"  {use} from {source.topic}: {source.type}, age {age}"


def describe_inputs(contract: Contract) -> Iterator[str]:
    """Yield a line for each topic by which people and safety devices stop, command or instruct the robot."""
    for place, source in contract.operator_inputs.items():
        stops = []
        if isinstance(source, StopInput):
            stops = [f"at {str(source.stop_when).lower()}"] if source.by_value else []
            stops += [f"when silent for {source.silent_s:g} s"] if source.silent_s else []
        elif isinstance(source, TakeoverPart):
            stops = [", ".join(source.actions)]
        yield f"  {place}: {source.topic} ({source.type}){': ' if stops else ''}{' or '.join(stops)}"


def is_installed(type_name: str) -> bool:
    """Return whether a message or an action of this name can be used here."""
    try:
        command_class(type_name)
    except WireError:
        return False
    return True


# -- Whether a computer keeps a robot's control rate: what a tick costs here, with chunks of the policy --


TICKS = 21  # that are tried
NEW_CHUNK = 7  # ticks
MOST = 0.5  # of a period: the robot's computer has more to do


def find_rate_warning(
    contract: Contract, config: RobotConfig, chunk_size: int, clock_s: Callable[[], float] = time.perf_counter
) -> str:
    """Return why this computer cannot control the robot at the contract's rate; empty when it can.

    A tick counts by the time in which it decides a command and writes its messages: the median. A message
    whose type is not installed here is not written.
    """
    sinks = [sink for sink in contract.commands if is_installed(sink.type)]
    writers = [(sink, make_command_writer(sink, contract)) for sink in sinks]
    ticks = play(contract, config, chunk_size)
    durations_s = []
    for _ in range(TICKS):
        began_s = clock_s()
        tick = next(ticks)
        for sink, writer in writers:
            if tick.horizon is not None and tick.reaches(contract.kind_of(sink), sink.destination):
                writer.message(tick.horizon, Time(), tick.late_ns)
        durations_s.append(clock_s() - began_s)
    tick_s = statistics.median(durations_s)
    if tick_s <= MOST * contract.period_s:
        return ""
    period_ms = contract.period_s * 1e3
    return (
        f"fps: a control tick takes {tick_s * 1e3:.2g} ms here, of the {period_ms:.3g} ms between two at "
        f"{contract.fps:g} Hz: on a robot's computer that is no faster it comes late; lower fps, or let the "
        "policy's chunks have fewer rows"
    )


def play(contract: Contract, config: RobotConfig, chunk_size: int) -> Iterator[Tick]:
    """Yield ticks of a robot that stays where it is, by chunks of a policy: a new one every few ticks."""
    queue = ActionQueue()
    rules = MotionRules.of(contract, Guard(contract.actions, contract.period_s), config)
    playback = Playback(rules, queue)
    playback.control.change(paused=False)
    rest = _find_rest(contract, rules)
    rows = np.tile(rest.astype(np.float32), (chunk_size, 1))
    for number in count():
        now_ns = 1 + number * rules.period_ns
        if number % NEW_CHUNK == 0:
            source = ChunkSource(now_ns, "", number, 0, "", "")
            queue.merge(source, rows, rows, MergeMode.REPLACE, latency_steps=0, executed_before=0)
        playback.control.change(measured=rest, measured_ns=now_ns)
        yield playback.tick(now_ns)


def _find_rest(contract: Contract, rules: MotionRules) -> Float64Array:
    """Return positions `[action_dim]` within the limits, for a robot that stays where it is."""
    limits = [contract.actions.limit_of(name) for name in contract.actions.names]
    rest = np.array([min(max(0.0, limit.min), limit.max) for limit in limits])
    rest[rules.masks.poses.turns] = (0.0, 0.0, 0.0, 1.0)
    return rest
