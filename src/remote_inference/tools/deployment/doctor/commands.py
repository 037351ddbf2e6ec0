# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Judges what a robot commands: topics and actions of a contract, or those that the graph shows of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remote_inference.base.contract.commands.controller_facts import (
    INTERPOLATE,
    ControllerFacts,
    find_mismatch,
    ignores_timeout,
    starts_at_measured_position,
    takes_commands,
)
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.operator_inputs import InstructionInput, OperatorInput, StopInput
from remote_inference.base.exchange import in_namespace
from remote_inference.base.nodes.graph import UNKNOWN_NODE
from remote_inference.tools.deployment.doctor.doctor import (
    SAME_DEFINITION,
    UNREADABLE,
    Fault,
    Finding,
    Fine,
    Level,
    TopicFacts,
    Warn,
)

ROBOT_NODE = "remote_inference"
WATCHDOG_NODE = "command_watchdog"  # publishes only to stop what the robot's node has commanded
OTHER_TOPICS = ("/diagnostics", "/rosout", "/parameter_events")  # that a node publishes beside its own

# -- Judges a contract's commands by what the controllers of ros2_control say of themselves --------------


def judge_controllers(
    contract: Contract, namespace: str, controllers: Mapping[str, ControllerFacts]
) -> Iterator[Finding]:
    """Judge the commands to controllers that say which joints they take. controllers: by full topic name."""
    for sink in contract.topic_commands:
        facts = controllers.get(in_namespace(namespace, sink.topic))
        if facts is None or sink.fields:
            continue
        where = f"controller {facts.node}"
        if facts.problem:
            yield Fine(where, f"its joints were not compared: {facts.problem}")
        elif facts.joints:
            yield _judge_controller(contract, sink, facts)
            if starts_at_measured_position(sink, facts):
                yield Fault(
                    where,
                    "begins each trajectory where its joints are measured",
                    INTERPOLATE,
                    "each tick's trajectory replaces the last one: its setpoint falls back in each, and the "
                    "arm is led faster than its limits; set it and load the controller anew",
                )
            if ignores_timeout(facts):
                found = f"ignores cmd_timeout {facts.cmd_timeout_s:g}: goal_time is {facts.goal_time_s:g}"
                advice = "set constraints.goal_time below cmd_timeout (docs/reference/drivers.md)"
                yield Warn(where, found, "a longer cmd_timeout than goal_time [s]", advice)


def judge_activity(inactive: Mapping[str, str]) -> Iterator[Finding]:
    """Judge the controllers that take commands and are not active. inactive: their states by full name."""
    for node, state in inactive.items():
        advice = "it takes no command: activate it, with ros2 control switch_controllers for example"
        yield Fault(f"controller {node}", f"is {state}", "active", advice)


def _judge_controller(contract: Contract, sink: CommandSink, facts: ControllerFacts) -> Finding:
    subject = f"controller {facts.node}"
    if mismatch := find_mismatch(sink, contract.kind_of(sink), facts):
        return Fault(subject, mismatch.found, mismatch.expected, mismatch.advice)
    if sink.interface.names_joints:
        return Fine(subject, f"takes {', '.join(sink.joints)}")
    alias = "" if set(sink.names) == set(facts.joints) else f", from {', '.join(sink.names)}"
    return Fine(subject, f"takes {', '.join(facts.joints)}{alias}")


# -- Judges robots by what their nodes say, when what keeps them from moving was looked for already ------


def judge_robots(
    robots: Mapping[str, Any],
    *,
    wanted: str = "",
    servers: Sequence[Finding] = (),
    sensors: Mapping[str, Sequence[Finding]] | None = None,
) -> Iterator[Finding]:
    """Judge robots by their newest state, by namespace; None: in the graph, but silent.

    wanted: namespace of a robot that must be there. servers, sensors: what was found of them before, of
    sensors by the robot's namespace; where that explains a state, it stands in the place of general advice.
    """
    start = "start 'remote-inference robot', on the same middleware and domain"
    if wanted and wanted not in robots:
        others = ", ".join(robots) or "no robot"
        advice = f"{start}, or mend --namespace; the log of a node that has ended says why"
        found = f"no node {in_namespace(wanted, 'remote_inference')}, found {others}"
        yield Fault(f"robot {wanted}", found, "the robot of the contract", advice)
    elif not robots:
        yield Fault("robots", "none", "at least one", start)
    for name, state in robots.items():
        if state is None:
            yield Fault(f"robot {name}", "no state", "two a second", "look whether it hangs")
        else:
            yield _judge_robot(name, state, servers, (sensors or {}).get(name, ()))


