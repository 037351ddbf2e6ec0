# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Judges the sensors and commands of a contract; `deployment.doctor.doctor` judges what is no topic."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from remote_inference.core.contract.command_sink import CommandSink
from remote_inference.core.contract.command_subscribers import is_controller
from remote_inference.core.contract.contract import Contract
from remote_inference.core.exchange import in_namespace
from remote_inference.deployment.doctor.doctor import Finding, Level, TopicFacts
from remote_inference.nodes.graph import UNKNOWN_NODE

SLOWEST_SENSOR_HZ = 2.0  # slower than max_sensor_age_s by default
COMMANDERS = ("remote_inference", "command_watchdog")  # of a robot, in its namespace


def find_unused_topics(contract: Contract, servers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cameras' topics that no accepting server's policy uses; none while no server accepts."""
    statuses = [status for status in servers.values() if status is not None and status.accepting]
    if not statuses:
        return ()
    used = {feature for status in statuses for feature in status.image_features}
    return tuple(topic for feature, topic in contract.camera_topics.items() if feature not in used)


def judge_contract(
    contract: Contract, namespace: str, topics: Mapping[str, TopicFacts], unused: Collection[str] = ()
) -> Iterator[Finding]:
    """Judge the topics of a contract, by full name. unused: cameras that robots leave out."""
    for topic, expected in contract.sensor_types.items():
        name = in_namespace(namespace, topic)
        if topic in unused:
            yield Finding(Level.OK, f"sensor {name}", "no server's policy uses it")
            continue
        yield _judge_sensor(name, expected, contract.row_fps, topics.get(name, TopicFacts()))
    for sink in contract.commands:
        judge = _judge_command if sink.action is None else _judge_action
        facts = topics.get(in_namespace(namespace, sink.announced_topic), TopicFacts())
        yield judge(sink, namespace, facts)


def _judge_sensor(name: str, expected: str, fps: float, facts: TopicFacts) -> Finding:
    subject, wanted = f"sensor {name}", f"{expected} at {fps:g} Hz or faster"
    if not facts.publishers:
        return Finding(Level.ERROR, subject, "no publisher", wanted, "start its driver, or mend its topic")
    if set(facts.types) != {expected}:
        found = f"published as {', '.join(facts.types)}"
        return Finding(Level.ERROR, subject, found, expected, "mend the contract's type, or the driver")
    who = f"from {', '.join(facts.publishers)}"
    if not facts.rate_hz > 0.0:
        advice = "look whether the driver hangs, and whether the network carries its messages"
        return Finding(Level.ERROR, subject, f"no message {who}", wanted, advice)
    found = f"{facts.rate_hz:.1f} Hz {who}"
    if facts.rate_hz < SLOWEST_SENSOR_HZ:
        return Finding(Level.ERROR, subject, found, wanted, "too old for a request most of the time")
    if len(facts.publishers) > 1:
        return Finding(Level.WARNING, subject, found, "one publisher", "their messages alternate")
    if facts.rate_hz < 0.9 * fps:
        return Finding(Level.WARNING, subject, found, wanted, "requests wait for new messages")
    return Finding(Level.OK, subject, found)


def _judge_action(sink: CommandSink, namespace: str, facts: TopicFacts) -> Finding:
    subject = f"command {in_namespace(namespace, sink.destination)}"
    if not facts.publishers:
        advice = "start the controller, or mend the contract's action"
        return Finding(Level.ERROR, subject, "no action server", f"a server of {sink.type}", advice)
    if len(facts.publishers) > 1:
        found = f"served by {', '.join(facts.publishers)}"
        return Finding(Level.ERROR, subject, found, "one server", "each goal goes to all of them: stop one")
    return Finding(Level.OK, subject, f"served by {facts.publishers[0]}")


def _judge_command(sink: CommandSink, namespace: str, facts: TopicFacts) -> Finding:
    subject = f"command {in_namespace(namespace, sink.topic)}"
    controllers = [
        node
        for node in facts.subscribers
        if is_controller(node, sink, namespace) or node.endswith(UNKNOWN_NODE)
    ]
    if not controllers:
        advice = "start the controller, or mend the contract's topic"
        wanted = f"a controller for {sink.type}"
        if sink.controller is not None:
            wanted = f"{in_namespace(namespace, sink.controller)}, the contract's controller"
            advice += " or controller"
        found = f"heard by {', '.join(facts.subscribers)} alone" if facts.subscribers else "no subscriber"
        return Finding(Level.ERROR, subject, found, wanted, advice)
    if set(facts.types) != {sink.type}:
        found, advice = f"known as {', '.join(facts.types)}", "mend the contract's type, or the controller"
        return Finding(Level.ERROR, subject, found, sink.type, advice)
    if deaf := sorted(set(facts.latched_subscribers) & set(controllers)):
        found = f"{', '.join(deaf)} subscribes as TRANSIENT_LOCAL"
        return Finding(Level.ERROR, subject, found, "VOLATILE", "it hears no command: change its durability")
    own = {in_namespace(namespace, name) for name in COMMANDERS}
    if rivals := sorted(set(facts.publishers) - own):
        found, advice = f"published by {', '.join(rivals)}, too", "two command the same controller: stop one"
        return Finding(Level.WARNING, subject, found, "the robot's node alone", advice)
    return Finding(Level.OK, subject, f"heard by {', '.join(controllers)}")
