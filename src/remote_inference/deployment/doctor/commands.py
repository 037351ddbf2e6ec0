# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Judges what a robot commands: topics and actions of a contract, or those that the graph shows of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from remote_inference.core.contract.commands.subscribers import takes_commands
from remote_inference.core.contract.contract import Contract
from remote_inference.core.exchange import in_namespace
from remote_inference.deployment.doctor.findings import Finding, Level, TopicFacts
from remote_inference.nodes.graph import UNKNOWN_NODE

ROBOT_NODE = "remote_inference"
WATCHDOG_NODE = "command_watchdog"  # publishes only to stop what the robot's node has commanded
OTHER_TOPICS = ("/diagnostics", "/rosout", "/parameter_events")  # that a node publishes beside its own


@dataclass(frozen=True)
class Command:
    """A topic or action by full name. controller: full name of the node that the contract names, or empty."""

    name: str
    kind: str
    is_action: bool = False
    controller: str = ""

    @property
    def announced_topic(self) -> str:
        """The topic that shows who takes the command: an action server publishes its status."""
        return f"{self.name}/_action/status" if self.is_action else self.name


def commands_of(contract: Contract, namespace: str) -> list[Command]:
    """Return the commands of a contract."""
    return [
        Command(
            in_namespace(namespace, sink.destination),
            sink.type,
            is_action=sink.action is not None,
            controller="" if sink.controller is None else in_namespace(namespace, sink.controller),
        )
        for sink in contract.commands
    ]


def commands_in_graph(
    namespace: str, published: Sequence[tuple[str, list[str]]], actions: Sequence[tuple[str, list[str]]]
) -> list[Command]:
    """Return what a robot's node commands, by what the graph shows: name and types of each.

    published: its topics, of which those below its own name are none. actions: those it has a client of.
    """
    own = f"{in_namespace(namespace, ROBOT_NODE)}/"
    commands = [
        Command(name, kinds[0])
        for name, kinds in published
        if name not in OTHER_TOPICS and not name.startswith(own)
    ]
    return commands + [Command(name, kinds[0], is_action=True) for name, kinds in actions]


def judge_commands(
    commands: Sequence[Command], namespace: str, topics: Mapping[str, TopicFacts]
) -> Iterator[Finding]:
    """Judge who takes and who publishes a robot's commands. topics: by full name."""
    for command in commands:
        judge = _judge_action if command.is_action else _judge_topic
        yield judge(command, namespace, topics.get(command.announced_topic, TopicFacts()))


def controllers_of(command: Command, facts: TopicFacts) -> list[str]:
    """Return the full names of the nodes that take a command's messages."""
    return [
        node
        for node in facts.subscribers
        if takes_commands(node, command.controller) or node.endswith(UNKNOWN_NODE)
    ]


def _judge_action(command: Command, _: str, facts: TopicFacts) -> Finding:
    subject = f"command {command.name}"
    if not facts.publishers:
        advice = "start the controller, or mend the contract's action"
        return Finding(Level.ERROR, subject, "no action server", f"a server of {command.kind}", advice)
    if len(facts.publishers) > 1:
        found = f"served by {', '.join(facts.publishers)}"
        return Finding(Level.ERROR, subject, found, "one server", "each goal goes to all of them: stop one")
    return Finding(Level.OK, subject, f"served by {facts.publishers[0]}")


def _judge_topic(command: Command, namespace: str, facts: TopicFacts) -> Finding:
    subject = f"command {command.name}"
    controllers = controllers_of(command, facts)
    if rivals := _find_rivals(namespace, facts.publishers):
        # First: two that move one arm are worse than one that nobody hears.
        advice = "two command the same controller: stop one"
        return Finding(Level.ERROR, subject, rivals, "the robot's node alone", advice)
    if not controllers:
        advice = "start the controller, or mend the contract's topic"
        wanted = f"a controller for {command.kind}"
        if command.controller:
            wanted = f"{command.controller}, the contract's controller"
            advice += " or controller"
        found = f"heard by {', '.join(facts.subscribers)} alone" if facts.subscribers else "no subscriber"
        return Finding(Level.ERROR, subject, found, wanted, advice)
    if set(facts.types) != {command.kind}:
        found, advice = f"known as {', '.join(facts.types)}", "mend the contract's type, or the controller"
        return Finding(Level.ERROR, subject, found, command.kind, advice)
    if deaf := sorted(set(facts.latched_subscribers) & set(controllers)):
        found = f"{', '.join(deaf)} subscribes as TRANSIENT_LOCAL"
        return Finding(Level.ERROR, subject, found, "VOLATILE", "it hears no command: change its durability")
    return Finding(Level.OK, subject, f"heard by {', '.join(controllers)}")


def _find_rivals(namespace: str, publishers: Sequence[str]) -> str:
    """Return who else commands, empty where one alone does: in shadow mode that is another than the node."""
    robot, watchdog = (in_namespace(namespace, name) for name in (ROBOT_NODE, WATCHDOG_NODE))
    sources = sorted(set(publishers) - {watchdog})
    if len(sources) < 2:
        return ""
    others = ", ".join(name for name in sources if name != robot)
    return f"published by {others}, too" if robot in sources else f"published by {others}"
