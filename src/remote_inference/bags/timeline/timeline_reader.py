# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads one robot's timeline from a bag: the messages of its topics become rows of arrays."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from remote_inference.bags.storage.bag import BagReader, OnProgress, no_progress
from remote_inference.bags.storage.bag_records import CLOCK, BagError
from remote_inference.bags.timeline.robot_bag import (
    JointColumns,
    RecordReader,
    RobotBag,
    find_joints,
    open_robot,
)
from remote_inference.bags.timeline.timeline import (
    INT64_MAX,
    ClampColumns,
    ClockJump,
    ExecutedColumns,
    RequestColumns,
    StateColumns,
    Timeline,
    WatchdogStops,
)
from remote_inference.base.contract.contract import Contract
from remote_inference.base.policy import Float32Array

LONGEST_WAIT_S = 1.0  # that is kept of a time without commands


@dataclass(frozen=True)
class RecordedRows:
    """The commands of a run."""

    rows: Float32Array  # [rows, action_dim]
    held: int  # rows in which nothing was commanded, or whose message was lost: the row before again
    left_out: int  # ticks of long times without commands


def read_commands(robot: RobotBag, on_progress: OnProgress = no_progress) -> RecordedRows:
    """Read what was commanded: by the policy, a person or the node itself.

    A tick without a command repeats the one before, which the controller held; of a longer time than
    LONGEST_WAIT_S the rest is left out. Raises BagError for a damaged bag, one without a contract or of other
    joints, and one in which nothing was commanded.
    """
    contract, path = robot.require_contract(), robot.bag.path
    names, longest_wait = contract.actions.names, round(LONGEST_WAIT_S * contract.fps)  # in ticks
    actions, ticks = array("f"), array("q")
    for _, _, message in robot.bag.messages([robot.topic("executed")], on_progress=on_progress):
        if len(message.action) and not message.shadow:
            actions.frombytes(_read_action(message, names, path).tobytes())
            ticks.append(min(int(message.tick), INT64_MAX))
    if not ticks:
        raise BagError(f"{path}: found no executed action, expected commands to repeat")
    silent = np.maximum(np.diff(np.array(ticks)) - 1, 0)  # behind each but the last; a restart falls back
    kept = np.minimum(silent, longest_wait)
    rows = np.array(actions, np.float32).reshape(-1, len(names))
    repeated = np.repeat(rows, np.append(kept, 0) + 1, axis=0)
    return RecordedRows(repeated, int(kept.sum()), int((silent - kept).sum()))


def _read_action(message: Any, expected: tuple[str, ...], path: Path) -> Float32Array:
    """Return what a tick commanded. Raises BagError for other joints, and for what is not finite."""
    with np.errstate(over="ignore"):  # beyond float32 is not finite, and refused
        names, action = tuple(message.joint_names), np.asarray(message.action, np.float32)
    if names != expected or len(action) != len(names):
        found = f"{path}: the executed actions are not the contract's: found {', '.join(names)}"
        raise BagError(f"{found}, expected {', '.join(expected)}")
    if not np.isfinite(action).all():
        raise BagError(f"{path}: tick {message.tick}: found {action.tolist()}, expected finite")
    return action


def load_timeline(
    bag_path: Path,
    robot_namespace: str | None = None,
    contract: Contract | None = None,
    *,
    on_progress: OnProgress = no_progress,
) -> Timeline:
    """Read the topics of one robot from a bag. robot_namespace, contract: as of RobotBag.

    Raises BagError when the bag cannot be read, one of the package's topics is not in it, or the contract is
    for other actions; DocumentError when the recorded contract is damaged.
    """
    with open_robot(bag_path, robot_namespace, contract) as robot:
        bag, contract = robot.bag, robot.contract
        executed = ExecutedColumns(bag.path, contract.actions.names if contract else ())
        states, requests = StateColumns(), RequestColumns()
        watchdog, clamps = WatchdogStops(), ClampColumns(contract)
        joints = {topic: JointColumns() for topic in robot.joint_topics()}
        records = RecordReader(robot)
        columns: dict[str, tuple[Callable[[float, Any], None], ...]] = {
            robot.topic("executed"): (executed.append, clamps.append_executed),
            robot.topic("state"): (states.append,),
            robot.topic("observation"): (requests.append_request,),
            robot.topic("chunk"): (requests.append_chunk, clamps.append_chunk),
            **dict.fromkeys(robot.topics("watchdog"), (watchdog.append,)),  # a robot may have none
        }
        for topic, stamp_ns, message in bag.messages([*columns, *joints], on_progress=on_progress):
            t_s = bag.seconds(stamp_ns)
            if topic in columns:
                for append in columns[topic]:
                    append(t_s, message)
            else:
                joints[topic].add(records.read(topic, t_s, message))
        ticks = executed.finish()
        return Timeline(
            namespace=robot.namespace or "/",
            duration_s=bag.seconds(bag.end_ns),
            executed=ticks,
            joints=find_joints(executed.names, joints, (ticks.t_s, ticks.action), robot),
            states=states.finish(),
            requests=requests.finish(),
            clock_jumps=_find_clock_jumps(bag),
            watchdog_stops=watchdog.finish(),
            clamps=clamps.finish(),
        )


def _find_clock_jumps(bag: BagReader) -> tuple[ClockJump, ...]:
    """Return when the recorder's wall clock was set. `verify` reports what of it cannot be read."""
    jumps = []
    with suppress(BagError, KeyError, ValueError):
        for name, values in bag.records():
            if name == CLOCK:
                jumps.append(ClockJump(bag.seconds(int(values["at_ns"])), float(values["jump_s"])))
    return tuple(jumps)
