# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Judges a contract's commands by what the controllers of ros2_control say of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from remote_inference.core.contract.commands.controller_facts import (
    INTERPOLATE,
    ControllerFacts,
    begins_where_measured,
    find_mismatch,
)
from remote_inference.core.contract.commands.sink import CommandSink
from remote_inference.core.contract.contract import Contract
from remote_inference.core.exchange import in_namespace
from remote_inference.deployment.doctor.findings import Finding, Level


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
            if begins_where_measured(sink, facts):
                yield _judge_interpolation(facts)


def judge_activity(inactive: Mapping[str, str]) -> Iterator[Finding]:
    """Judge the controllers that take commands and are not active. inactive: their states by full name."""
    for node, state in inactive.items():
        advice = "it takes no command: activate it, with ros2 control switch_controllers for example"
        yield Finding(Level.ERROR, f"controller {node}", f"is {state}", "active", advice)


def _judge(contract: Contract, sink: CommandSink, facts: ControllerFacts) -> Finding:
    subject = f"controller {facts.node}"
    if mismatch := find_mismatch(sink, contract.kind_of(sink), facts):
        return Finding(Level.ERROR, subject, mismatch.found, mismatch.expected, mismatch.advice)
    if sink.interface.names_joints:
        return Finding(Level.OK, subject, f"takes {', '.join(sink.joints)}")
    alias = "" if set(sink.names) == set(facts.joints) else f", from {', '.join(sink.names)}"
    return Finding(Level.OK, subject, f"takes {', '.join(facts.joints)}{alias}")


def _judge_interpolation(facts: ControllerFacts) -> Finding:
    found = "begins each trajectory where its joints are measured"
    advice = (
        "each tick's trajectory replaces the last one: its setpoint falls back in each, and the arm is led "
        "faster than its limits; set it and load the controller anew"
    )
    return Finding(Level.ERROR, f"controller {facts.node}", found, INTERPOLATE, advice)
