# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Judges the topics of a contract's stop inputs, takeover and instruction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.operator_inputs import InstructionInput, OperatorInput, StopInput
from remote_inference.core.exchange import in_namespace
from remote_inference.deployment.doctor.findings import (
    SAME_DEFINITION,
    UNREADABLE,
    Finding,
    Level,
    TopicFacts,
)


def judge_inputs(contract: Contract, namespace: str, topics: Mapping[str, TopicFacts]) -> Iterator[Finding]:
    """Judge the stop inputs, the takeover topic and that of instructions, by full name."""
    for place, source in contract.operator_inputs.items():
        name = in_namespace(namespace, source.topic)
        yield _judge(f"{place} {name}", source, topics.get(name, TopicFacts()))


def _judge(subject: str, source: OperatorInput, facts: TopicFacts) -> Finding:
    is_stop = isinstance(source, StopInput)
    # A robot does not resume before it has heard each stop. A person may start the takeover's node later.
    missing = Level.ERROR if is_stop else Level.WARNING
    why = "the robot does not resume before it is heard" if is_stop else "a takeover would run the fallback"
    if isinstance(source, InstructionInput):
        why = "the task stays the contract's"
    if not facts.publishers:
        return Finding(missing, subject, "no publisher", source.type, why)
    if set(facts.types) != {source.type}:
        found, advice = f"published as {', '.join(facts.types)}", "mend the contract's type, or the publisher"
        return Finding(Level.ERROR, subject, found, source.type, advice)
    if facts.unreadable:
        found = f"{UNREADABLE} from {', '.join(facts.publishers)}"
        return Finding(Level.ERROR, subject, found, source.type, SAME_DEFINITION)
    if isinstance(source, InstructionInput):
        return Finding(Level.OK, subject, f"published by {', '.join(facts.publishers)}")
    found = f"{facts.rate_hz:.1f} Hz from {', '.join(facts.publishers)}"
    if source.silent_s is not None and not facts.rate_hz * source.silent_s >= 1.0:
        expected = f"a message every {source.silent_s:g} s"
        return Finding(missing, subject, found, expected, "its silence counts as a stop" if is_stop else why)
    return Finding(Level.OK, subject, found)
