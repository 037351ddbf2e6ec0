# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads one robot's timeline from a bag: the messages of its topics become rows of arrays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from remote_inference.core.contract.contract import Contract, parse_contract
from remote_inference.recording.bags.bag import BagReader, open_bag
from remote_inference.recording.bags.bag_error import BagError
from remote_inference.recording.bags.bag_records import CLOCK
from remote_inference.recording.timeline.clamps import ClampColumns
from remote_inference.recording.timeline.columns import (
    CycleColumns,
    ExecutedColumns,
    Kept,
    StateColumns,
    WatchdogStops,
)
from remote_inference.recording.timeline.images import (
    ObservedImage,
    camera_topics,
    make_frames,
    observed_images,
    recorded_images,
)
from remote_inference.recording.timeline.joint_records import (
    EXECUTED_SUFFIX,
    JointColumns,
    RecordReader,
    joint_topics,
    robots,
)
from remote_inference.recording.timeline.joints import find_joints
from remote_inference.recording.timeline.timeline import ClockJump, Timeline

OWN = ("executed", "state", "observation", "chunk")
WATCHDOG = "watchdog"  # a robot may have none
Tell = Callable[[float], None]  # takes the share of the bag that is read


def load_timeline(
    bag_path: Path,
    robot_namespace: str | None = None,
    contract: Contract | None = None,
    *,
    with_frames: bool = True,
    tell: Tell = lambda _: None,
) -> Timeline:
    """Read the topics of one robot from a bag.

    robot_namespace: absolute as in "/arm"; None: that of the only robot in the bag. contract: the robot's;
    None: the recorded one, if there is one. with_frames: False leaves the images out, which take most memory.

    Raises BagError when the bag cannot be read, one of the package's topics is not in it, or the contract is
    for other actions; DocumentError when the recorded contract is damaged.
    """
    with open_bag(bag_path) as bag:
        ns = find_namespace(bag, robot_namespace)
        if contract is None and bag.contract:
            contract = parse_contract(bag.contract, f"{bag_path}: recorded contract")
        return _Reader(bag, ns, contract, with_frames=with_frames).read(tell)


class _Reader:
    """Hands each message to the columns of its topic."""

    def __init__(self, bag: BagReader, ns: str, contract: Contract | None, *, with_frames: bool) -> None:
        keys = Kept()
        self._bag, self._ns, self._contract = bag, ns, contract
        self._executed = ExecutedColumns(keys, bag.path, contract.actions.names if contract else ())
        self._states, self._cycles = StateColumns(), CycleColumns(keys)
        self._watchdog, self._clamps = WatchdogStops(), ClampColumns(contract)
        self._joints = {topic: JointColumns() for topic in joint_topics(bag.topics, ns, contract)}
        self._records = RecordReader(ns, contract)
        self._videos = camera_topics(bag.topics, ns) if with_frames else []
        self._with_frames = with_frames
        self._images: list[ObservedImage] = []
        take = (self._take_executed, self._states.take, self._take_request, self._take_chunk)
        self._take_own = dict(zip((f"{ns}/remote_inference/{kind}" for kind in OWN), take, strict=True))
        if (watchdog := f"{ns}/remote_inference/{WATCHDOG}") in bag.topics:
            self._take_own[watchdog] = self._watchdog.take

    def read(self, tell: Tell) -> Timeline:
        bag = self._bag
        for topic, stamp_ns, message in bag.messages([*self._take_own, *self._joints, *self._videos]):
            tell(bag.share(stamp_ns))
            with bag.expecting(topic):
                self._take(topic, (stamp_ns - bag.start_ns) * 1e-9, message)
        executed = self._executed.finish()
        requests, chunks, cycles = self._cycles.finish()
        joints = find_joints(
            self._executed.names,
            self._joints,
            (executed.t_s, executed.action),
            self._ns,
            self._contract,
        )
        return Timeline(
            namespace=self._ns or "/",
            duration_s=(bag.end_ns - bag.start_ns) * 1e-9,
            executed=executed,
            joints=joints,
            states=self._states.finish(),
            requests=requests,
            chunks=chunks,
            cycles=cycles,
            frames=make_frames(self._images, executed.t_s, executed.episode_id),
            clock_jumps=_find_clock_jumps(bag),
            watchdog_stops=self._watchdog.finish(),
            clamps=self._clamps.finish(),
        )

    def _take(self, topic: str, t_s: float, message: Any) -> None:
        if topic in self._take_own:
            self._take_own[topic](t_s, message)
        elif topic in self._joints:
            self._joints[topic].add(self._records.read(topic, t_s, message))
        else:
            self._images += recorded_images(t_s, message)

    def _take_executed(self, t_s: float, message: Any) -> None:
        self._executed.take(t_s, message)
        self._clamps.take_executed(message)

    def _take_chunk(self, t_s: float, message: Any) -> None:
        self._cycles.take_chunk(t_s, message)
        self._clamps.take_chunk(self._bag.start_ns + round(t_s * 1e9), message)

    def _take_request(self, t_s: float, message: Any) -> None:
        if self._with_frames:
            self._images += observed_images(t_s, message)
        self._cycles.take_request(t_s, message)


def _find_clock_jumps(bag: BagReader) -> tuple[ClockJump, ...]:
    """Return when the recorder's wall clock was set. What of it cannot be read, `verify` tells."""
    jumps = []
    with suppress(BagError, KeyError, ValueError):
        for name, values in bag.records():
            if name == CLOCK:
                at_s = (int(values["at_ns"]) - bag.start_ns) * 1e-9
                jumps.append(ClockJump(at_s, float(values["jump_s"])))
    return tuple(jumps)


def find_namespace(bag: BagReader, wanted: str | None) -> str:
    """Return the robot's namespace without a slash at its end, "" for the root.

    Raises BagError when there is no such robot, or several and none is wanted.
    """
    present = robots(bag.topics)
    listed = ", ".join(name or "/" for name in present) or "none"
    if wanted is None:
        if not present:
            expected = f"expected a topic *{EXECUTED_SUFFIX}, without which no command is known"
            raise BagError(f"{bag.path}: no robot in the bag, {expected}")
        if len(present) > 1:
            raise BagError(f"{bag.path}: several robots in the bag, name one: {listed} (--namespace)")
        return present[0]
    ns = "/" + wanted.strip("/") if wanted.strip("/") else ""
    if ns not in present:
        raise BagError(
            f"{bag.path}: topic {ns}{EXECUTED_SUFFIX} is not in the bag: no robot {ns or '/'} in the bag, "
            f"which holds {listed}"
        )
    return ns
