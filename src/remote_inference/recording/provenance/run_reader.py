# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads a run, or a part of one, for provenance: what was commanded, and all that it came from.

A bag is read once from begin to end. Images and chunks are not kept whole: of an image its facts, of a chunk
its rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.image_encodings import RAW, find_encoding
from remote_inference.core.policy import fingerprint_of
from remote_inference.recording.bags.bag import BagReader, Window
from remote_inference.recording.bags.bag_error import BagError, StrangeMessageError
from remote_inference.recording.bags.bag_records import POLICY
from remote_inference.recording.provenance.journal_times import JournalTimes
from remote_inference.recording.provenance.motion import (
    Command,
    Policy,
    Request,
    SeenImage,
    Standing,
    WatchdogChange,
)
from remote_inference.recording.provenance.reasons import find_at
from remote_inference.recording.provenance.recorded_command import Tell, read_command
from remote_inference.recording.timeline.answers import Answer, RequestKey, request_key, stamped_ns
from remote_inference.recording.timeline.recorded_names import state_name, watchdog_name
from remote_inference.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.wire.images.images import ImageError

OWN = "remote_inference"
# Topics of a robot, and what cannot be told without each.
TOPICS: Mapping[str, str] = {
    "executed": "no command can be explained",
    "observation": "the request, its images and what the policy saw are not known",
    "chunk": "the chunk, its latency and what the guard changed are not known",
    "state": "the node's state and its causes are not known",
    "decisions": "when each sensor's message had arrived is not known",
}
SERVER_STATUS = "remote_inference/msg/ServerStatus"
WATCHDOG = "watchdog"  # a robot may have none

Served = tuple[str, str]  # fingerprint of a policy, and its server
TakePictures = Callable[[Request, Sequence[Any]], None]  # the images' messages, in the request's order
TakeCommand = Callable[[Command], None]


@dataclass
class RowsExecuted:
    """Rows of a chunk that were executed."""

    first: int
    last: int
    count: int = 1

    def take(self, row: int) -> None:
        self.first, self.last = min(self.first, row), max(self.last, row)
        self.count += 1


@dataclass
class Run:
    """What was read."""

    joint_names: tuple[str, ...] = ()
    rows: dict[RequestKey, RowsExecuted] = field(default_factory=dict)
    requests: dict[RequestKey, Request] = field(default_factory=dict)
    answers: dict[RequestKey, Answer] = field(default_factory=dict)
    standings: list[Standing] = field(default_factory=list)
    watchdog: list[WatchdogChange] = field(default_factory=list)
    policies: dict[Served, Policy] = field(default_factory=dict)
    times: JournalTimes = field(default_factory=JournalTimes)
    missing: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)

    def policy_of(self, command: Command) -> Policy | None:
        """Return the policy of a command, that of the server of then where several have its weights."""
        served = self.served(command)
        if not served[0]:
            return None
        same = (policy for policy in self.policies.values() if policy.fingerprint == served[0])
        return self.policies.get(served) or next(same, None)

    def served(self, command: Command) -> Served:
        """Return which policy a command names, and the node's server of then."""
        standing = find_at(self.standings, command.t_s)
        return fingerprint_of(command.policy_version), standing.server if standing else ""