def _judge_robot(name: str, state: Any, servers: Sequence[Finding], sensors: Sequence[Finding]) -> Finding:
    subject, short = f"robot {name}", name.strip("/")
    found = f"{state.state_name}: {state.cause}" if state.cause else str(state.state_name)
    if state.state == state.DEAD:
        return Fault(subject, found, "STREAMING", "mend the cause and start its node again")
    if not state.session_id:
        are_all_bad = all(finding.level is not Level.OK for finding in servers)
        advice = _see(servers if are_all_bad else ()) or "look at its log and the servers'"
        return Fault(subject, f"no session, {found}", "a session", advice)
    if state.stop:
        advice = f"make it good, then 'remote-inference clear-stop {short}' and resume"
        return Fault(subject, f"stopped by {state.stop}", "no stop", advice)
    if state.paused:
        why = f" ({state.pause_cause})" if state.pause_cause else ""
        advice = f"when that is in order, 'remote-inference resume {short}' lets it move"
        return Warn(subject, f"paused{why}, {found}", "resumed", advice)
    if state.apart:
        advice = "a larger bound, or cameras that are triggered together"
        return Fault(subject, state.apart, "messages that fit together", advice)
    if state.state in {state.STALLED, state.DEGRADED, state.RECONNECTING}:
        its_server = [finding for finding in servers if finding.subject == f"server {state.server}"]
        errors = [finding for finding in (*sensors, *its_server) if finding.level is Level.ERROR]
        return Warn(subject, found, "STREAMING", _see(errors) or "look at its latencies and server")
    return Fine(subject, found)


def _see(findings: Sequence[Finding]) -> str:
    """Return where the cause stands, empty where there is none."""
    subjects = ", ".join(dict.fromkeys(finding.subject for finding in findings))
    return f"because of {subjects}, above" if subjects else ""


# -- Judges the topics of a contract's stop inputs, takeover and instruction -----------------------------


def judge_inputs(contract: Contract, namespace: str, topics: Mapping[str, TopicFacts]) -> Iterator[Finding]:
    """Judge the stop inputs, the takeover topic and that of instructions, by full name."""
    for place, source in contract.operator_inputs.items():
        name = in_namespace(namespace, source.topic)
        yield _judge_input(f"{place} {name}", source, topics.get(name, TopicFacts()))


def _judge_input(subject: str, source: OperatorInput, facts: TopicFacts) -> Finding:
    is_stop = isinstance(source, StopInput)
    # A robot does not resume before it has received each stop. A person may start the takeover's node later.
    missing = Fault if is_stop else Warn
    why = "the robot does not resume before it is heard" if is_stop else "a takeover would run the fallback"
    if isinstance(source, InstructionInput):
        why = "the task stays the contract's"
    if not facts.publishers:
        return missing(subject, "no publisher", source.type, why)
    if set(facts.types) != {source.type}:
        advice = "mend the contract's type, or the publisher"
        return Fault(subject, f"published as {facts.kinds}", source.type, advice)
    if facts.unreadable:
        return Fault(subject, f"{UNREADABLE} from {facts.who}", source.type, SAME_DEFINITION)
    if isinstance(source, InstructionInput):
        return Fine(subject, f"published by {facts.who}")
    if source.silent_s is not None and not facts.rate_hz * source.silent_s >= 1.0:
        expected = f"a message every {source.silent_s:g} s"
        return missing(subject, facts.rate, expected, "its silence counts as a stop" if is_stop else why)
    return Fine(subject, facts.rate)


# -- Judges who takes and who publishes the commands -----------------------------------------------------


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
        return Fault(subject, "no action server", f"a server of {command.kind}", advice)
    found = f"served by {facts.who}"
    if len(facts.publishers) > 1:
        return Fault(subject, found, "one server", "each goal goes to all of them: stop one")
    return Fine(subject, found)


def _judge_topic(command: Command, namespace: str, facts: TopicFacts) -> Finding:
    subject = f"command {command.name}"
    controllers = controllers_of(command, facts)
    if others := _find_other_publishers(namespace, facts.publishers):
        # First: two that move one arm are worse than one without a subscriber.
        return Fault(subject, others, "the robot's node alone", "two command the same controller: stop one")
    if not controllers:
        advice = "start the controller, or mend the contract's topic"
        wanted = f"a controller for {command.kind}"
        if command.controller:
            wanted = f"{command.controller}, the contract's controller"
            advice += " or controller"
        found = f"received by {', '.join(facts.subscribers)} alone" if facts.subscribers else "no subscriber"
        return Fault(subject, found, wanted, advice)
    if set(facts.types) != {command.kind}:
        advice = "mend the contract's type, or the controller"
        return Fault(subject, f"known as {facts.kinds}", command.kind, advice)
    if deaf := sorted(set(facts.latched_subscribers) & set(controllers)):
        found = f"{', '.join(deaf)} subscribes as TRANSIENT_LOCAL"
        return Fault(subject, found, "VOLATILE", "it hears no command: change its durability")
    return Fine(subject, f"received by {', '.join(controllers)}")


def _find_other_publishers(namespace: str, publishers: Sequence[str]) -> str:
    """Return the other publishers, empty where there is one alone: in shadow mode that is not the node."""
    robot, watchdog = (in_namespace(namespace, name) for name in (ROBOT_NODE, WATCHDOG_NODE))
    sources = sorted(set(publishers) - {watchdog})
    if len(sources) < 2:
        return ""
    others = ", ".join(name for name in sources if name != robot)
    return f"published by {others}, too" if robot in sources else f"published by {others}"
