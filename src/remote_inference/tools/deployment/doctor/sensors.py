# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Judges a robot's sensors: those of a contract, and without one those that its node waits for."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from remote_inference.base import fast_dds
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.image_source import IMAGE
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.exchange import in_namespace
from remote_inference.base.paths import share_path
from remote_inference.tools.deployment.doctor.doctor import (
    SAME_DEFINITION,
    UNREADABLE,
    Fault,
    Finding,
    Fine,
    Level,
    NodeSettings,
    TopicFacts,
    Warn,
)

STAMP_TOLERANCE_S = 2.0  # between a stamp and this machine's clock: a driver and the network take some of it
START_DRIVER = "start its driver, or mend its topic"
MEND_TYPE = "mend the contract's type, or the driver"
LOOK_AT_DRIVER = "look whether the driver hangs, and whether the network carries its messages"
DEAD_LINK = "the link between the two is dead: run both with session.json5, or restart the robot's node"
REPEATS = "messages with one and the same stamp"
ADVANCING = "stamps that advance, or none"
MEND_STAMPS = "the node takes each message for the one before: restart the driver, or mend its stamps"
LOSSES = "never sent, or lost on the way: look for a busy machine or link, and send smaller images or JPEG"
MOST_ARRIVE = 0.85  # of what is sent, where nothing is lost: both rates are measured
HEAD_BYTES = 12  # of a message as it is sent, with its stamp at the end where it begins with a header
LEAST_GAPS = 10  # between stamps, before they say a rate
MOST_LOST = 3.0  # times the shortest gap is the mean one where messages are lost, and none come in bursts
REGULAR = 0.25  # of the shortest gap: so near to a multiple of it gaps are where messages are lost


def find_sent_hz(heads: Sequence[bytes]) -> float:
    """Return the rate at which messages with a header were made, by the gaps between their stamps.

    NaN where the gaps are few, or no multiples of the shortest. heads: the first HEAD_BYTES of each message.
    """
    whole = (head for head in heads if len(head) == HEAD_BYTES)
    stamps = (struct.unpack_from("<iI" if head[1] & 1 else ">iI", head, 4) for head in whole)
    gaps_s = np.diff([seconds + nanoseconds / 1e9 for seconds, nanoseconds in stamps])
    gaps_s = gaps_s[gaps_s > 0.0]
    if len(gaps_s) < LEAST_GAPS:
        return math.nan
    gap_s = np.quantile(gaps_s, 0.1)  # most may be longer, where most messages are lost
    multiples = gaps_s / gap_s
    is_regular = np.mean(np.abs(multiples - np.rint(multiples)) < REGULAR) > MOST_ARRIVE
    return float(1.0 / gap_s) if is_regular and np.mean(multiples) < MOST_LOST else math.nan


def advise_on_losses(middleware: str) -> str:
    """Return what to do where fewer messages arrive than were sent. middleware: the name of its package."""
    if "fastrtps" not in middleware:
        return LOSSES
    profile = f"{fast_dds.profile_variable()}={share_path('config', 'fastdds.xml')}"
    return (
        "never sent, or lost on the way, as raw images are too large for Fast DDS's own shared memory: "
        f"export {profile} in this shell, ask again, and if it stays so in the driver's"
    )