class RunReader:
    """Reads a robot's part of a bag. namespace: without a slash at its end."""

    def __init__(self, bag: BagReader, namespace: str, contract: Contract | None) -> None:
        self._bag = bag
        self._topics = {f"{namespace}/{OWN}/{kind}": kind for kind in (*TOPICS, WATCHDOG)}
        cameras = contract.images if contract else {}
        # As a request has them: encoded images, then raw ones.
        self._cameras = tuple(sorted(cameras, key=lambda name: cameras[name].travels_as == RAW))
        self._state_units = contract.state_units if contract else None
        self._strange: set[str] = set()  # topics whose messages cannot be understood
        self.run = Run(missing=self._find_missing())

    def _find_missing(self) -> list[str]:
        absent = [topic for topic in self._topics if topic not in self._bag.topics]
        return [
            f"{topic} is not in the bag: {TOPICS[self._topics[topic]]}"
            for topic in absent
            if self._topics[topic] != WATCHDOG
        ]

    def read(
        self,
        kinds: Sequence[str] = (*TOPICS, WATCHDOG),
        window: Window = (None, None),
        *,
        take_command: TakeCommand | None = None,
        take_pictures: TakePictures | None = None,
        take_other: Callable[[str, int, bytes], None] | None = None,
        others: Sequence[str] = (),
        tell: Tell = lambda _: None,
    ) -> None:
        """Add what the messages of some kinds say. take_other: is handed the messages of other topics.

        Damage of the bag ends the reading, and is among what is missing.
        """
        wanted = [t for t, kind in self._topics.items() if kind in kinds and t in self._bag.topics]
        if not wanted:
            return
        try:
            for topic, received_ns, cdr in self._bag.raw_messages([*wanted, *others], window):
                tell(self._bag.share(received_ns))
                if topic in self._topics:
                    message = self._bag.decode(topic, received_ns, cdr)
                    self.take(topic, received_ns, message, take_command, take_pictures)
                else:
                    assert take_other is not None, "others come with take_other"
                    take_other(topic, received_ns, cdr)
        except BagError as error:
            self.run.damage.append(tell_damage(error))

    @property
    def said(self) -> tuple[str, ...]:
        """Topics in the bag by which the node and the watchdog tell of themselves."""
        told = (topic for topic, kind in self._topics.items() if kind in {"state", WATCHDOG})
        return tuple(topic for topic in told if topic in self._bag.topics)

    def take(
        self,
        topic: str,
        received_ns: int,
        message: Any,
        take_command: TakeCommand | None = None,
        take_pictures: TakePictures | None = None,
    ) -> None:
        """Add what a message of one of the robot's topics says.

        A topic whose messages are of another release is missing. Raises BagError for commands that are so.
        """
        kind = self._topics[topic]
        if topic in self._strange:
            return
        try:
            with self._bag.expecting(topic):
                if kind == "executed":
                    self._take_executed(received_ns, message, take_command)
                elif kind == "observation":
                    self._take_observation(received_ns, message, take_pictures)
                else:
                    getattr(self, f"_take_{kind}")(received_ns, message)
        except StrangeMessageError as error:
            if kind == "executed":
                raise
            self._strange.add(topic)
            self.run.missing.append(f"{error}: {TOPICS.get(kind, 'what it tells is not known')}")

    def read_policies(self, commands: Iterable[Command]) -> None:
        """Add the policies that the recorder noted, or else those of some commands that servers told."""
        try:
            for name, values in self._bag.records():
                if name == POLICY:
                    policy = Policy(*(values.get(key.name, "") for key in fields(Policy)))
                    self.run.policies[policy.fingerprint, policy.server] = policy
            known = {"", *(fingerprint for fingerprint, _ in self.run.policies)}
            self._ask_servers({s for s in map(self.run.served, commands) if s[0] not in known})
        except BagError as error:
            self.run.missing.append(f"the policy's name and revision are not known: {error}")

    def _ask_servers(self, unknown: set[Served]) -> None:
        """Add the policies of these weights, until each was told by the very server."""
        wanted = {fingerprint for fingerprint, _ in unknown}
        topics = [name for name, topic in self._bag.topics.items() if topic.msgtype == SERVER_STATUS]
        if not unknown or not topics:
            return
        for topic, _, status in self._bag.messages(topics):
            with self._bag.expecting(topic):
                policy = Policy(
                    status.policy_fingerprint,
                    status.policy_name,
                    status.policy_revision,
                    status.server,
                    getattr(status, "manifest_digest", ""),  # bags of older releases lack it
                )
            if policy.fingerprint in wanted:
                self.run.policies[policy.fingerprint, policy.server] = policy
                unknown.discard((policy.fingerprint, policy.server))
                if not unknown:
                    return

    def seconds(self, t_ns: int) -> float:
        """Return an instant as seconds since the start of the bag."""
        return (t_ns - self._bag.start_ns) * 1e-9

    def _take_executed(self, received_ns: int, message: Any, take: TakeCommand | None) -> None:
        command = read_command(received_ns, message, self._bag.start_ns)
        self.run.joint_names = self.run.joint_names or tuple(message.joint_names)
        if command.request is not None:
            if command.request in self.run.rows:
                if not command.row_fraction:
                    self.run.rows[command.request].take(command.row)
            else:
                self.run.rows[command.request] = RowsExecuted(command.row, command.row)
        if take is not None:
            take(command)

    def _take_observation(self, received_ns: int, message: Any, take: TakePictures | None) -> None:
        pictures = [*message.images, *message.raw_images]
        named = self._cameras if len(self._cameras) == len(pictures) else ()
        images = tuple(
            look_at(picture, named[place] if named else picture.header.frame_id or f"camera {place}")
            for place, picture in enumerate(pictures)
        )
        request = Request(
            session_id=message.session_id,
            session_epoch=int(message.session_epoch),
            seq_id=int(message.seq_id),
            episode_id=int(message.episode_id),
            episode_start=bool(message.episode_start),
            task=message.task,
            sent_s=self.seconds(stamped_ns(received_ns, message)),
            received_ns=received_ns,
            mono_ns=int(message.client_mono_ns),
            delay_steps=int(message.inference_delay_steps),
            prefix_rows=int(message.prefix_length),
            history_steps=int(getattr(message, "history_steps", 0)),  # bags of older releases lack it
            state=self._state_of(message),
            images=images,
        )
        self.run.requests[request_key(message)] = request
        self.run.times.want(request.mono_ns, of_ticks=request.history_steps > 0)
        if take is not None:
            take(request, pictures)

    def _state_of(self, message: Any) -> tuple[float, ...]:
        """Return the state of a request; with a contract in the robot's units, as all else that is told."""
        state = np.asarray(message.state, np.float64)
        if self._state_units is not None and len(state) == self._state_units.policy_dim:
            state = self._state_units.to_robot(state)
        return tuple(state.tolist())

    def _take_chunk(self, received_ns: int, message: Any) -> None:
        self.run.answers.setdefault(request_key(message), Answer.of(received_ns, message))

    def _take_decisions(self, _: int, message: Any) -> None:
        self.run.times.take(message)

    def _take_state(self, received_ns: int, message: Any) -> None:
        t_s = self.seconds(stamped_ns(received_ns, message))
        before = self.run.standings[-1].paused_s if self.run.standings else None
        standing = Standing(
            t_s=t_s,
            state=state_name(message),
            cause=message.cause,
            paused=bool(message.paused),
            paused_s=(t_s if before is None else before) if message.paused else None,
            pause_cause=getattr(message, "pause_cause", ""),
            stop=getattr(message, "stop", ""),  # bags of older releases lack it and what follows
            taken_over=bool(getattr(message, "taken_over", False)),
            server=message.server,
            task=message.task,
            episode_id=int(message.episode_id),
            stale_sources=tuple(message.stale_sources),
            injected_fault=getattr(message, "injected_fault", ""),
        )
        _append_change(self.run.standings, standing)

    def _take_watchdog(self, received_ns: int, message: Any) -> None:
        t_s = self.seconds(stamped_ns(received_ns, message))
        change = WatchdogChange(t_s, watchdog_name(message.state), message.cause, tuple(message.stops))
        _append_change(self.run.watchdog, change)


