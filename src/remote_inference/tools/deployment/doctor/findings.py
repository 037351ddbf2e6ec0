# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The doctor's findings, and the facts on topics and robots' nodes that they are made of."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from enum import Enum

from remote_inference.robot.config import RobotConfig

INDENT = 9 * " "  # of a finding's lines after its first
UNREADABLE = "messages that cannot be read"
SAME_DEFINITION = "its machine knows another definition of the type: install the same version on both"


class Level(str, Enum):
    """The severity of a finding. Only an error makes the exit code 1."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """A finding of the report. expected, advice: empty where all is well."""

    level: Level
    subject: str
    found: str
    expected: str = ""
    advice: str = ""

    def __str__(self) -> str:
        """Return the finding on one line, whatever a robot or server says of itself."""
        return " ".join(f"{self.level.value:8} {self.text}".splitlines())

    def fold(self, columns: int) -> str:
        """Return the finding in lines for a terminal; a longer word is not broken."""
        return textwrap.fill(
            str(self), columns, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False
        )

    @property
    def text(self) -> str:
        """The finding without its level."""
        expected = f", expected {self.expected}" if self.expected else ""
        advice = f"; {self.advice}" if self.advice else ""
        return f"{self.subject}: {self.found}{expected}{advice}"


@dataclass(frozen=True)
class TopicFacts:
    """Facts on one topic, from the graph and from listening for two seconds.

    latched_subscribers: nodes whose subscription accepts only a publisher that keeps its last message.
    joints: of JointState messages, the names in each kind of message.
    missing: joints, or fields of them, that the contract reads and no message has.
    unreadable: messages came that are none of the topic's type, by the definition that is installed here.
    repeats: several messages came, and all with one stamp.
    stamp_age_s: of the last message by this machine's wall clock; NaN for one without a stamp.
    """

    types: tuple[str, ...] = ()
    publishers: tuple[str, ...] = ()
    subscribers: tuple[str, ...] = ()
    latched_subscribers: tuple[str, ...] = ()
    rate_hz: float = math.nan
    joints: tuple[tuple[str, ...], ...] = ()
    missing: tuple[str, ...] = ()
    unreadable: bool = False
    repeats: bool = False
    stamp_age_s: float = math.nan


@dataclass(frozen=True)
class NodeSettings:
    """Parameters of a robot's node that findings depend on; by itself those of a node that is not there."""

    max_sensor_age_s: float = RobotConfig.model_fields["max_sensor_age_s"].default
    use_sim_time: bool = False
