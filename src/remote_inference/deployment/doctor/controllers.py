# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Judges a contract's commands by what the controllers of ros2_control say of themselves.

A `Float64MultiArray` names no joints: a contract with another order than the controller's parameter `joints`
would send each command to another joint, and no message tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from remote_inference.core.contract.commands.sink import CommandSink
from remote_inference.core.contract.contract import Contract
from remote_inference.core.exchange import in_namespace
from remote_inference.deployment.doctor.findings import Finding, Level

# Of forward_command_controller and joint_trajectory_controller. Others have none of them.
PARAMETERS = ("joints", "command_joints", "interface_name", "allow_partial_joints_goal")


@dataclass(frozen=True)
class ControllerFacts:
    """A controller's parameters. joints: that it commands, in its order; empty: it does not say.

    problem: why it was not heard; empty when it was.
    """

    node: str
    joints: tuple[str, ...] = ()
    interface: str = ""  # that it forwards to; empty: it does not say
    takes_some: bool = True  # a command need not name all its joints
    problem: str = ""


def facts_of(node: str, parameters: Mapping[str, object]) -> ControllerFacts:
    """Return what a controller says. parameters: the values of PARAMETERS that it has."""
    joints = parameters.get("command_joints") or parameters.get("joints") or ()
    interface = parameters.get("interface_name")
    return ControllerFacts(
        node,
        tuple(map(str, joints)) if isinstance(joints, list | tuple) else (),
        interface if isinstance(interface, str) else "",
        takes_some=parameters.get("allow_partial_joints_goal") is not False,
    )


def judge_controllers(
    contract: Contract, namespace: str, controllers: Mapping[str, ControllerFacts]
) -> Iterator[Finding]:
    """Judge the commands to controllers that say which joints they take. controllers: by full topic name."""
    for sink in contract.topic_commands:
        facts = controllers.get(in_namespace(namespace, sink.topic))
        if facts is None or sink.fields:
            continue
        if facts.problem:
            found = f"its joints were not compared: {facts.problem}"
            yield Finding(Level.OK, f"controller {facts.node}", found)
        elif facts.joints:
            yield _judge(contract, sink, facts)


def _judge(contract: Contract, sink: CommandSink, facts: ControllerFacts) -> Finding:
    subject, joints = f"controller {facts.node}", ", ".join(facts.joints)
    kind = contract.kind_of(sink)
    if facts.interface and kind in ("position", "velocity", "effort") and kind != facts.interface:
        advice = "mend the contract's command, or load the controller of that kind"
        return Finding(Level.ERROR, subject, f"forwards {facts.interface} commands", kind, advice)
    if sink.interface.names_joints:
        return _judge_named(subject, sink, facts)
    if len(sink.names) != len(facts.joints):
        found = f"takes {len(facts.joints)} joints: {joints}"
        expected = f"{len(sink.names)}: {', '.join(sink.names)}"
        advice = "it drops every command: mend the contract's names, or its joints"
        return Finding(Level.ERROR, subject, found, expected, advice)
    # Names that both know must stand in one place; a contract may have names of its own for the others.
    if any(
        name in facts.joints and name != there for name, there in zip(sink.names, facts.joints, strict=True)
    ):
        advice = "commands go to other joints than the policy means: give names the controller's order"
        return Finding(Level.ERROR, subject, f"takes {joints}", ", ".join(sink.names), advice)
    alias = "" if set(sink.names) == set(facts.joints) else f", from {', '.join(sink.names)}"
    return Finding(Level.OK, subject, f"takes {joints}{alias}")


def _judge_named(subject: str, sink: CommandSink, facts: ControllerFacts) -> Finding:
    """Judge a command whose message names its joints: their order does not matter."""
    wanted, left = sink.joints, [name for name in facts.joints if name not in sink.joints]
    if unknown := [name for name in wanted if name not in facts.joints]:
        found = f"has no {', '.join(unknown)}, but {', '.join(facts.joints)}"
        advice = "it refuses every command: mend the contract's names or prefix, or its joints"
        return Finding(Level.ERROR, subject, found, ", ".join(wanted), advice)
    if left and not facts.takes_some:
        found = f"wants {', '.join(left)}, too, in each command"
        advice = "it refuses every command: name all its joints, or set its allow_partial_joints_goal"
        return Finding(Level.ERROR, subject, found, ", ".join(wanted), advice)
    return Finding(Level.OK, subject, f"takes {', '.join(wanted)}")
