# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds a control tick in a bag: by its number, or as the newest one at an instant."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from remote_inference.bags.provenance.motion import Command
from remote_inference.bags.storage.bag import BagReader, OnProgress, Window, no_progress
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.messages import LATE_NS, name_of, stamped_ns
from remote_inference.bags.timeline.robot_bag import RobotBag
from remote_inference.robot.command import CommandSource

OnMessage = Callable[[str, int, Any], None]  # is called with topic, reception [ns] and message


@dataclass(frozen=True)
class FoundCommand:
    """A command, and what the ticks before it show. damage: what cannot be read of the bag behind it."""

    command: Command
    since_s: float  # begin of the ticks of its source in a row
    before: Command | None  # the last one before it that executed a row of a chunk
    damage: str = ""


def read_command(received_ns: int, message: Any, start_ns: int) -> Command:
    source = int(message.source)
    age_s = float(message.action_age_s)
    return Command(
        tick=int(message.tick),
        t_s=(stamped_ns(received_ns, message) - start_ns) * 1e-9,
        received_ns=received_ns,
        source=name_of(CommandSource, source),
        action=tuple(map(float, message.action)),
        shadow=bool(message.shadow),
        episode_id=int(message.episode_id),
        interventions=tuple(message.interventions),
        session_id=message.session_id if source == CommandSource.CHUNK else "",
        seq_id=int(message.seq_id),
        row=int(message.step_index),
        age_ms=age_s * 1e3 if math.isfinite(age_s) else None,
        policy_version=message.policy_version,
        row_fraction=float(message.row_fraction),
    )


def find_command(
    robot: RobotBag,
    *,
    tick: int | None,
    at_ns: int,
    others: Collection[str] = (),
    on_other: OnMessage = lambda *_: None,
    on_progress: OnProgress = no_progress,
) -> FoundCommand:
    """Return the control tick of a number, or with None the newest one at `at_ns`.

    on_other: is called with the messages of the topics `others` on the way, so that the bag is read once.

    Raises BagError when there is none, or several of the number: a restarted node counts from zero.
    """
    bag, executed = robot.bag, robot.topic("executed")
    window: Window = (None, None if tick is not None else at_ns + LATE_NS)
    found: list[FoundCommand] = []
    newest: Command | None = None
    chunked: Command | None = None
    first_s, since_s, damage = math.inf, 0.0, ""
    try:
        for topic, received_ns, message in bag.messages([executed, *others], window, on_progress):
            if topic != executed:
                on_other(topic, received_ns, message)
                continue
            command = read_command(received_ns, message, bag.start_ns)
            first_s = min(first_s, command.t_s)
            if tick is None and command.t_s > bag.seconds(at_ns):
                continue
            if newest is None or command.source != newest.source or command.tick <= newest.tick:
                since_s = command.t_s
            newest = command
            if command.tick == tick or (tick is None and not found):
                found.append(FoundCommand(command, since_s, chunked))
            elif tick is None:
                found[0] = FoundCommand(command, since_s, chunked)
            chunked = command if command.request else chunked
    except BagError as error:
        if not found:
            raise
        damage = str(error)
    if not found:
        raise _not_found(bag, tick, at_ns, first_s, newest)
    if len(found) > 1:
        times = ", ".join(f"{one.command.t_s:.3f}" for one in found)
        raise BagError(
            f"{bag.path}: --command: found control tick {tick} of several runs of the node, at {times} s, "
            "expected one: name it by --at"
        )
    return replace(found[0], damage=damage)


def _not_found(
    bag: BagReader, tick: int | None, at_ns: int, first_s: float, newest: Command | None
) -> BagError:
    if math.isinf(first_s) and tick is None and at_ns + LATE_NS < bag.start_ns:
        return BagError(
            f"{bag.path}: --at: found {-bag.seconds(at_ns):.3f} s before the bag, expected a time in it"
        )
    if math.isinf(first_s):
        return BagError(f"{bag.path}: found no control tick in the bag, expected one to explain")
    if tick is None:
        return BagError(
            f"{bag.path}: --at: found no control tick by {bag.seconds(at_ns):.3f} s, "
            f"expected {first_s:.3f} s or later"
        )
    last = newest.tick if newest else 0
    return BagError(f"{bag.path}: --command: found no control tick {tick}; the bag's last one is {last}")
