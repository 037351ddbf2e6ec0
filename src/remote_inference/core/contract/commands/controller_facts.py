# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares a contract's commands with what the controllers of ros2_control say of themselves.

A `Float64MultiArray` names no joints: a contract with another order than the controller's parameter `joints`
would send each command to another joint, and no message tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from remote_inference.core.contract.commands.sink import CommandSink

# Of forward_command_controller and joint_trajectory_controller. Others have none of them.
PARAMETERS = (
    "joints",
    "command_joints",
    "interface_name",
    "allow_partial_joints_goal",
    "interpolate_from_desired_state",
    "open_loop_control",  # its name in older versions
)
INTERPOLATE = "interpolate_from_desired_state: true"


@dataclass(frozen=True)
class ControllerFacts:
    """A controller's parameters. joints: that it commands, in its order; empty: it does not say.

    problem: why it was not heard; empty when it was.
    """

    node: str
    joints: tuple[str, ...] = ()
    interface: str = ""  # that it forwards to; empty: it does not say
    takes_some: bool = True  # a command need not name all its joints
    interpolates: bool = False  # its next trajectory begins where the one before has led
    problem: str = ""


@dataclass(frozen=True)
class Mismatch:
    """What a controller does, what the contract means, and what mends it."""

    found: str
    expected: str
    advice: str


def facts_of(node: str, parameters: Mapping[str, object]) -> ControllerFacts:
    """Return what a controller says. parameters: the values of PARAMETERS that it has."""
    joints = parameters.get("command_joints") or parameters.get("joints") or ()
    interface = parameters.get("interface_name")
    return ControllerFacts(
        node,
        tuple(map(str, joints)) if isinstance(joints, list | tuple) else (),
        interface if isinstance(interface, str) else "",
        takes_some=parameters.get("allow_partial_joints_goal") is not False,
        interpolates=True
        in (parameters.get("interpolate_from_desired_state"), parameters.get("open_loop_control")),
    )


def find_mismatch(sink: CommandSink, kind: str, facts: ControllerFacts) -> Mismatch | None:
    """Return how a controller takes a command otherwise than the contract means it; None: it does not.

    kind: of the command's actions. Of a controller that does not say its joints, and of `fields`, nothing is
    known.
    """
    if not facts.joints or sink.fields:
        return None
    if facts.interface and kind in ("position", "velocity", "effort") and kind != facts.interface:
        advice = "mend the contract's command, or load the controller of that kind"
        return Mismatch(f"forwards {facts.interface} commands", kind, advice)
    if sink.interface.names_joints:
        return _find_named_mismatch(sink, facts)
    joints, names = ", ".join(facts.joints), ", ".join(sink.names)
    if len(sink.names) != len(facts.joints):
        advice = "it drops every command: mend the contract's names, or its joints"
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
    if left and not facts.takes_some:
        found = f"wants {', '.join(left)}, too, in each command"
        advice = "it refuses every command: name all its joints, or set its allow_partial_joints_goal"
        return Mismatch(found, ", ".join(wanted), advice)
    return None


def begins_where_measured(sink: CommandSink, facts: ControllerFacts) -> bool:
    """Return whether a trajectory controller leads each trajectory from the measured position.

    Ours replace one another in each tick: the setpoint would fall back by the arm's lag each time.
    """
    return bool(facts.joints) and sink.interface.takes_horizon and not facts.interpolates