def find_unused_topics(contract: Contract, servers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cameras' topics that no accepting server's policy uses; none while no server accepts."""
    statuses = [status for status in servers.values() if status is not None and status.accepting]
    if not statuses:
        return ()
    used = {feature for status in statuses for feature in status.image_features}
    return tuple(topic for feature, topic in contract.camera_topics.items() if feature not in used)


def judge_sensors(
    contract: Contract,
    namespace: str,
    topics: Mapping[str, TopicFacts],
    settings: NodeSettings,
    *,
    unused: Collection[str] = (),
    stale: Collection[str] = (),
    lost: Collection[str] = (),
    simulated: bool = False,
    losses: str = LOSSES,
) -> Iterator[Finding]:
    """Judge the sensors of a contract. topics: by full name.

    unused: cameras that robots leave out. stale: what the robot's node says is. lost: publishers that it
    finds no more, as `topic: node`. simulated: somebody publishes /clock, and stamps may be its. losses: what
    to do where messages are lost.
    """
    cameras = {image.topic for image in contract.images.values()}
    for topic, kind in contract.sensor_types.items():
        name = in_namespace(namespace, topic)
        if topic in unused:
            yield Fine(f"sensor {name}", "no server's policy uses it")
            continue
        # A camera may be slower than control: a request takes its newest image, and how old that may be is
        # the node's to say. The joints are what each control tick begins from.
        rate_hz = 0.0 if topic in cameras else contract.row_fps
        sensor = _Sensor(f"sensor {name}", kind, rate_hz, settings.max_sensor_age_s, simulated)
        if topic in cameras:
            sensor = replace(sensor, losses=losses if kind == IMAGE else LOSSES)
        facts = topics.get(name, TopicFacts())
        finding = sensor.judge(facts)
        if finding.level is Level.OK and topic in stale:  # the node receives it, and cannot use it
            finding = _judge_stale(sensor.subject, facts, _lost_of(topic, lost))
        yield finding


@dataclass(frozen=True)
class _Sensor:
    """What is expected of a sensor of the contract. rate_hz: a lower one is a warning."""

    subject: str
    kind: str
    rate_hz: float
    max_age_s: float
    simulated: bool
    losses: str = ""  # what to do where stamps say that some are missing; empty: they say nothing

    def judge(self, facts: TopicFacts) -> Finding:
        return self._judge_content(facts) or self._judge_rate(facts) or self._judge_stamps(facts)

    def _judge_content(self, facts: TopicFacts) -> Finding | None:
        """Return why the node can use no message, None when it can."""
        if not facts.publishers:
            return Fault(self.subject, "no publisher", self.kind, START_DRIVER)
        if set(facts.types) != {self.kind}:
            return Fault(self.subject, f"published as {facts.kinds}", self.kind, MEND_TYPE)
        who = f"from {facts.who}"
        if not facts.rate_hz > 0.0:
            return Fault(self.subject, f"no message {who}", self.kind, LOOK_AT_DRIVER)
        if facts.unreadable:
            return Fault(self.subject, f"{UNREADABLE} {who}", self.kind, SAME_DEFINITION)
        if facts.missing:
            names = ", ".join(_all_names(facts)) or "no joint"
            found = f"no message {who} has {', '.join(facts.missing)}, they have {names}"
            advice = "mend the names in the contract, prefix included, or start the driver of what is missing"
            return Fault(self.subject, found, "every joint that the contract reads", advice)
        if facts.repeats:
            return Fault(self.subject, f"{REPEATS} {who}", ADVANCING, MEND_STAMPS)
        return None

    def _judge_rate(self, facts: TopicFacts) -> Finding | None:
        if facts.rate_hz * self.max_age_s < 1.0:
            expected = f"{1.0 / self.max_age_s:g} Hz or faster, max_sensor_age_s is {self.max_age_s:g}"
            advice = "too old for a request most of the time: a faster driver, or a larger max_sensor_age_s"
            return Fault(self.subject, facts.rate, expected, advice)
        names = [name for names in facts.joints for name in names]
        # Several drivers may publish joints of their own on one topic, which the node merges.
        is_shared = len(facts.joints) > 1 and len(names) == len(set(names))
        if len(facts.publishers) > 1 and not is_shared:
            return Warn(self.subject, facts.rate, "one publisher", "their messages alternate")
        if self.losses and not self.simulated and facts.rate_hz < MOST_ARRIVE * facts.sent_hz:
            return Warn(self.subject, facts.rate, f"{facts.sent_hz:.1f} Hz, by its stamps", self.losses)
        if facts.rate_hz < 0.9 * self.rate_hz:
            expected = f"{self.kind} at {self.rate_hz:g} Hz or faster"
            return Warn(self.subject, facts.rate, expected, "requests wait for new messages")
        return None

    def _judge_stamps(self, facts: TopicFacts) -> Finding:
        if self.simulated or not abs(facts.stamp_age_s) > STAMP_TOLERANCE_S:
            return Fine(self.subject, facts.rate)
        side = "behind" if facts.stamp_age_s > 0.0 else "ahead of"
        found = f"stamps are {abs(facts.stamp_age_s):.0f} s {side} this machine's clock"
        advice = (
            "synchronise the clocks of the driver's machine and this one, or have the driver stamp with wall "
            "time: bags and reports go by stamps"
        )
        expected = f"less than {STAMP_TOLERANCE_S:g} s between them"
        return Warn(self.subject, found, expected, advice)


def judge_stale(
    namespace: str, stale: Collection[str], topics: Mapping[str, TopicFacts], lost: Collection[str] = ()
) -> Iterator[Finding]:
    """Judge the sensors that a robot's node says are stale, without knowing its contract.

    lost: their publishers that the node finds no more, as `topic: node`.
    """
    for topic in stale:
        name = in_namespace(namespace, topic)
        yield _judge_stale(f"sensor {name}", topics.get(name, TopicFacts()), _lost_of(topic, lost))


def _lost_of(topic: str, lost: Collection[str]) -> frozenset[str]:
    pairs = (publisher.split(": ", 1) for publisher in lost)
    return frozenset(node for source, node in pairs if source == topic)


def _judge_stale(subject: str, facts: TopicFacts, lost: frozenset[str]) -> Finding:
    stale = "the node has no fresh message"
    if not facts.publishers:
        return Fault(subject, f"{stale}: no publisher", "fresh ones", START_DRIVER)
    who = f"from {facts.who}"
    if len(facts.types) > 1:
        return Fault(subject, f"{stale}: known as {facts.kinds}", "one type", MEND_TYPE)
    if not facts.rate_hz > 0.0:
        return Fault(subject, f"{stale}: none {who}", "fresh ones", LOOK_AT_DRIVER)
    if apart := sorted(lost.intersection(facts.publishers)):  # the node finds them no more, and this one does
        found = f"{stale}, and has lost {', '.join(apart)}: {facts.rate} here"
        return Fault(subject, found, "a link between them", DEAD_LINK)
    if facts.unreadable:
        return Fault(subject, f"{stale}: {UNREADABLE} {who}", facts.kinds, SAME_DEFINITION)
    if facts.repeats:
        return Fault(subject, f"{stale}: {REPEATS} {who}", ADVANCING, MEND_STAMPS)
    found = f"{stale}: {facts.rate} as {facts.kinds}"
    if facts.types == (JOINT_STATE,):
        found += f" with the joints {', '.join(_all_names(facts))}"
        advice = "look for one that is missing here, or at the node's log"
        return Fault(subject, found, "the contract's joints, prefix included", advice)
    advice = "the node's log says why it takes none"
    return Fault(subject, found, "the contract's type, at a steady rate", advice)


def _all_names(facts: TopicFacts) -> list[str]:
    return sorted({name for names in facts.joints for name in names})