def _append_change(seen: list[Any], new: Any) -> None:
    """Append what a node says of itself, unless it says the same as before. Instants do not fall.

    What is told later holds later, though somebody has set the node's clock back.
    """
    if seen and new.t_s < seen[-1].t_s:
        new = replace(new, t_s=seen[-1].t_s)
    if not seen or {**vars(seen[-1]), "t_s": 0.0} != {**vars(new), "t_s": 0.0}:
        seen.append(new)


def tell_damage(error: BagError) -> str:
    """Return what is missing after damage of a bag, in words."""
    return f"nothing behind the damage is told: {error}"


def look_at(picture: Any, camera: str) -> SeenImage:
    """Return the facts of a CompressedImage or an Image."""
    encoding = str(picture.format if hasattr(picture, "format") else picture.encoding)
    width, height = int(getattr(picture, "width", 0)), int(getattr(picture, "height", 0))
    known = find_encoding(picture.format) if hasattr(picture, "format") else None
    if known is not None:
        try:
            height, width = IMAGE_ENCODINGS.get(known).size(picture.data)
        except ImageError:
            width = height = 0
    stamp = picture.header.stamp
    stamp_ns = int(stamp.sec) * 10**9 + int(stamp.nanosec)
    digest = hashlib.sha256(picture.data).hexdigest()
    return SeenImage(camera, encoding, width, height, len(picture.data), digest, stamp_ns or None)
