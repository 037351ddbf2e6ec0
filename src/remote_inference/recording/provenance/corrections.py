# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the guard changed between a chunk's row and the command."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.joint_limit import JointLimit
from remote_inference.core.robot.safety.guard import DWELL, JOINT_LIMIT, ROUNDING, VELOCITY_LIMIT
from remote_inference.recording.provenance.motion import Command, Correction
from remote_inference.recording.timeline.answers import Answer, to_robot_row


def find_corrections(
    command: Command, answer: Answer | None, joint_names: Sequence[str], contract: Contract | None
) -> tuple[Correction, ...]:
    """Return the joints whose command differs from the chunk's row, with the rule for each.

    The rows of relative actions are not told from the commands: they say how far, and not where to.

    With a contract, a row beyond a joint's limit is known to have been clamped to it. Without one, the rule
    is known only where the tick names one alone, and the row is in the policy's units. Between two rows, no
    recording holds what the guard was given.
    """
    if answer is None or command.row_fraction or not command.action or command.row >= len(answer.rows):
        return ()
    if contract is not None and contract.actions.is_relative:
        return ()
    given = answer.rows[command.row]
    after = np.array(command.action)
    if len(joint_names) != len(after):
        return ()
    if contract is not None and contract.actions.names == tuple(joint_names):
        row = to_robot_row(given, after, contract)
    else:
        row = given.astype(np.float64)
    if row is None or row.shape != after.shape:
        return ()
    changed = np.flatnonzero(np.abs(after - row) > ROUNDING)
    only = command.interventions[0] if len(command.interventions) == 1 else ""
    found = []
    for place in changed.tolist():
        name, rule = joint_names[place], only
        known = contract is not None and name in contract.actions.names
        limit = contract.actions.limit_of(name) if contract is not None and known else None
        if limit is not None and limit.kind == "switch":
            if DWELL not in command.interventions or not _waited(limit, row[place], after[place]):
                continue
            rule = DWELL
        elif limit is not None:
            is_beyond = abs(np.clip(row[place], limit.min, limit.max) - row[place]) > ROUNDING
            rule = JOINT_LIMIT if is_beyond and JOINT_LIMIT in command.interventions else VELOCITY_LIMIT
        found.append(Correction(name, rule, float(row[place]), float(after[place])))
    return tuple(found)


def _waited(limit: JointLimit, number: float, command: float) -> bool:
    """Return whether a switch is not where a number leads it; its command is never just the number."""
    closes = limit.closes_above is not None and number > limit.closes_above
    opens = limit.opens_below is not None and number < limit.opens_below
    return (closes and command < limit.max - ROUNDING) or (opens and command > limit.min + ROUNDING)
