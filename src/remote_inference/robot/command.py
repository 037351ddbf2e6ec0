# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a command is made of, for all who make or check one: its arrays, and where it comes from."""

from __future__ import annotations

from enum import IntEnum
from typing import cast

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

FALLBACKS_FROM = 100  # up to MAX_SOURCE: sources that fallbacks say for themselves
MAX_SOURCE = 255  # of the message's uint8
OWN_SOURCE = "FALLBACK_"  # such a source's name begins so


class CommandSource(IntEnum):
    """The values are those of ExecutedAction.msg; `CommandSource(100)` is a fallback's own."""

    NONE = 0
    CHUNK = 1
    REPEAT_LAST = 2
    ZERO = 3  # the stop of velocities and efforts; all others beside them get nothing
    HOMING = 4
    HOLD = 5  # ends the horizon that trajectory controllers execute, where the arm is
    HUMAN = 6  # a person's command, after a takeover

    @classmethod
    def _missing_(cls, value: object) -> CommandSource | None:
        """Return the source of a fallback that says its own; such a source is no member to iterate over."""
        if not isinstance(value, int) or not FALLBACKS_FROM <= value <= MAX_SOURCE:
            return None
        own = int.__new__(cls, value)
        own._name_, own._value_ = f"{OWN_SOURCE}{value}", int(value)
        return cast("CommandSource", cls._value2member_map_.setdefault(value, own))
