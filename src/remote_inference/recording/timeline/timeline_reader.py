# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads one robot's timeline from a bag: the messages of its topics become rows of arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from remote_inference.core.contract.contract import Contract, parse_contract
from remote_inference.core.robot.safety.state_machine import State
from remote_inference.recording.bags.bag import BagReader, open_bag
from remote_inference.recording.bags.bag_error import BagError
from remote_inference.recording.timeline.images import (
    ObservedImage,
    camera_topics,
    make_frames,
    observed_images,
    recorded_images,
)
from remote_inference.recording.timeline.joints import (
    EXECUTED_SUFFIX,
    FloatArray,
    JointRecord,
    find_joints,
    joint_topics,
    names_by_joint,
    robots,
)
from remote_inference.recording.timeline.timeline import (
    Chunks,
    Cycles,
    Executed,
    IntArray,
    Requests,
    States,
    Timeline,
)

INT64_MAX = 2**63 - 1


def load_timeline(
    bag_path: Path,
    robot_namespace: str | None = None,
    contract: Contract | None = None,
    *,
    with_frames: bool = True,
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
        own = {
            kind: f"{ns}/remote_inference/{kind}" for kind in ("executed", "state", "observation", "chunk")
        }
        measuring = joint_topics(bag.topics, ns, contract)
        names_here = names_by_joint(ns, contract)
        videos = camera_topics(bag.topics, ns) if with_frames else []
        messages: dict[str, list[tuple[float, Any]]] = defaultdict(list)
        records: dict[str, list[JointRecord]] = defaultdict(list)
        images: list[ObservedImage] = []
        for topic, stamp_ns, message in bag.messages([*own.values(), *measuring, *videos]):
            t_s = (stamp_ns - bag.start_ns) * 1e-9
            if topic in measuring:
                records[topic].append(JointRecord.of(t_s, message, contract, names_here.get(topic, {})))
            elif topic in videos:
                images += recorded_images(t_s, message)
            else:
                if topic == own["observation"]:
                    images += observed_images(t_s, message) if with_frames else ()
                    message.images = message.raw_images = []  # most of the message's memory
                messages[topic].append((t_s, message))
        duration_s = (bag.end_ns - bag.start_ns) * 1e-9
    names = _action_names(messages[own["executed"]], contract, bag_path)
    executed = _executed(messages[own["executed"]], names)
    chunks = _chunks(messages[own["chunk"]])
    requests, cycles = _match(messages[own["observation"]], chunks)
    return Timeline(
        namespace=ns or "/",
        duration_s=duration_s,
        executed=executed,
        joints=find_joints(names, records, executed.action, ns, contract),
        states=_states(messages[own["state"]]),
        requests=requests,
        chunks=chunks,
        cycles=cycles,
        frames=make_frames(images, executed.t_s, executed.episode_id),
    )


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


def _action_names(
    rows: Sequence[tuple[float, Any]], contract: Contract | None, bag_path: Path
) -> tuple[str, ...]:
    names: tuple[str, ...] = next((tuple(m.joint_names) for _, m in rows if len(m.joint_names)), ())
    if contract is None:
        return names
    expected = contract.actions.names
    if names and names != expected:
        raise BagError(
            f"{bag_path}: the executed actions are not the contract's: found {', '.join(names)}, "
            f"expected {', '.join(expected)}"
        )
    return expected


def _floats(values: Any) -> FloatArray:
    return np.array(list(values), np.float64)


def _ints(values: Any) -> IntArray:
    return np.array([min(value, INT64_MAX) for value in values], np.int64)  # higher only if damaged


def _keys(rows: Sequence[tuple[float, Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((m.session_id, int(m.seq_id)) for _, m in rows)


def _executed(rows: list[tuple[float, Any]], names: Sequence[str]) -> Executed:
    action = np.full((len(rows), len(names)), np.nan)
    for i, (_, m) in enumerate(rows):
        if len(m.action):
            action[i] = m.action
    return Executed(
        t_s=_floats(t for t, _ in rows),
        tick=_ints(m.tick for _, m in rows),
        action=action,
        source=_ints(m.source for _, m in rows),
        request=_keys(rows),
        step_index=_ints(m.step_index for _, m in rows),
        age_s=_floats(m.action_age_s for _, m in rows),
        episode_id=_ints(m.episode_id for _, m in rows),
        interventions=tuple(tuple(m.interventions) for _, m in rows),
        shadow=np.array([getattr(m, "shadow", False) for _, m in rows], bool),  # older bags lack it
    )


def _states(rows: list[tuple[float, Any]]) -> States:
    seen = [(m.state, m.paused) for _, m in rows]
    changes = [row for i, row in enumerate(rows) if i == 0 or seen[i] != seen[i - 1]]
    names = (
        "requests",
        "chunks_merged",
        "chunks_dropped",
        "chunks_rejected",
        "request_timeouts",
        "reconnects",
    )
    counters = {}
    for name in names:
        counts = _ints(getattr(m, name) for _, m in rows)
        ends_of_lives = np.append(np.diff(counts) < 0, True)[
            : len(counts)
        ]  # a restarted node counts from zero
        counters[name] = sum(counts[ends_of_lives].tolist())
    return States(
        t_s=_floats(t for t, _ in changes),
        state=tuple(State(m.state).name for _, m in changes),
        cause=tuple(m.cause for _, m in changes),
        paused=np.array([m.paused for _, m in changes], bool),
        counters=counters,
        guard_rises=_guard_rises(rows),
    )


def _guard_rises(rows: list[tuple[float, Any]]) -> dict[str, FloatArray]:
    """Return the times [s] by rule. The first message's counts are from before the bag."""
    rises: dict[str, list[float]] = defaultdict(list)
    before: dict[str, int] | None = None
    for t_s, m in rows:
        counts = {name: int(n) for name, n in zip(m.guard_names, m.guard_counts, strict=False)}
        for name, count in counts.items():
            if before is not None and count > before.get(name, 0):
                rises[name].append(t_s)
        before = counts
    return {name: _floats(times) for name, times in rises.items()}


def _chunks(rows: list[tuple[float, Any]]) -> Chunks:
    return Chunks(
        t_s=_floats(t for t, _ in rows),
        request=_keys(rows),
        status=_ints(m.status for _, m in rows),
        queue_wait_ms=_floats(m.queue_wait_ms for _, m in rows),
        inference_ms=_floats(m.inference_ms for _, m in rows),
    )


def _match(observations: list[tuple[float, Any]], chunks: Chunks) -> tuple[Requests, Cycles]:
    keys = _keys(observations)
    t_s = _floats(t for t, _ in observations)
    answer: dict[tuple[str, int], int] = {}
    for i, key in enumerate(chunks.request):
        answer.setdefault(key, i)
    answered = np.array([key in answer for key in keys], bool)
    by = _ints(answer[key] for key in keys if key in answer)
    delay_steps = _ints(m.inference_delay_steps for _, m in observations)
    cycles = Cycles(
        t_s=t_s[answered],
        latency_ms=(chunks.t_s[by] - t_s[answered]) * 1e3,
        queue_wait_ms=chunks.queue_wait_ms[by],
        inference_ms=chunks.inference_ms[by],
    )
    return Requests(t_s, keys, delay_steps, answered), cycles
