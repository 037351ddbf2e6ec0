# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the engine asks its node to do. Effects are data; carrying them out is the node's part."""

from __future__ import annotations

from dataclasses import dataclass, field

from remote_inference.base.exchange import Request, SessionOffer
from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.safety.state_machine import Transition


class Effect:
    """Something to do for the node."""


@dataclass(frozen=True)
class GetStatus(Effect):
    """Call `<server>/get_status`; answer with `Engine.take_status_reply`."""

    server: str


@dataclass(frozen=True)
class OpenSession(Effect):
    """Call `<server>/open_session`; answer with `Engine.take_session_reply`."""

    server: str
    offer: SessionOffer


@dataclass(frozen=True)
class CloseSession(Effect):
    """Call `<server>/close_session`; nobody waits for the answer."""

    server: str
    session_id: str
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True)
class ResetSession(Effect):
    """Call `<server>/reset_session`; answer with `Engine.take_reset_reply`."""

    server: str
    session_id: str
    episode_id: int
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True)
class ResetEnded(Effect):
    """Report whether the server acknowledged an episode; the robot's own reset is done already."""

    episode_id: int
    acknowledged: bool
    outcome: str


@dataclass(frozen=True)
class SendRequest(Effect):
    """Publish the observation last announced with `Engine.take_sensors`, or `steps` if there are any.

    steps: the samples of the control ticks that a policy of several observation steps sees, oldest first, or
    the one sample of sources that have to fit together.
    """

    request: Request
    steps: tuple[TickSample, ...] = ()


@dataclass(frozen=True)
class Report(Effect):
    """Publish ClientState and log the transition."""

    transition: Transition


@dataclass(frozen=True)
class StopLatched(Effect):
    """Publish ClientState and log that a stop input has stopped the robot."""

    cause: str


@dataclass(frozen=True)
class Warn(Effect):
    """Log a warning. repeats: it may come often, and is then logged fewer and fewer times."""

    text: str
    repeats: bool = True


@dataclass(frozen=True)
class Inform(Effect):
    """Log what is good to know and in order. repeats: as of `Warn`."""

    text: str
    repeats: bool = False


@dataclass(frozen=True)
class Stop(Effect):
    """End the process with a non-zero exit code once `Engine.has_ended`; no action is executed any more."""

    cause: str
