# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares a contract's commands with the parameters of the controllers of ros2_control.

A `Float64MultiArray` names no joints: a contract with another order than the controller's parameter `joints`
would send each command to another joint, and no message shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from remote_inference.base.contract.action_kinds import MOTIONS
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.exchange import in_namespace

# -- Which subscribers of a command are its controllers, and which only observe --------------------------

OBSERVERS = ("remote_inference", "command_watchdog", "bag_recorder", "foxglove_bridge")
OBSERVER_PREFIXES = (
    "rosbag2_recorder",  # of `ros2 bag record`; this package names one for each robot
    "_ros2cli",  # of `ros2 topic echo`, `hz` and `bw`
    "rqt_gui",
    "plotjuggler",
)
OBSERVER_SUFFIX = "_verb"  # of this package's command line


def is_observer(name: str) -> bool:
    """Return whether a node's name, without namespace, is that of a program that takes no commands."""
    return name in OBSERVERS or name.startswith(OBSERVER_PREFIXES) or name.endswith(OBSERVER_SUFFIX)


def takes_commands(node: str, controller: str) -> bool:
    """Return whether a subscriber of a command is its controller. Both are full names.

    controller: the contract's, and no other counts; empty where it names none: then each subscriber counts
    that is no known observer.
    """
    return node == controller if controller else not is_observer(node.rpartition("/")[2])


def is_controller(node: str, sink: CommandSink, namespace: str) -> bool:
    """Return whether a subscriber of a contract's command is its controller.

    node: full name. namespace: the robot's.
    """
    return takes_commands(node, in_namespace(namespace, sink.controller) if sink.controller else "")


# Of forward_command_controller and joint_trajectory_controller. Others have none of them.
PARAMETERS = (
    "joints",
    "command_joints",
    "interface_name",
    "command_interfaces",
    "allow_partial_joints_goal",
    "interpolate_from_desired_state",
    "open_loop_control",  # its name in older versions
    "cmd_timeout",
    "constraints.goal_time",
)
JOINT_LIMITS = "joint_limits."  # before the joint and the key, of controllers that keep such limits
INTERPOLATE = "interpolate_from_desired_state: true"


@dataclass(frozen=True)
class ControllerFacts:
    """A controller's parameters. joints: that it commands, in its order; empty: unknown.

    problem: why it did not answer; empty when it did.
    """

    node: str
    joints: tuple[str, ...] = ()
    interface: str = ""  # that it forwards to; empty: unknown
    command_interfaces: tuple[str, ...] = ()  # of its joints; a trajectory's positions may become velocities
    accepts_partial_commands: bool = True  # a command need not name all its joints
    interpolates: bool = False  # its next trajectory begins where the one before has led
    cmd_timeout_s: float = 0.0  # after a trajectory's end it holds; 0: never
    goal_time_s: float = 0.0  # what a trajectory may take longer than it says
    problem: str = ""
    joint_limits: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # by joint, then key


@dataclass(frozen=True)
class Mismatch:
    """What a controller expects, what the contract sends, and the remedy."""

    found: str
    expected: str
    advice: str


def facts_of(node: str, parameters: Mapping[str, object]) -> ControllerFacts:
    """Return the facts on a controller. parameters: those of PARAMETERS and JOINT_LIMITS that it has."""
    interface = parameters.get("interface_name")
    joint_limits: dict[str, dict[str, object]] = {}
    for name in filter(lambda name: name.startswith(JOINT_LIMITS), parameters):
        joint, _, key = name.removeprefix(JOINT_LIMITS).rpartition(".")
        joint_limits.setdefault(joint, {})[key] = parameters[name]
    return ControllerFacts(
        node,
        _texts(parameters.get("command_joints")) or _texts(parameters.get("joints")),
        interface if isinstance(interface, str) else "",
        _texts(parameters.get("command_interfaces")),
        accepts_partial_commands=parameters.get("allow_partial_joints_goal") is not False,
        interpolates=True
        in (parameters.get("interpolate_from_desired_state"), parameters.get("open_loop_control")),
        cmd_timeout_s=_number(parameters.get("cmd_timeout")),
        goal_time_s=_number(parameters.get("constraints.goal_time")),
        joint_limits=joint_limits,
    )


def _number(value: object) -> float:
    return value if isinstance(value, float) else 0.0


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def find_mismatch(sink: CommandSink, kind: str, facts: ControllerFacts) -> Mismatch | None:
    """Return how a controller reads a command otherwise than the contract means it; None: it does not.

    kind: of the command's actions. Nothing is known of a controller without `joints`, and of
    `fields`.
    """
    if not facts.joints or sink.fields:
        return None
    if facts.interface and kind in MOTIONS and kind != facts.interface:
        advice = "mend the contract's command, or load the controller of that kind"
        return Mismatch(f"forwards {facts.interface} commands", kind, advice)
    if sink.interface.names_joints:
        return _find_named_mismatch(sink, facts)
    joints, names = ", ".join(facts.joints), ", ".join(sink.names)
    if len(sink.names) != len(facts.joints):
        advice = "it drops each command or is deactivated by it: mend the contract's names, or its joints"
        return Mismatch(f"takes {len(facts.joints)} joints: {joints}", f"{len(sink.names)}: {names}", advice)
    # Names that both know must stand in one place; a contract may have names of its own for the others.
    if any(
        name in facts.joints and name != there for name, there in zip(sink.names, facts.joints, strict=True)
    ):
        advice = "commands go to other joints than the policy means: give names the controller's order"
        return Mismatch(f"takes {joints}", names, advice)
    return None


def _find_named_mismatch(sink: CommandSink, facts: ControllerFacts) -> Mismatch | None:
    """Judge a command whose message names its joints: their order does not matter."""
    wanted, left = sink.joints, [name for name in facts.joints if name not in sink.joints]
    if unknown := [name for name in wanted if name not in facts.joints]:
        found = f"has no {', '.join(unknown)}, but {', '.join(facts.joints)}"
        advice = "it refuses every command: mend the contract's names or prefix, or its joints"
        return Mismatch(found, ", ".join(wanted), advice)
    if left and not facts.accepts_partial_commands:
        found = f"wants {', '.join(left)}, too, in each command"
        advice = "it refuses every command: name all its joints, or set its allow_partial_joints_goal"
        return Mismatch(found, ", ".join(wanted), advice)
    return None


def ignores_timeout(facts: ControllerFacts) -> bool:
    """Return whether a trajectory controller has a timeout that it ignores, as its goal_time is no shorter.

    From ros2_controllers' versions of September 2026 on that is 10 s where nothing is said, before them 0.
    """
    return 0.0 < facts.cmd_timeout_s <= facts.goal_time_s


def starts_at_measured_position(sink: CommandSink, facts: ControllerFacts) -> bool:
    """Return whether a controller starts each trajectory at the measured position.

    Each tick replaces the trajectory: the setpoint would fall back by the arm's lag each time.
    """
    return bool(facts.joints) and sink.interface.takes_horizon and not facts.interpolates
